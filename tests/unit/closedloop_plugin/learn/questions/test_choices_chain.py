"""Chains of thought from the expert's reason."""

from __future__ import annotations

from typing import Any

import pytest
from support.collected import UNSEEN, actor, asker, signal

from closedloop_plugin.learn.questions.choices import chain
from lmms_eval_ad2.core.records import Lang

BRAKING = {"acceleration": -3.0, "action": "Brake and go straight."}
CROSSING = [[12.0, 5.0 - k] for k in range(1, 7)]
WALKER: dict[str, Any] = {
    "kind": "pedestrian", "forward": 12.0, "left": 5.0, "yaw": -1.57, "length": 0.5, "width": 0.5,
    "future": CROSSING,
}  # fmt: skip


def steps(*objects: Any, lang: Lang = "en", **changes: Any) -> list[str]:
    found = list(chain(asker(*objects, **changes)))
    assert len(found) <= 1
    return [step.answer.get(lang) for question in found for step in question.record.steps]


def test_a_person_who_crosses() -> None:
    person = actor("p", **WALKER)
    told = {"reason": "actor", "of": "p", "label": BRAKING}
    # atan2(5, 12) is 22.6 degrees to the left, hypot(12, 5) is 13 m, less about half a width.
    assert steps(person, **told) == [
        "A person ahead on the left, 13 m.", "It crosses to the right.", "Brake and go straight.",
    ]  # fmt: skip
    assert steps(person, lang="zh", **told) == ["左前方13米有行人。", "它向右横穿。", "制动，直行。"]


def test_the_question_states_what_a_driver_knows_besides_the_picture() -> None:
    (question,) = chain(asker(stays_free=True))
    assert question.record.question.en == ("We drive 6 m/s, limit 8 m/s, command: lane follow. What should the car do?")
    assert question.record.question.zh == "车速6米/秒，限速8米/秒，指令：沿车道行驶。我们的车应该怎么做？"
    assert (question.record.form, question.record.subtask) == ("chain", "cot")


def test_a_vehicle_ahead_that_stops() -> None:
    stopping = [[22.0, 0.0], [24.0, 0.0], [25.0, 0.0], [25.5, 0.0], [25.6, 0.0], [25.6, 0.0]]
    lead = actor("c", kind="bus", length=10.0, future=stopping)
    found = steps(lead, reason="vehicle_ahead", of="c", label=BRAKING)
    assert found[:2] == ["A bus ahead, 15 m.", "It stops."]
    assert steps({**lead, "pixels": 20}, reason="vehicle_ahead", of="c", label=BRAKING)[0] == "A vehicle ahead, 15 m."


@pytest.mark.parametrize(
    ("objects", "signals", "reason"),
    [
        ([actor("p", **{**WALKER, "visible": 0.1})], [], "actor"),  # occluded
        ([actor("p", **{**WALKER, "pixels": 6})], [], "actor"),  # too far, or dark
        ([actor("p", **{**WALKER, "future": CROSSING[:3]})], [], "actor"),  # the episode ended
        ([], [], "actor"),
        ([], [signal(**UNSEEN)], "red_light"),
        ([], [signal(on_route=False, distance=None)], "red_light"),
        ([], [signal(state_pixels=0)], "red_light"),
        ([], [], "yield"),
    ],
)
def test_a_reason_that_the_picture_does_not_show_is_not_asked(objects: Any, signals: Any, reason: str) -> None:
    assert steps(*objects, signals=signals, reason=reason, of="p", label=BRAKING) == []


def test_lights_signs_and_the_road() -> None:
    stop = {"acceleration": 0.0, "action": "Stop and go straight."}
    found = steps(signals=[signal()], reason="red_light", label=stop, speed=0.0)
    assert found == ["A red light.", "The line is 18 m away.", "Stop and go straight."]
    assert steps(signals=[signal(control="stop", state=None)], reason="stop_sign", label=stop)[0] == "A stop sign."
    assert steps(reason="curve")[:2] == ["A bend.", "The road bends."]
    assert steps(reason="speed_limit", stays_free=True)[:2] == ["Nothing in the way.", "We are fast enough."]


@pytest.mark.parametrize(
    ("objects", "signals"),
    [
        ([], [signal()]),  # red, and the car may still creep to its line
        ([], [signal(state_pixels=0)]),
        ([], [signal(control="stop", state=None)]),
        ([actor()], []),
        ([actor(lane="oncoming", left=1.0, pixels=5)], []),  # straight ahead, on a bend or while we are in its lane
    ],
)
def test_a_way_on_which_somebody_is_shown_is_not_called_free(objects: Any, signals: Any) -> None:
    assert steps(*objects, signals=signals, stays_free=True) == []


def test_what_does_not_stand_in_the_way_leaves_it_free() -> None:
    beside, behind = actor(lane="left", left=3.5), signal(distance=-1.0)
    signs = [signal("2", state="green"), behind, signal("3", control="yield", state=None), signal("4", on_route=False)]
    assert steps(beside, actor("2", forward=45.0), signals=signs, stays_free=True)[0] == "Nothing in the way."
    assert steps(actor(**UNSEEN), stays_free=True)[0] == "Nothing in the way."


def test_a_road_that_does_not_stay_free_is_not_said_to() -> None:
    assert steps(stays_free=True)[:2] == ["Nothing in the way.", "The road stays free."]
    assert steps(stays_free=False) == steps(stays_free=None) == []
