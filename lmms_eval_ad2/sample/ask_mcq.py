"""AutoDrive-QA's three tasks: one right option and three whose error category is known."""

from __future__ import annotations

import random
from collections.abc import Mapping

from lmms_eval_ad2.records import Option, Text
from lmms_eval_ad2.sample.ask import Asker
from lmms_eval_ad2.sample.scene import VEHICLES, VRU, Thing
from lmms_eval_ad2.sample.words import KINDS, conditions, name, place, side

DOMAIN, LOGIC = "driving_domain_misconceptions", "logical_inconsistencies"
SENSOR, OVERSIGHT, AMBIGUITY = "misinterpreted_sensor_inputs", "computational_oversights", "question_ambiguity"


def ask_mcq(a: Asker) -> None:
    """Perception, prediction and planning of one front camera picture."""
    t = next(iter(a.asked(*VRU) or a.asked(*VEHICLES) or a.asked()))
    _what(a, t)
    _next(a, t)
    _do(a, t)


def ask_six_views(a: Asker, around: Mapping[str, list[Thing]]) -> None:
    """The same tasks over six cameras. `around`: what each camera clearly shows, by its name."""
    _which_camera(a, around)
    _behind(a, around)
    t = next(t for t in around["CAM_FRONT"] if t.key == "lead")
    _what(a, t)
    _next(a, t)
    _do(a, t)
    _lane_change(a, around)
    _overtaken(a, around)


def _add(a: Asker, task: str, subtask: str, question: str, right: str, wrong: Mapping[str, str]) -> None:
    rows = [(right, "correct"), *((text, kind) for kind, text in wrong.items())]
    assert len(rows) == 4, question
    assert len({text for text, _ in rows}) == 4, rows
    random.Random(f"{a.scene.id}:{task}:{subtask}:{len(a.records)}").shuffle(rows)
    options = tuple(Option(letter, Text(text), kind) for letter, (text, kind) in zip("ABCD", rows, strict=True))
    letter = next(o.letter for o in options if o.kind == "correct")
    a.add(task, subtask, "mc", Text(question), Text(right), options=options, letter=letter, source="sample")


def _tag(a: Asker, t: Thing) -> str:
    """DriveLM's way to name an object; plain words where the picture has no camera name."""
    if not a.views or t.key not in a.picture.seen:
        return f"the {name(t).en}"
    x, y = a.centre(t)
    return f"<c1,CAM_FRONT,{x:.1f},{y:.1f}>"


def _what(a: Asker, t: Thing) -> None:
    meters = round(abs(t.z))
    other = "truck" if t.kind != "truck" else "bus"
    opposite = {"left": "on the right side of the road", "right": "in the oncoming lane", "ahead": "on the pavement"}[
        side(t)
    ]
    q = (
        f"What is {_tag(a, t)}, and where is it?"
        if a.views
        else "Which road user is the most important one for the ego car, and where is it?"
    )
    _add(
        a,
        "perception",
        "important objects",
        q,
        f"A {name(t).en}, {place(t, a.scene).en}",
        {
            SENSOR: f"A {KINDS[other].en}, {place(t, a.scene).en}",
            OVERSIGHT: f"A {name(t).en}, about {meters * 4} m away",
            LOGIC: f"A {name(t).en}, {opposite}, about {meters} m away",
        },
    )


_FUTURES: dict[str, tuple[str, str]] = {
    "crossing": (
        "It goes on crossing the road in front of the ego car",
        "It stays where it is until the ego car has passed",
    ),
    "braking": ("It slows down further and may stop", "It speeds up and pulls away from the ego car"),
    "moving": ("It goes on along its lane at about the same speed", "It stops at once in the middle of its lane"),
    "parked": ("It stays parked at the roadside", "It comes towards the ego car in the oncoming lane"),
    "waiting": ("It waits and may step onto the road when there is a gap", "It runs along the middle of the ego lane"),
    "working": ("They stay behind the barrier and go on working", "They walk along the middle of the ego lane"),
}


