"""Multiple choice about what the car should do: AutoDrive-QA's planning, answered by the privileged expert."""

from __future__ import annotations

from collections.abc import Iterator

from closedloop_plugin.learn.questions.actions import (
    BRAKE,
    GO,
    KEEP,
    PACE_TEXTS,
    STEERING,
    STOP,
    direction_of,
    pace_class,
)
from closedloop_plugin.learn.questions.evidence import evidence_of
from closedloop_plugin.learn.questions.words import text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion, situation

TASK = "planning"
RULES = ("red_light", "stop_sign", "yield", "speed_limit")  # reasons that are traffic rules
_PACE_ORDER = (STOP, BRAKE, KEEP, GO)
SLOW = 0.6  # share of the speed limit


def planning(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """The pace and the direction; only if the picture shows the expert's reason."""
    frame = asker.frame
    if (evidence := evidence_of(frame)) is None:
        return
    about = situation(frame)
    truth = {"action": frame.action, "reason": frame.reason, "actor": evidence.shown or None}
    if (pace := pace_class(frame)) is not None:
        yield asker.choose(
            "pace-plan", task=TASK, subtask="goal action",
            question=text(f"{about.en} What should we do?", f"{about.zh}我们应该怎么做？"), right=PACE_TEXTS[pace],
            wrong=[(told, pace_error(frame.reason, pace, x)) for x, told in PACE_TEXTS.items() if x != pace],
            group=f"pace|{_speed_class(frame.speed, frame.speed_limit)}", value=pace, truth=truth,
        )  # fmt: skip
    if (direction := direction_of(frame.action)) is not None:
        yield asker.choose(
            "direction-plan", task=TASK, subtask="planning and reasoning",
            question=text(f"{about.en} Where should we steer?", f"{about.zh}我们应该往哪里开？"),
            right=STEERING[direction],
            wrong=[(told, direction_error(direction, x)) for x, told in STEERING.items() if x != direction],
            group=f"direction|{frame.command}", value=direction, truth=truth,
        )  # fmt: skip


def pace_error(reason: str, right: str, wrong: str) -> str:
    """The error behind a wrong pace.

    Faster than right: a rule is broken, or something was not seen. Slower: something was seen that is not there, or,
    with a reason to slow down, the distance was misjudged.
    """
    if _PACE_ORDER.index(wrong) > _PACE_ORDER.index(right):
        return "driving_domain_misconceptions" if reason in RULES else "misinterpreted_sensor_inputs"
    return "misinterpreted_sensor_inputs" if reason == "clear" else "computational_oversights"


def direction_error(right: str, wrong: str) -> str:
    """The error behind a wrong direction: the wrong side was read, else it contradicts the command."""
    mirrored = right.replace("left", "?").replace("right", "left").replace("?", "right")
    return "misinterpreted_sensor_inputs" if wrong == mirrored != right else "logical_inconsistencies"


def _speed_class(speed: float, limit: float) -> str:
    return "standing" if speed < 0.5 else "slow" if speed < SLOW * limit else "fast"
