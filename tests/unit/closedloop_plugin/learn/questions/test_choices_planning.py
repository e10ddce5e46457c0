"""Multiple choice about what the car should do."""

from __future__ import annotations

from typing import Any

import pytest
from support.collected import UNSEEN, actor, asker, signal

from closedloop_plugin.driver.agents import speaking_expert
from closedloop_plugin.learn.questions.choices import direction_error, pace_error, planning
from closedloop_plugin.learn.questions.outcomes import action_text, direction_of


def label(action: str, acceleration: float) -> dict[str, Any]:
    return {"action": action, "acceleration": acceleration}


def answers(*objects: Any, **changes: Any) -> dict[str, str]:
    found = planning(asker(*objects, **changes))
    return {q.record.question.en.rpartition(". ")[2]: q.record.answer.en for q in found}


@pytest.mark.parametrize(
    ("action", "acceleration", "speed", "pace"),
    [
        ("Accelerate gently and go straight.", 1.5, 3.0, "Accelerate."),
        ("Keep the speed and go straight.", 0.1, 6.0, "Keep the speed."),
        ("Brake and go straight.", -3.0, 6.0, "Brake."),
        ("Slow down and go straight.", -1.2, 6.0, "Brake."),
        ("Slow down and go straight.", -0.6, 6.0, None),
        ("Stop and go straight.", 0.0, 0.0, "Stop and wait."),
        ("Stop and go straight.", -2.0, 1.5, None),
        ("Accelerate and go straight.", 3.0, 0.0, "Accelerate."),
    ],
)
def test_the_pace(action: str, acceleration: float, speed: float, pace: str | None) -> None:
    found = answers(label=label(action, acceleration), speed=speed)
    assert found.get("What should we do?") == pace
    assert found["Where should we steer?"] == "Go straight."


def test_the_direction() -> None:
    found = answers(label=label("Slow down and change lane to the left.", -1.5))
    assert found == {"What should we do?": "Brake.", "Where should we steer?": "Change lane to the left."}
    slight = answers(label=label("Slow down and steer slightly to the left.", -1.5))
    assert "Where should we steer?" not in slight


def test_a_reason_that_is_not_shown_is_not_asked() -> None:
    brake = label("Brake and go straight.", -3.0)
    assert answers(actor(), reason="vehicle_ahead", of="1", label=brake)
    assert answers(actor(**UNSEEN), reason="vehicle_ahead", of="1", label=brake) == {}
    assert answers(reason="red_light", signals=[signal(**UNSEEN)], label=brake) == {}


def test_kinds_of_errors() -> None:
    assert pace_error("red_light", "brake", "go") == "driving_domain_misconceptions"
    assert pace_error("actor", "brake", "keep") == "misinterpreted_sensor_inputs"
    assert pace_error("clear", "go", "brake") == "misinterpreted_sensor_inputs"
    assert pace_error("vehicle_ahead", "brake", "stop") == "computational_oversights"
    assert direction_error("turn left", "turn right") == "misinterpreted_sensor_inputs"
    assert direction_error("go straight", "turn right") == "logical_inconsistencies"


def test_every_phrase_of_the_expert_has_a_translation() -> None:
    slight = {f"steer slightly to the {side}" for side in ("left", "right")}
    change = {f"change lane to the {side}" for side in ("left", "right")}
    directions = slight | change | set(speaking_expert.DIRECTIONS.values())
    for pace in (*(phrase for phrase, _ in speaking_expert.PACES), speaking_expert.STOP):
        for direction in directions:
            action = f"{pace.capitalize()} and {direction}."
            told = action_text(action)
            assert told is not None and told.zh, action
            assert direction_of(action) == (None if direction in slight else direction)
    assert action_text("Hover and go straight.") is None
