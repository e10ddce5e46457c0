"""Existence: asked only if a person could be sure from the picture."""

from __future__ import annotations

from typing import Any

import pytest
from support.collected import UNSEEN, actor, asker, signal

from closedloop_plugin.learn.questions.things import existence


def answers(*objects: Any, **changes: Any) -> dict[str, str]:
    """Question in English -> answer."""
    return {q.record.question.en: q.record.answer.en for q in existence(asker(*objects, **changes))}


def test_an_empty_picture_has_nothing() -> None:
    found = answers()
    assert found["Is there a vehicle?"] == found["Is there an animal?"] == found["Is there a traffic light?"] == "no"
    assert set(found.values()) == {"no"} and not any("left" in question for question in found)


def test_a_car_is_a_vehicle_and_no_truck() -> None:
    found = answers(actor(kind="car"))
    assert (found["Is there a car?"], found["Is there a vehicle?"]) == ("yes", "yes")
    assert (found["Is there a truck?"], found["Is there a person?"]) == ("no", "no")


@pytest.mark.parametrize(
    "changes", [{"pixels": 11}, {"visible": 0.29}, {"pixels": 0}, {"box": None, "pixels": 5}], ids=str
)
def test_what_is_small_or_hidden_or_dark_is_not_asked(changes: dict[str, Any]) -> None:
    found = answers(actor(kind="pedestrian", **changes))
    assert "Is there a person?" not in found and found["Is there a vehicle?"] == "no"


def test_what_does_not_appear_at_all_is_not_there() -> None:
    """Behind the ego, or completely occluded."""
    assert answers(actor(kind="pedestrian", **UNSEEN))["Is there a person?"] == "no"


def test_a_distant_vehicle_is_a_vehicle_but_of_no_sure_kind() -> None:
    found = answers(actor(kind="van", pixels=20))
    assert found["Is there a vehicle?"] == "yes"
    assert not {"Is there a van?", "Is there a car?"} & set(found)


def test_a_bicycle_has_a_rider_and_may_be_a_vehicle() -> None:
    """Nothing is asked about people, nor about vehicles, unless there is one for sure."""
    assert not {"Is there a person?", "Is there a vehicle?"} & set(answers(actor(kind="bicycle")))
    both = answers(actor(kind="bicycle"), actor("2", kind="bus"), actor("3", kind="pedestrian"))
    assert both["Is there a vehicle?"] == both["Is there a person?"] == "yes"


@pytest.mark.parametrize(("box", "side"), [([10, 40, 30, 50], "left"), ([130, 40, 150, 50], "right")])
def test_the_side_of_a_single_thing(box: list[int], side: str) -> None:
    found = answers(actor(kind="bus", box=box))
    assert found["Is the bus on the left or the right?"] == side
    other = actor("2", kind="bus", box=[60, 40, 80, 50])
    assert "Is the bus on the left or the right?" not in answers(actor(kind="bus", box=box), other)


def test_a_thing_near_the_middle_has_no_side() -> None:
    assert "Is the car on the left or the right?" not in answers(actor(box=[80, 40, 100, 50]))  # 10 of 160 pixels off


def test_signs() -> None:
    assert answers(signals=[signal()])["Is there a traffic light?"] == "yes"
    assert "Is there a traffic light?" not in answers(signals=[signal(pixels=8)])
    assert answers(signals=[signal(control="stop", state=None)])["Is there a stop sign?"] == "yes"
    assert answers(signals=[signal(control="stop", state=None, **UNSEEN)])["Is there a stop sign?"] == "no"


@pytest.mark.parametrize(
    ("changes", "night"),
    [
        ({"on_route": False, "distance": None}, 0.0),  # of another road: its back or its side
        ({"distance": -2.0}, 0.0),
        ({"visible": 0.2}, 0.0),
        ({"pixels": 20}, 1.0),
    ],
)
def test_a_stop_sign_is_asked_only_if_its_front_is_shown(changes: dict[str, Any], night: float) -> None:
    sign = signal(control="stop", state=None, **changes)
    assert "Is there a stop sign?" not in answers(signals=[sign], light={"night": night, "fog": 0.0})


def test_a_traffic_light_is_one_if_its_lamp_is_seen() -> None:
    assert answers(signals=[signal(on_route=False, distance=None)])["Is there a traffic light?"] == "yes"
    assert "Is there a traffic light?" not in answers(signals=[signal(state_pixels=0)])


def test_at_night_lamps_alone_are_no_thing() -> None:
    lamps = actor(kind="motorcycle", pixels=20)
    assert answers(lamps)["Is there a bike?"] == "yes"
    assert "Is there a bike?" not in answers(lamps, light={"night": 1.0, "fog": 0.0})


@pytest.mark.parametrize("box", [[0, 40, 3, 50], [157, 40, 160, 50]])
def test_a_thing_at_the_edge_needs_more_pixels(box: list[int]) -> None:
    """Most of it is outside the picture."""
    assert "Is there a vehicle?" not in answers(actor(box=box, pixels=30))
    assert answers(actor(box=box, pixels=48))["Is there a vehicle?"] == "yes"
