"""Objects and signals of a frame: places in the ego's frame, lanes, visible parts; from places worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.closedloop.models import privileged

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth, SignalState, StopLine
from closedloop_plugin.core.visibility import FAR_HEAD, VisibleExtent
from closedloop_plugin.learn.frame_collector import lane_of, objects_of, signals_of
from closedloop_plugin.maps.base import RoadMap


def _scene() -> tuple[GroundTruth, RoadMap]:
    request = privileged()
    assert request.truth is not None and request.road is not None
    ego = replace(request.truth.ego, x=20.0, y=0.0, yaw=0.0)
    near = Actor(
        id="near", kind=ActorKind.CAR, x=30.0, y=3.5, yaw=math.pi, speed=8.0, length=4.5, width=1.9, height=1.5,
        lamps=frozenset({"headlights", "brake"}),
    )  # fmt: skip
    far = replace(near, id="far", x=100.0)  # 80 m: too far
    beside = replace(near, id="beside", x=21.0, y=-6.0)
    return replace(request.truth, ego=ego, actors=(near, far, beside)), request.road


def test_objects_have_their_place_in_the_ego_s_frame() -> None:
    truth, road = _scene()
    seen = {"near": VisibleExtent((60, 40, 80, 55), 150, 0.9)}
    beside, near = objects_of(truth, road, seen, road.path.locate(20.0, 0.0)[0])
    assert (beside["id"], near["id"]) == ("beside", "near")  # the nearest first; the far one is left out
    assert (near["forward"], near["left"], near["speed"]) == (10.0, 3.5, 8.0)
    assert abs(abs(near["yaw"]) - math.pi) < 1e-3 and near["lamps"] == ["brake", "headlights"]
    assert (near["box"], near["pixels"], near["visible"], near["shown"]) == ([60, 40, 80, 55], 150, 0.9, True)
    assert beside["box"] is None and beside["pixels"] == 0 and not beside["shown"]


@pytest.mark.parametrize(
    ("d", "lane"),
    [(0.0, "own"), (1.7, "own"), (3.5, "left"), (7.0, "oncoming"), (10.5, "off"), (-3.5, "right"), (-7.0, "off")],
)
def test_lanes_are_counted_from_the_route(d: float, lane: str) -> None:
    _, road = _scene()
    road = replace(road, lane_width=3.5, facts={"lanes": {"left": 1, "right": 1, "oncoming": 1}})
    assert lane_of(d, road) == lane


def test_a_signal_beyond_60_m_counts_if_the_picture_shows_it() -> None:
    truth, road = _scene()
    lines = tuple(StopLine(name, 100.0, 0.0, 0.0, 3.5, "signal") for name in ("seen", "out"))
    found = signals_of(truth, replace(road, stop_lines=lines), {"seen": VisibleExtent((5, 6, 9, 9), 20, 1.0, 4)}, 0.0)
    assert [row["id"] for row in found] == ["seen"] and found[0]["forward"] == 80.0


def test_of_two_heads_of_a_signal_the_one_whose_light_is_shown_counts() -> None:
    truth, road = _scene()
    s = road.path.locate(20.0, 0.0)[0]
    line = StopLine("a", 32.0, 0.0, 0.0, 3.5, "signal", on_route=True, route_s=s + 12.0)
    other = StopLine("b", 35.0, 4.0, math.pi, 3.5, "stop")
    truth = replace(truth, signals={"a": SignalState.RED})
    seen = {"a": VisibleExtent((1, 2, 3, 4), 90, 1.0, 0), "a" + FAR_HEAD: VisibleExtent((5, 6, 9, 9), 20, 1.0, 4)}
    first, second = signals_of(truth, replace(road, stop_lines=(line, other)), seen, s)
    assert first["state"] == "red" and first["distance"] == 12.0 and first["on_route"]
    assert first["box"] == [5, 6, 9, 9] and first["state_pixels"] == 4
    assert second["state"] is None and second["distance"] is None and second["box"] is None
