"""AutoDrive-QA's three tasks: open questions as in DriveLM, converted to multiple choice by the rules of `mcq.rules`.

Questions and answers follow from the scene. With six views, objects are named by DriveLM's tags
(`<c1,CAM_FRONT,480.0,300.0>`, the centre in pixels of that camera's image), otherwise in words.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.mcq.base import AcceptedQuestion, OpenQuestion
from lmms_eval_ad2.mcq.makers.rules_maker import RulesMaker
from lmms_eval_ad2.records import AnswerOption, BilingualText, Record
from scripts.sample.ask import Asker
from scripts.sample.draw import Picture
from scripts.sample.scene import VEHICLES, VRU, Thing
from scripts.sample.words import KINDS, name

_SIX = {"lead": "c1", "behind": "c2", "beside_left": "c3"}  # key of a thing -> id in its tag
_FUTURES = {
    "moving": "Keep going straight.", "crossing": "Keep going straight.", "braking": "Brake gently to a stop.",
    "parked": "Stationary.", "working": "Stationary.",
}  # fmt: skip


@dataclass(frozen=True)
class TaxonomyQuestion:
    """An open question and its answer, with its place in the paper's taxonomy."""

    task: str
    subtask: str
    question: str
    answer: str


def ask_mcq(a: Asker) -> None:
    """Perception, prediction and planning for one front camera image."""
    people, vehicles = sorted(a.asked(*VRU), key=_distance), sorted(a.asked(*VEHICLES), key=_distance)
    near = [*people, *vehicles]
    certain = next(t for t in near if t.state in _FUTURES)
    what = "the nearest person on foot or bicycle" if people else "the nearest vehicle"
    _make(
        a,
        [
            TaxonomyQuestion(
                "perception", "visual description", f"What is the visual description of {what}?", _looks(near[0])
            ),
            _future(f"the {name(certain).en}", certain),
            _action(a, "the " + ("traffic light" if _must_stop(a) else name(near[0]).en), near[0]),
        ],
    )


def ask_six_views(a: Asker, pictures: Mapping[str, Picture]) -> None:
    """The same tasks for six cameras. `pictures`: images by camera name."""
    tags = {key: _tag(key, pictures) for key in _SIX}
    lead, behind = (a.scene.get(key) for key in ("lead", "behind"))
    assert lead is not None and behind is not None
    looks = "What is the visual description of {}?"
    collide = f"What actions taken by the ego vehicle can lead to a collision with {tags['beside_left']}?"
    _make(
        a,
        [
            TaxonomyQuestion("perception", "visual description", looks.format(tags["lead"]), _looks(lead)),
            TaxonomyQuestion("perception", "visual description", looks.format(tags["behind"]), _looks(behind)),
            _existence(a, behind),
            _future(tags["lead"], lead),
            TaxonomyQuestion(
                "prediction", "object interaction",
                f"Would {tags['behind']} be in the moving direction of the ego vehicle?", "No.",
            ),
            _action(a, tags["lead"], lead),
            TaxonomyQuestion("planning", "possible collision", collide, "Change to the left lane."),
        ],
        [{**_entry(tags[key]), "info": _info(a.scene.get(key))} for key in _SIX],
    )  # fmt: skip


def _distance(t: Thing) -> float:
    return math.hypot(t.x, t.z)


def _looks(t: Thing) -> str:
    words = name(t).en
    return f"{words[:1].upper()}{words[1:]}."


def _existence(a: Asker, behind: Thing) -> TaxonomyQuestion:
    """Half of the scenes ask about the vehicle behind, the others about a kind of vehicle not in the scene."""
    absent = next(kind for kind in ("bus", "truck", "car", "van") if not a.scene.of(kind))
    kind, answer = (behind.kind, "Yes.") if int(a.scene.id[-1]) % 2 else (absent, "No.")
    plural = KINDS[kind].en + ("es" if kind == "bus" else "s")
    return TaxonomyQuestion(
        "perception", "surrounding objects", f"Are there {plural} to the back of the ego car?", answer
    )


def _future(who: str, t: Thing) -> TaxonomyQuestion:
    return TaxonomyQuestion("prediction", "motion prediction", f"What is the future state of {who}?", _FUTURES[t.state])


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
    answer = f"The action is to {action}. The reason is {reason}, and the probability is high."
    return TaxonomyQuestion("planning", "safe action", question, answer)


def _tag(key: str, pictures: Mapping[str, Picture]) -> str:
    """The DriveLM tag of an object, in the camera with most of its pixels."""
    camera = max(pictures, key=lambda c: seen.pixels if (seen := pictures[c].seen.get(key)) else 0)
    x, y = pictures[camera].seen[key].centre
    return f"<{_SIX[key]},{camera},{x:.1f},{y:.1f}>"


def _entry(tag: str) -> dict[str, Any]:
    number, camera, x, y = tag.strip("<>").split(",")
    return {"id": number, "camera": camera, "x": float(x), "y": float(y)}


def _info(t: Thing | None) -> dict[str, str]:
    assert t is not None
    return {"Category": "Vehicle" if t.kind in VEHICLES else "Pedestrian", "Visual_description": _looks(t)}


def _make(a: Asker, questions: list[TaxonomyQuestion], objects: list[dict[str, Any]] | None = None) -> None:
    """Add one multiple-choice record per question. `objects`: attributes of the tagged objects, as in DriveLM."""
    scene = tuple(
        Record(
            id=f"{a.scene.id}/{number}",
            benchmark="drivelm",
            task=s.task,
            subtask=s.subtask,
            form="vqa",
            images=a.images,
            question=BilingualText(s.question),
            answer=BilingualText(s.answer),
            meta={"objects": objects or []},
        )
        for number, s in enumerate(questions)
    )
    maker = RulesMaker()
    for s, record in zip(questions, scene, strict=True):
        made = maker.one(OpenQuestion(record.id, record, "drivelm", s.task, s.subtask, s.answer, Path(), scene))
        assert isinstance(made, AcceptedQuestion), made
        _add(a, s, made, maker.label)


def _add(a: Asker, question: TaxonomyQuestion, made: AcceptedQuestion, maker: str) -> None:
    rows = [(question.answer, "correct", ""), *((d.text, d.category, d.reason) for d in made.distractors)]
    random.Random(f"{a.scene.id}:{question.task}:{question.subtask}:{len(a.records)}").shuffle(rows)
    lettered = list(zip("ABCD", rows, strict=True))
    a.add(
        question.task, question.subtask, "mc", BilingualText(question.question), BilingualText(question.answer),
        options=tuple(AnswerOption(letter, BilingualText(text), kind) for letter, (text, kind, _) in lettered),
        letter=next(letter for letter, (_, kind, _) in lettered if kind == "correct"), source="sample", maker=maker,
        distractors="all", correctness=None, rounds=0, seed=0,
        reasons={letter: reason for letter, (_, _, reason) in lettered if reason},
    )  # fmt: skip
