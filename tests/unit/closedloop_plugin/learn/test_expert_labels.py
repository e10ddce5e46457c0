"""The expert's reasons on a straight road, from scenes worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.closedloop.models import observation, privileged

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth, SignalState, StopLine
from closedloop_plugin.learn.expert_labels import ExpertLabels
from closedloop_plugin.maps.base import RoadMap


def _scene(*actors: Actor, speed: float = 5.0) -> tuple[GroundTruth, RoadMap]:
    """The ego at x = 20 m of a straight road to the east, with actors at their places."""
    request = privileged()
    assert request.truth is not None and request.road is not None
    ego = replace(request.truth.ego, x=20.0, y=0.0, yaw=0.0, speed=speed)
    return replace(request.truth, ego=ego, actors=actors), request.road


def _actor(kind: ActorKind, x: float, y: float = 0.0, **known: Any) -> Actor:
    size = {"length": 4.5, "width": 1.9, "height": 1.5} if kind is ActorKind.CAR else {
        "length": 0.5, "width": 0.6, "height": 1.75}  # fmt: skip
    return Actor(**{"id": kind.value, "kind": kind, "x": x, "y": y, "yaw": 0.0, "speed": 0.0, **size, **known})


def _label(truth: GroundTruth, road: RoadMap, max_speed: float | None = 5.0) -> dict[str, Any]:
    return ExpertLabels(max_speed).label(observation(speed=truth.ego.speed), truth, road)


def test_an_empty_road_is_clear_below_the_limit_and_the_limit_counts_at_it() -> None:
    truth, road = _scene(speed=2.0)
    assert _label(truth, road)["reason"] == {"kind": "clear", "actor": None}
    truth, road = _scene(speed=5.0)
    label = _label(truth, road)
    assert label["reason"] == {"kind": "speed_limit", "actor": None}
    assert label["action"] == "Keep the speed and go straight." and label["top"] == 5.0


def test_a_car_that_drives_more_slowly_ahead_is_the_reason() -> None:
    truth, road = _scene(_actor(ActorKind.CAR, 34.0, speed=2.0), speed=5.0)
    label = _label(truth, road)
    assert label["reason"] == {"kind": "vehicle_ahead", "actor": "car"}
    assert label["acceleration"] < -0.5


def test_a_pedestrian_who_steps_out_is_the_reason() -> None:
    walker = _actor(ActorKind.PEDESTRIAN, 27.5, -1.4, speed=1.5, yaw=1.5708)
    truth, road = _scene(walker, speed=5.0)
    label = _label(truth, road)
    assert label["reason"] == {"kind": "actor", "actor": "pedestrian"}
    assert label["action"].startswith(("Brake", "Slow down", "Stop"))


@pytest.mark.parametrize(("control", "kind"), [("signal", "red_light"), ("stop", "stop_sign")])
def test_a_line_to_stop_at_is_the_reason(control: str, kind: str) -> None:
    truth, road = _scene(speed=5.0)
    line = StopLine("line", 30.0, 0.0, 0.0, 3.5, control, on_route=True, route_s=road.path.locate(30.0, 0.0)[0])
    truth = replace(truth, signals={"line": SignalState.RED} if control == "signal" else {})
    label = _label(truth, replace(road, stop_lines=(line,)))
    assert label["reason"] == {"kind": kind, "actor": None}
    green = replace(truth, signals={"line": SignalState.GREEN})
    if control == "signal":
        assert _label(green, replace(road, stop_lines=(line,)))["reason"]["kind"] == "speed_limit"


def test_a_line_before_which_the_car_still_accelerates_is_no_free_road() -> None:
    truth, road = _scene(speed=0.0)
    line = StopLine("line", 30.0, 0.0, 0.0, 3.5, "signal", on_route=True, route_s=road.path.locate(30.0, 0.0)[0])
    label = _label(replace(truth, signals={"line": SignalState.RED}), replace(road, stop_lines=(line,)))
    assert label["acceleration"] > 0.3 and label["reason"] == {"kind": "line_ahead", "actor": None}


def test_the_label_does_not_depend_on_who_asked_before() -> None:
    truth, road = _scene(_actor(ActorKind.CAR, 34.0, speed=2.0))
    assert _label(truth, road) == _label(truth, road)
