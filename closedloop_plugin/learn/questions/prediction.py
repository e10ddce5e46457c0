"""Multiple choice about what happens next: AutoDrive-QA's prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set

from closedloop_plugin.core.state import STATIC
from closedloop_plugin.learn.questions.motion import MOTIONS, PACES, changes_of_distance, motion_of, pace_of
from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import CARS, text
from closedloop_plugin.learn.questions.world_question import LETTERS, FrameQuestions, WorldQuestion
from lmms_eval_ad2.core.records import BilingualText

TASK, SUBTASK = "prediction", "motion prediction"
OPPOSITE = ({"left", "right"}, {"ahead", "closer"}, {"slower", "faster"}, {"stops", "faster"})
STANDING = ("stays", "stops")
ALSO_TRUE = {"stops": {"slower"}, "stays": {"same"}}  # what stops slows down, what stays keeps its speed of 0
OUR_WAY = math.radians(45)  # largest angle between the directions of the car and of the vehicle ahead


def prediction(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The movement of things that can move, and the pace of the vehicle ahead in our lane."""
    for word, actor in asker.singles:
        if actor.kind not in STATIC and (motion := motion_of(actor)) is not None:
            asked = text(f"What will the {word.en} do next?", f"{word.zh}接下来会怎样？")
            yield from _asked(
                asker, f"motion-{word.en}", asked, MOTIONS, motion, actor=actor, also_true=changes_of_distance(actor)
            )
    first = next(iter(asker.frame.lane_ahead), None)
    if first is not None and asker.frame.in_lane and _leads(first) and (pace := pace_of(first)) is not None:
        asked = text("How will the vehicle ahead drive?", "前车接下来会怎样行驶？")
        yield from _asked(asker, "pace", asked, PACES, pace, actor=first, also_true=ALSO_TRUE.get(pace, set()))


def _leads(actor: SeenActor) -> bool:
    """Whether it is shown as the vehicle ahead: not round a corner, and neither crossing nor oncoming."""
    return actor.shown and actor.kind in CARS and actor.is_ahead and abs(actor.yaw) <= OUR_WAY


def _asked(
    asker: FrameQuestions, name: str, question: BilingualText, texts: Mapping[str, BilingualText], value: str, *,
    actor: SeenActor, also_true: Set[str],
) -> Iterator[WorldQuestion]:  # fmt: skip
    """also_true: classes that are no wrong options. Not asked if fewer than three wrong ones are left."""
    wrong = [(told, error_kind(value, other)) for other, told in texts.items() if other not in {value, *also_true}]
    if len(wrong) >= len(LETTERS) - 1:
        yield asker.choose(
            name, task=TASK, subtask=SUBTASK, question=question, right=texts[value], wrong=wrong, group=name,
            value=value, truth={"actor": actor.id, "speed": actor.speed, "future": [list(p) for p in actor.future]},
        )  # fmt: skip


def error_kind(right: str, wrong: str) -> str:
    """The error behind a wrong motion: its direction was misread, its speed ignored, or it does not follow."""
    if {right, wrong} in OPPOSITE:
        return "misinterpreted_sensor_inputs"
    if (right in STANDING) != (wrong in STANDING) or {right, wrong} == {"slower", "same"}:
        return "computational_oversights"
    return "logical_inconsistencies"
