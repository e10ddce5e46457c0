"""Multiple choice about what happens next: AutoDrive-QA's prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from closedloop_plugin.core.state import STATIC, VEHICLES
from closedloop_plugin.learn.questions.motion import MOTIONS, PACES, motion_of, pace_of
from closedloop_plugin.learn.questions.seen_frame import SeenActor
from closedloop_plugin.learn.questions.words import text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion
from lmms_eval_ad2.records import BilingualText

TASK, SUBTASK = "prediction", "motion prediction"
OPPOSITE = ({"left", "right"}, {"ahead", "closer"}, {"slower", "faster"}, {"stops", "faster"})
STANDING = ("stays", "stops")
ALSO_TRUE = {("stops", "slower"), ("stays", "same")}  # what stops slows down, what stays keeps its speed of 0


def prediction(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The movement of things that can move, and the pace of the vehicle ahead in our lane."""
    for word, actor in asker.singles:
        if actor.kind not in STATIC and (motion := motion_of(actor)) is not None:
            asked = text(f"What will the {word.en} do next?", f"{word.zh}接下来会怎样？")
            yield _asked(asker, f"motion-{word.en}", asked, MOTIONS, motion, actor)
    ahead = [a for a in asker.frame.actors if a.lane == "own" and a.forward > 0]
    first = min(ahead, key=lambda a: a.forward, default=None)
    if first is not None and first.shown and first.kind in VEHICLES and (pace := pace_of(first)) is not None:
        asked = text("How will the vehicle ahead drive?", "前车接下来会怎样行驶？")
        yield _asked(asker, "pace", asked, PACES, pace, first)


def _asked(
    asker: FrameQuestions, name: str, question: BilingualText, texts: Mapping[str, BilingualText], value: str,
    actor: SeenActor,
) -> WorldQuestion:  # fmt: skip
    return asker.choose(
        name, task=TASK, subtask=SUBTASK, question=question, right=texts[value],
        wrong=[(told, error_kind(value, other)) for other, told in texts.items() if _is_wrong(value, other)],
        group=name, value=value,
        truth={"actor": actor.id, "speed": actor.speed, "future": [list(p) for p in actor.future]},
    )  # fmt: skip


def _is_wrong(right: str, other: str) -> bool:
    return other != right and (right, other) not in ALSO_TRUE


def error_kind(right: str, wrong: str) -> str:
    """The error behind a wrong motion: its direction was misread, its speed ignored, or it does not follow."""
    if {right, wrong} in OPPOSITE:
        return "misinterpreted_sensor_inputs"
    if (right in STANDING) != (wrong in STANDING) or {right, wrong} == {"slower", "same"}:
        return "computational_oversights"
    return "logical_inconsistencies"
