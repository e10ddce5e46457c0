"""Shares of routes that lie on each other, worked out by hand."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from closedloop_plugin.learn import contamination
from closedloop_plugin.learn.contamination import RoutePolyline, common_share, geometry_sha256, rounded, same_shape
from lmms_eval_ad2.storage.training_card import MOST_POINTS, TrainedRoute


def shape(*points: tuple[float, float]) -> RoutePolyline:
    found = RoutePolyline.of(points)
    assert found is not None
    return found


LINE = shape((0.0, 0.0), (100.0, 0.0))


@pytest.mark.parametrize(
    ("points", "share"),
    [
        ([(0, 0), (100, 0)], 1.0),
        ([(0, 0.9), (100, 0.9)], 1.0),
        ([(0, 1.1), (100, 1.1)], 0.0),
        ([(100, 0), (0, 0)], 0.0),  # the other direction
        ([(20, 0), (60, 0)], 1.0),  # a piece
        ([(-200, 0), (300, 0)], 1.0),  # a longer route
        ([(60, 0), (160, 0)], 0.41),  # the last 40 m, and 1 m beyond their end
        ([(0, 50), (100, 50)], 0.0),
        ([(50, -50), (50, 50)], 0.0),  # a crossing road
        ([(0, 0), (50, 0), (50, 50)], 0.51),  # a turn after 50 m, and 1 m of it; 101 samples of 0.99 m
    ],
)
def test_share_of_the_shorter_route(points: list[tuple[float, float]], share: float) -> None:
    other = shape(*points)
    assert common_share(LINE, other) == pytest.approx(share, abs=0.011)
    assert common_share(other, LINE) == pytest.approx(share, abs=0.011)


def test_the_share_does_not_depend_on_the_size_of_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    other = shape((0.0, 0.0), (50.0, 0.0), (50.0, 50.0))
    whole = common_share(LINE, other)
    for most in (1, 3, 50):
        monkeypatch.setattr(contamination, "MOST_PAIRS", most)
        assert common_share(LINE, other) == whole


def test_memory_of_the_largest_route_is_bounded() -> None:
    """A card of others may have a route of 20,000 points; all pairs of 400 points with its segments take 64 MB each."""
    largest = shape(*((0.05 * i, 0.0) for i in range(MOST_POINTS)))
    other = shape((0.0, 0.5), (400.0, 0.5))
    tracemalloc.start()
    assert common_share(other, largest) == 1.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


def test_a_shape_needs_two_different_points() -> None:
    assert RoutePolyline.of([]) is None and RoutePolyline.of([(1.0, 1.0), (1.0, 1.0)]) is None
    assert shape((0.0, 0.0), (0.0, 0.0), (3.0, 4.0)).length == 5.0


def corner(trigger: tuple[float, float, float], turned: bool, **params: object) -> TrainedRoute:
    """50 m along x, then 50 m to the left; `turned`: by 90 degrees about the origin."""
    points = ((0.0, 0.0), (50.0, 0.0), (50.0, 50.0))
    points = tuple((-y, x) for x, y in points) if turned else points
    return TrainedRoute("1", scenario="ParkedObstacle", trigger=trigger, params=params, points=points)  # type: ignore[arg-type]


def test_shapes_are_laid_over_each_other_at_their_triggers() -> None:
    one = corner((10.0, 0.0, 0.0), False, distance=30.0, flow=(20.0, 5.0, 0.0))
    other = corner((0.0, 10.0, math.pi / 2), True, distance=30.0, flow=(-5.0, 20.0, math.pi / 2))
    assert same_shape(one, other) == 1.0
    assert same_shape(one, corner((0.0, 10.0, math.pi / 2), True, distance=31.0, flow=(-5.0, 20.0, 1.5))) == 0.0
    assert same_shape(one, corner((0.0, 10.0, math.pi / 2), True, distance=30.0, flow=(-9.0, 20.0, 1.5))) == 0.0
    assert same_shape(one, corner((0.0, 10.0, math.pi / 2), True, distance=30.0)) == 0.0
    # The scenario is 20 m further on, so that only its road is the same.
    assert same_shape(one, corner((0.0, 30.0, math.pi / 2), True, distance=30.0, flow=(-5.0, 40.0, 1.5))) < 0.9


def test_a_wrong_heading_of_the_trigger_is_replaced_by_that_of_the_path() -> None:
    one, other = corner((10.0, 0.0, 0.0), False), corner((0.0, 10.0, 0.3), True)
    assert same_shape(one, other) == 1.0


def test_the_hash_of_a_geometry_ignores_centimetres() -> None:
    assert rounded([(1.04, -0.01, 9.0)]) == [[1.0, 0.0]]
    assert geometry_sha256([(1.04, -0.01)]) == geometry_sha256([(0.96, 0.0)]) != geometry_sha256([(1.06, 0.0)])
