"""Multiple choice about what is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.collected import UNSEEN, WEATHER, actor, asker, signal

from closedloop_plugin.learn.questions.choices import perception
from lmms_eval_ad2.core.records import Record


def asked(*objects: Any, **changes: Any) -> dict[str, Record]:
    return {q.record.question.en: q.record for q in perception(asker(*objects, **changes))}


def right(records: Mapping[str, Record], question: str) -> str | None:
    if question not in records:
        return None
    record = records[question]
    assert record.right_option is not None and record.right_option.text == record.answer
    assert [o.letter for o in record.options] == list("ABCD") and len({o.text for o in record.options}) == 4
    assert sum(o.kind == "correct" for o in record.options) == 1
    return record.answer.en


AHEAD = "What is ahead in our lane?"


def test_what_is_ahead() -> None:
    assert right(asked(), AHEAD) == "Nothing."
    assert right(asked(actor(kind="truck")), AHEAD) == "A truck."
    assert right(asked(actor(kind="truck", lane="left")), AHEAD) == "Nothing."
    assert right(asked(actor(kind="debris", length=0.5)), AHEAD) == "An obstacle."
    assert right(asked(actor("1", kind="truck", forward=30.0), actor("2", kind="car", forward=15.0)), AHEAD) == "A car."


@pytest.mark.parametrize(
    "changes", [{"visible": 0.1}, UNSEEN, {"pixels": 20}, {"forward": 45.0}, {"left": 8.0}], ids=str
)
def test_what_is_ahead_is_not_asked_if_it_is_not_shown(changes: dict[str, Any]) -> None:
    assert right(asked(actor(**changes)), AHEAD) is None


def test_ahead_is_not_asked_while_the_car_is_in_another_lane() -> None:
    oncoming = actor(lane="oncoming", yaw=3.1)  # straight ahead of the car, which is in the oncoming lane
    assert right(asked(oncoming, route_offset=3.4), AHEAD) is right(asked(route_offset=-1.1), AHEAD) is None
    assert right(asked(route_offset=0.9), AHEAD) == "Nothing."


def test_a_rider_is_no_wrong_person() -> None:
    for seed in range(30):
        record = asked(actor(kind="bicycle"), seed=seed)[AHEAD]
        assert record.answer.en == "A bicycle." and "A person." not in {option.text.en for option in record.options}


def test_what_is_elsewhere_in_the_picture_answers_another_question() -> None:
    kinds = {
        option.kind
        for seed in range(20)
        for option in asked(actor("1"), actor("2", kind="bus", lane="left"), seed=seed)[AHEAD].options
        if option.text.en == "A bus."
    }
    assert kinds == {"question_ambiguity"}


def test_what_is_behind_the_first_is_no_wrong_option() -> None:
    first, second = actor("1", kind="warning sign", length=0.5), actor("2", kind="cone", forward=28.0, pixels=60)
    for seed in range(30):
        record = asked(first, second, seed=seed)[AHEAD]
        assert record.answer.en == "A warning sign."
        assert "A cone." not in {option.text.en for option in record.options}


LIGHT = "What colour is our traffic light?"


def test_the_colour_of_our_light() -> None:
    other = signal("s2", state="green", on_route=False, distance=None)
    assert right(asked(signals=[signal()]), LIGHT) == right(asked(signals=[other, signal()]), LIGHT) == "Red."
    assert right(asked(signals=[other]), LIGHT) is None
    assert right(asked(signals=[signal(), signal("s2", state="green")]), LIGHT) is None  # which one?
    assert right(asked(signals=[signal(state_pixels=1)]), LIGHT) is None
    assert right(asked(signals=[signal(pixels=11)]), LIGHT) is None


SKY = "What is the weather or light like?"


@pytest.mark.parametrize(
    ("weather", "night", "answer"),
    [
        ({}, 0.0, "Clear."), ({"precipitation": 80.0}, 0.0, "Rain."), ({"fog_density": 60.0}, 0.0, "Fog."),
        ({}, 1.0, "Night."), ({"precipitation": 80.0}, 1.0, None), ({"precipitation": 20.0}, 0.0, None),
    ],
)  # fmt: skip
def test_the_weather(weather: dict[str, float], night: float, answer: str | None) -> None:
    records = asked(weather={**WEATHER, **weather}, light={"night": night, "fog": 0.0})
    assert right(records, SKY) == answer


@pytest.mark.parametrize(
    ("forward", "answer"),
    [(5.0, "Less than 8 m."), (8.0, None), (12.0, "8 to 16 m."), (22.0, "16 to 30 m."), (40.0, "More than 30 m.")],
)
def test_distances_with_a_margin_between_the_classes(forward: float, answer: str | None) -> None:
    records = asked(actor(kind="animal", forward=forward, length=0.6, width=0.3, lane="off"))
    assert right(records, "How far away is the animal?") == answer


@pytest.mark.parametrize(
    ("changes", "frame", "answer"),
    [
        ({}, {}, "In an oncoming lane."),
        ({"left": 3.5}, {}, None),  # the lane on the left, too
        ({}, {"route_offset": 3.5}, None),  # we are in another lane, from which the lanes have other names
        ({"yaw": 1.5}, {}, None),  # across our road
        ({"lane": "off"}, {}, None),
        ({"forward": 35.0}, {}, None),
        ({}, {"command": "turn left"}, None),
        ({}, {"signals": [signal()]}, None),  # a junction is ahead
    ],
)
def test_the_lane_of_a_vehicle_along_the_road(
    changes: dict[str, Any], frame: dict[str, Any], answer: str | None
) -> None:
    one = actor(**{"kind": "motorcycle", "lane": "oncoming", "left": 7.0, "yaw": 3.1, **changes})
    records = asked(one, **frame)
    found = [question for question in records if question.startswith("Where is the")]
    assert [right(records, question) for question in found] == ([answer] if answer else [])
