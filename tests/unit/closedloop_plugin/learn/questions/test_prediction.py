"""Multiple choice about the next seconds."""

from __future__ import annotations

from typing import Any

import pytest
from support.collected import actor, asker, frame_row, seen

from closedloop_plugin.learn.questions.motion import motion_of, pace_of
from closedloop_plugin.learn.questions.prediction import error_kind, prediction


def line(ahead: float, across: float) -> list[list[float]]:
    """Positions from (20, 0), `ahead` and `across` metres per step."""
    return [[20.0 + ahead * k, across * k] for k in range(1, 7)]


@pytest.mark.parametrize(
    ("future", "motion"),
    [
        (line(0.0, 0.0), "stays"), (line(1.0, 0.0), "ahead"), (line(-1.0, 0.1), "closer"), (line(0.1, 0.7), "left"),
        (line(0.0, -0.7), "right"), (line(0.7, 0.7), None), (line(0.2, 0.0), None), (line(1.0, 0.0)[:5], None),
    ],
)  # fmt: skip
def test_classes_of_motion(future: list[list[float]], motion: str | None) -> None:
    (one,) = seen(frame_row(actor(future=future))).actors
    assert motion_of(one) == motion


@pytest.mark.parametrize(
    ("now", "then", "pace"),
    [
        (0.0, 0.0, "stays"), (0.0, 4.0, "faster"), (5.0, 5.2, "same"), (5.0, 2.0, "slower"), (5.0, 0.0, "stops"),
        (5.0, 7.0, "faster"), (5.0, 4.2, None), (1.0, 0.0, None),
    ],
)  # fmt: skip
def test_classes_of_pace(now: float, then: float, pace: str | None) -> None:
    future = [[20.0, 0.0]] * 5 + [[20.0 + then / 2, 0.0]]  # the last step of 0.5 s
    (one,) = seen(frame_row(actor(speed=now, future=future))).actors
    assert pace_of(one) == pace


def answers(*objects: Any) -> dict[str, str]:
    return {q.record.question.en: q.record.answer.en for q in prediction(asker(*objects))}


def test_questions() -> None:
    person = actor("p", kind="child", lane="off", future=line(0.0, 0.7))
    assert answers(person) == {"What will the person do next?": "It crosses to the left."}
    lead = actor("c", kind="bus", speed=5.0)
    assert answers(lead, actor("d", kind="bus", forward=40.0)) == {
        "How will the vehicle ahead drive?": "It keeps its speed."
    }
    assert answers(actor(kind="cone")) == {}
    assert answers({**person, "visible": 0.2}) == {}


@pytest.mark.parametrize(
    ("speed", "right", "also_true"), [(5.0, "It stops.", "It slows down."), (0.0, "It stays.", "It keeps its speed.")]
)
def test_no_wrong_option_is_true_as_well(speed: float, right: str, also_true: str) -> None:
    lead = actor("c", kind="bus", speed=speed, future=[[20.0, 0.0]] * 6)
    for seed in range(30):
        for question in prediction(asker(lead, actor("d", kind="bus", forward=40.0), seed=seed)):
            assert question.record.answer.en == right
            assert also_true not in {option.text.en for option in question.record.options}


def test_kinds_of_errors() -> None:
    assert error_kind("left", "right") == error_kind("slower", "faster") == "misinterpreted_sensor_inputs"
    assert error_kind("left", "stays") == error_kind("same", "slower") == "computational_oversights"
    assert error_kind("left", "ahead") == "logical_inconsistencies"
