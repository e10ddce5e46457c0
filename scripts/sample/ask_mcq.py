"""AutoDrive-QA's three tasks: questions as in DriveLM, with wrong options that the scene rules out.

Questions, answers and options follow from the scene; options of yes-or-no questions have both verdicts. With six views,
objects are named by DriveLM's tags (`<c1,CAM_FRONT,480.0,300.0>`, the centre in pixels of that camera's image),
otherwise in words.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.records import AnswerOption, BilingualText
from scripts.sample.ask import Asker
from scripts.sample.draw import Picture
from scripts.sample.scene import VEHICLES, VRU, Thing
from scripts.sample.words import KINDS, name

_DOMAIN, _LOGIC, _SENSOR, _OVERSIGHT, _READING = ERRORS
_COLOURS, _KINDS = ("white", "red", "blue", "black"), ("car", "van", "truck", "bus")
_CROSSING = ("pedestrian", "cyclist", "motorcyclist")
_SIX = {"lead": "c1", "behind": "c2", "beside_left": "c3"}  # key of a thing -> id in its tag
_FUTURES = {
    "moving": "Keep going straight.", "crossing": "Keep going straight.", "braking": "Brake gently to a stop.",
    "parked": "Stationary.", "working": "Stationary.",
}  # fmt: skip


@dataclass(frozen=True)
class TaxonomyQuestion:
    """An open question and its answer, with its place in the paper's taxonomy.

    wrong: three wrong options, each with its error category and a reason. option: the right option, if not the answer.
    """

    task: str
    subtask: str
    question: str
    answer: str
    wrong: tuple[tuple[str, str, str], ...]
    option: str = ""


def ask_mcq(a: Asker) -> None:
    """Perception, prediction and planning for one front camera image."""
    people, vehicles = sorted(a.asked(*VRU), key=_distance), sorted(a.asked(*VEHICLES), key=_distance)
    near = [*people, *vehicles]
    certain = next(t for t in near if t.state in _FUTURES)
    what = "the nearest person on foot or bicycle" if people else "the nearest vehicle"
    asked = (
        _looks_of(what, near[0]),
        _future(f"the {name(certain).en}", certain),
        _action(a, "the " + ("traffic light" if _must_stop(a) else name(near[0]).en), near[0]),
    )
    for question in asked:
        _add(a, question)


def ask_six_views(a: Asker, pictures: Mapping[str, Picture]) -> None:
    """The same tasks for six cameras. `pictures`: images by camera name."""
    tags = {key: _tag(key, pictures) for key in _SIX}
    lead, behind = (a.scene.get(key) for key in ("lead", "behind"))
    assert lead is not None and behind is not None
    asked = (
        _looks_of(tags["lead"], lead), _looks_of(tags["behind"], behind), _existence(a, behind),
        _future(tags["lead"], lead), _direction(tags["behind"], behind), _action(a, tags["lead"], lead),
        _collision(tags["beside_left"]),
    )  # fmt: skip
    for question in asked:
        _add(a, question)


def _distance(t: Thing) -> float:
    return math.hypot(t.x, t.z)


def _looks(t: Thing) -> str:
    words = name(t).en
    return f"{words[:1].upper()}{words[1:]}."


def _other_looks(t: Thing) -> tuple[str, str, str]:
    """The looks of `t` with another colour, another kind, and both."""
    words = name(t).en
    own = KINDS[t.kind].en
    kind = next(k for k in (_KINDS if t.kind in VEHICLES else _CROSSING) if k != own)
    colour = next(c for c in _COLOURS if c != t.color)
    return words.replace(t.color, colour), words.replace(own, kind), words.replace(own, kind).replace(t.color, colour)


def _looks_of(what: str, t: Thing) -> TaxonomyQuestion:
    colour, kind, both = (f"{words[:1].upper()}{words[1:]}." for words in _other_looks(t))
    wrong = ((colour, _SENSOR, "The colour is misread."), (kind, _DOMAIN, "Neighbouring classes are confused."),
             (both, _READING, "Another object is described."))  # fmt: skip
    return TaxonomyQuestion(
        "perception", "visual description", f"What is the visual description of {what}?", _looks(t), wrong
    )


def _existence(a: Asker, behind: Thing) -> TaxonomyQuestion:
    """Half of the scenes ask about the vehicle behind, the others about a kind of vehicle not in the scene."""
    absent = next(kind for kind in ("bus", "truck", "car", "van") if not a.scene.of(kind))
    kind, yes = (behind.kind, True) if int(a.scene.id[-1]) % 2 else (absent, False)
    other = next(k for k in _KINDS if k not in (kind, behind.kind))
    plural = KINDS[kind].en + ("es" if kind == "bus" else "s")
    one, two, there = f"Yes, one {KINDS[kind].en}.", f"Yes, two {plural}.", f"No, but one {KINDS[behind.kind].en}."
    wrong = (
        (two, _OVERSIGHT, "Miscounted."),
        (f"No, but one {KINDS[other].en}.", _DOMAIN, "Neighbouring classes are confused."),
        (f"No, but two {KINDS[other].en}s." if yes else one, _SENSOR, "What is behind is misread."),
    )
    question = f"Are there {plural} to the back of the ego car?"
    option = one if yes else there
    return TaxonomyQuestion("perception", "surrounding objects", question, "Yes." if yes else "No.", wrong, option)


def _direction(tag: str, t: Thing) -> TaxonomyQuestion:
    own, (colour, _, both) = name(t).en, _other_looks(t)
    wrong = (
        (f"Yes, the {own} will be on its course.", _LOGIC, "What follows the ego vehicle is not in its direction."),
        (f"No, the {colour} will be off its course.", _SENSOR, "The colour is misread."),
        (f"Yes, the {both} will be on its course.", _READING, "Another object is looked at."),
    )
    question = f"Would {tag} be in the moving direction of the ego vehicle?"
    option = f"No, the {own} will be off its course."
    return TaxonomyQuestion("prediction", "object interaction", question, "No.", wrong, option)


def _collision(tag: str) -> TaxonomyQuestion:
    wrong = (
        ("Change to the right lane.", _SENSOR, "The side of the object is misread."),
        ("No such action will lead to a collision.", _LOGIC, "Changing to its lane does."),
        ("Decelerate gradually without braking.", _DOMAIN, "A careful action is taken for a dangerous one."),
    )
    question = f"What actions taken by the ego vehicle can lead to a collision with {tag}?"
    return TaxonomyQuestion("planning", "possible collision", question, "Change to the left lane.", wrong)


def _future(who: str, t: Thing) -> TaxonomyQuestion:
    right = _FUTURES[t.state]
    others = [text for text in ("Turn left.", "Turn right.", "Keep going straight.", "Back up.") if text != right]
    reasons = ((_SENSOR, "The direction of its wheels is misread."), (_LOGIC, "Its motion is concluded from others."),
               (_OVERSIGHT, "Its displacement is computed wrongly."))  # fmt: skip
    wrong = tuple((text, *why) for text, why in zip(others, reasons, strict=False))
    return TaxonomyQuestion("prediction", "motion prediction", f"What is the future state of {who}?", right, wrong)


def _must_stop(a: Asker) -> bool:
    return a.scene.light in ("red", "yellow")


def _action(a: Asker, what: str, t: Thing) -> TaxonomyQuestion:
    """The action that the scene requires, with its reason."""
    if _must_stop(a):
        action, reason = "brake gently to a stop", "to follow the traffic rules"
    elif t.state == "crossing":
        action, reason = "brake gently to a stop", "to avoid a collision"
    else:
        action, reason = "decelerate gradually without braking", "to maintain a safe distance"
    question = (
        f"What actions could the ego vehicle take based on {what}? Why take this action and what's the probability?"
    )

    def answer(chosen: str) -> str:
        return f"The action is to {chosen}. The reason is {reason}, and the probability is high."

    wrong = (
        (answer("accelerate and go ahead"), _OVERSIGHT, "The time to the object is computed wrongly."),
        (answer("turn left"), _DOMAIN, "The lane is no turning lane."),
        (answer("turn right"), _LOGIC, "The reason does not lead to this action."),
    )
    return TaxonomyQuestion("planning", "safe action", question, answer(action), wrong)


def _tag(key: str, pictures: Mapping[str, Picture]) -> str:
    """The DriveLM tag of an object, in the camera with most of its pixels."""
    camera = max(pictures, key=lambda c: seen.pixels if (seen := pictures[c].seen.get(key)) else 0)
    x, y = pictures[camera].seen[key].centre
    return f"<{_SIX[key]},{camera},{x:.1f},{y:.1f}>"


def _add(a: Asker, question: TaxonomyQuestion) -> None:
    """Add a multiple-choice record; the order of its options depends on the scene and the number of records."""
    rows = [(question.option or question.answer, "correct", ""), *question.wrong]
    random.Random(f"{a.scene.id}:{question.task}:{question.subtask}:{len(a.records)}").shuffle(rows)
    lettered = list(zip("ABCD", rows, strict=True))
    a.add(
        question.task, question.subtask, "mc", BilingualText(question.question), BilingualText(question.answer),
        options=tuple(AnswerOption(letter, BilingualText(text), kind) for letter, (text, kind, _) in lettered),
        letter=next(letter for letter, (_, kind, _) in lettered if kind == "correct"), source="sample", maker="rules",
        distractors="all", correctness=None, rounds=0, seed=0,
        reasons={letter: reason for letter, (_, _, reason) in lettered if reason},
    )  # fmt: skip
