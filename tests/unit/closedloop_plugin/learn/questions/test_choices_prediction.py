"""Multiple choice about the next seconds."""

from __future__ import annotations

from typing import Any

import pytest
from support.collected import actor, asker, frame_row, seen

from closedloop_plugin.learn.questions.choices import error_kind, prediction
from closedloop_plugin.learn.questions.outcomes import motion_of, pace_of


def line(ahead: float, across: float, start: float = 20.0) -> list[list[float]]:
    """Positions from (start, 0), `ahead` and `across` metres per step."""
    return [[start + ahead * k, across * k] for k in range(1, 7)]


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
    ("future", "ours", "motion", "never_offered"),
    [
        (line(1.0, 0.0), 2.0, None, ""),  # it drives away from here, and we catch up with it
        (line(1.0, 0.0), 0.0, "It moves away.", ""),
        (line(-1.0, 0.0), 0.0, "It comes closer.", ""),
        (line(0.0, 0.0), 1.0, "It stays.", "It comes closer."),
        (line(0.0, 0.0), -1.0, "It stays.", "It moves away."),
        (line(0.0, 1.0), 1.0, "It crosses to the left.", "It comes closer."),
        (line(0.0, 0.0), 8.0, None, ""),  # 20 m ahead, then 28 m behind: both are true
    ],
)
def test_what_our_own_drive_makes_true_is_no_wrong_option(
    future: list[list[float]], ours: float, motion: str | None, never_offered: str
) -> None:
    """`ours`: metres that the car drives per step."""
    for seed in range(20):
        found = list(prediction(asker(actor(lane="off", future=future), future=line(ours, 0.0, 0.0), seed=seed)))
        assert [question.record.answer.en for question in found] == ([motion] if motion else [])
        assert all(never_offered not in {o.text.en for o in question.record.options} for question in found)


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
    "changes",
    [{"kind": "bicycle"}, {"yaw": 3.1}, {"yaw": 1.5}, {"left": 9.0}],
    ids=["a bicycle", "oncoming", "crossing", "round a corner"],
)
def test_what_is_no_vehicle_ahead(changes: dict[str, Any]) -> None:
    lead = actor("c", **{"kind": "bus", "speed": 5.0, **changes})
    assert "How will the vehicle ahead drive?" not in answers(lead, actor("d", kind="bus", forward=40.0))


def test_no_vehicle_is_ahead_while_the_car_is_in_another_lane() -> None:
    assert not list(prediction(asker(actor(), actor("d", forward=40.0), route_offset=3.4)))


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
