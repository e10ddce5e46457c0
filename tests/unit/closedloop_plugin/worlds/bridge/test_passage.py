"""Standing bodies that leave the ego a way, or none. On a straight road along x with two lanes of 3.5 m."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import DrivingSurface
from closedloop_plugin.worlds.bridge.world import closed_way

PATH = RoutePath([(0.0, 0.0), (100.0, 0.0)])


class TwoLanes:
    """The ego's lane from y = -1.75 to 1.75, the oncoming one to its left."""

    def surface(self, x: float, y: float, way: float) -> DrivingSurface:
        if not -1.75 < y < 5.25:
            return DrivingSurface.OFF
        return DrivingSurface.LANE if y < 1.75 else DrivingSurface.ONCOMING


def car(x: float, y: float, turned: float = 0.0, **more: Any) -> SimpleNamespace:
    heading = math.radians(turned) - math.pi / 2  # Scenic's is 0 to the north
    usual = {"kind": "car", "behavior": None, "rail": None, "gone": False, "speed": 0.0, "length": 4.6, "width": 1.9}
    return SimpleNamespace(position=(x, y), heading=heading, **{**usual, **more})


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], ""),
        ([car(30, -3.5)], ""),
        ([car(30, 0), car(30, 3.5)], "no way: 2 cars stand across the road 28 m ahead; the widest gap is 1.6"),
        ([car(30, 0), car(33, 3.5, kind="bus")], "no way: a car and a bus stand across the road"),
        ([car(30, 0), car(50, 3.5)], "no way: a car stands in its lane 28 m ahead; only the oncoming lane is free"),
        ([car(30, 1, turned=90, length=8)], "no way: a car stands across the road"),
        ([car(5.2, 0.3)], "no way: a car stands 0.6 m before the ego, too close to drive around"),
        ([car(30, 0, behavior=object()), car(30, 3.5)], ""),
        ([car(30, 0, rail=object()), car(30, 3.5)], ""),
        ([car(30, 0, gone=True), car(30, 3.5)], ""),
        ([car(30, 0, speed=3.0), car(30, 3.5)], ""),
        ([car(30, 0, role="standard"), car(30, 3.5, role="standard")], ""),
        ([car(-10, 0), car(-10, 3.5)], ""),
        ([car(120, 0), car(120, 3.5)], ""),
    ],
)
def test_a_road_that_is_closed_is_named(others: list[Any], message: str) -> None:
    found = closed_way(PATH, TwoLanes(), [car(0, 0), *others])
    assert found.startswith(message) if message else found == ""


def test_an_oncoming_lane_that_the_program_lends_is_a_way() -> None:
    objects = [car(0, 0), car(30, 0)]
    assert closed_way(PATH, TwoLanes(), objects).endswith("only the oncoming lane is free")
    assert closed_way(PATH, TwoLanes(), objects, lent=True) == ""