def _next(a: Asker, t: Thing) -> None:
    right, sensor = _FUTURES.get(t.state, ("It stays where it is", "It moves towards the ego car"))
    _add(
        a,
        "prediction",
        "motion prediction",
        f"What will {_tag(a, t)} most likely do next?",
        right,
        {
            SENSOR: sensor,
            LOGIC: "It turns around on the spot, because the road ahead of it is free",
            DOMAIN: "It gives way to the ego car, because whoever is faster goes first",
        },
    )


def _do(a: Asker, t: Thing) -> None:
    c = conditions(a.scene).en
    if a.scene.light in ("red", "yellow"):
        right = f"Slow down and stop at the line, because the traffic light is {a.scene.light}"
        wrong = {
            DOMAIN: "Speed up to pass before other traffic starts to move",
            SENSOR: "Drive on, because the traffic light is green",
            AMBIGUITY: "Do what the traffic situation allows",
        }
    elif t.state == "crossing":
        right = f"Slow down, stop and let the {name(t).en} cross"
        wrong = {
            DOMAIN: f"Sound the horn so that the {name(t).en} runs",
            OVERSIGHT: "Brake only 2 m before it, which is enough at this speed",
            AMBIGUITY: "Behave carefully",
        }
    elif side(t) == "ahead":
        right = f"Keep a safe distance behind the {name(t).en} and be ready to brake"
        wrong = {
            DOMAIN: "Close up to half a car's length to save fuel",
            LOGIC: "Speed up, because the vehicle ahead is slower",
            OVERSIGHT: "Keep 2 m of distance, enough for any speed",
        }
    else:
        right = f"Stay in the lane, slow down and leave room for the {name(t).en}"
        wrong = {
            DOMAIN: "Move into the oncoming lane and stay there",
            LOGIC: "Speed up, because something is beside the road",
            AMBIGUITY: "Drive as usual",
        }
    _add(a, "planning", "safe action", f"The scene shows {c}. Which action of the ego car is safe now?", right, wrong)


def _which_camera(a: Asker, around: Mapping[str, list[Thing]]) -> None:
    camera, t = next(
        ((c, ts[0]) for c, ts in around.items() if c != "CAM_FRONT" and ts), ("CAM_FRONT", around["CAM_FRONT"][0])
    )
    shown_in = {c for c, ts in around.items() if t.key in {o.key for o in ts}}
    free = [c for c in around if c not in shown_in and c != camera]
    _add(
        a,
        "perception",
        "surrounding objects",
        f"Which camera shows a {name(t).en}?",
        camera,
        dict(zip((SENSOR, LOGIC, OVERSIGHT), free, strict=False)),
    )


def _behind(a: Asker, around: Mapping[str, list[Thing]]) -> None:
    t = next(t for t in around["CAM_BACK"] if t.key == "behind")
    wrong = [k for k in ("car", "van", "truck", "bus") if k != t.kind]
    _add(
        a,
        "perception",
        "surrounding objects",
        "Which kind of vehicle follows the ego car?",
        f"A {KINDS[t.kind].en}",
        {
            SENSOR: f"A {KINDS[wrong[0]].en}",
            OVERSIGHT: f"Two vehicles: a {KINDS[t.kind].en} and a {KINDS[wrong[1]].en}",
            LOGIC: "No vehicle follows",
        },
    )


def _lane_change(a: Asker, around: Mapping[str, list[Thing]]) -> None:
    t = a.scene.get("beside_left")
    assert t is not None
    _add(
        a,
        "planning",
        "possible collision",
        "The ego car wants to move to the left. What must it do first?",
        f"Wait until the {name(t).en} on the left is clear of the way",
        {
            SENSOR: "Nothing: the cameras on the left show an empty road",
            LOGIC: f"Move to the left at once, so that the {name(t).en} must get out of the way",
            DOMAIN: "Switch on the hazard lights, which gives it the right of way",
        },
    )


def _overtaken(a: Asker, around: Mapping[str, list[Thing]]) -> None:
    t = a.scene.get("behind")
    assert t is not None
    _add(
        a,
        "prediction",
        "object interaction",
        f"The ego car brakes hard. What will the {name(t).en} behind it have to do?",
        "It has to brake too, after its driver has reacted",
        {
            DOMAIN: "Nothing, because whoever drives in front is to blame for a collision",
            LOGIC: "It has to speed up to keep its distance",
            OVERSIGHT: "It stops in the same moment, because no time passes before its driver reacts",
        },
    )
