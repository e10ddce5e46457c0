"""Route paths and commands, with values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.path import RoutePath, commands
from closedloop_plugin.core.state import RouteCommand


def test_the_lateral_offset_is_positive_to_the_left() -> None:
    path = RoutePath([(0, 0), (10, 0), (10, 10)])
    assert path.length == pytest.approx(20)
    x, y, _ = path.pose(5, 1)
    assert (x, y) == (pytest.approx(5), pytest.approx(1))
    assert path.locate(5, 1) == (pytest.approx(5), pytest.approx(1))
    assert path.locate(11, 5)[1] == pytest.approx(-1), "east of a line north is its right"
    assert path.pose(25)[:2] == (pytest.approx(10), pytest.approx(15)), "beyond the end it goes straight on"


def test_locate_near_does_not_jump_at_a_crossing() -> None:
    loop = RoutePath([(0, 0), (100, 0), (100, 50), (50, 50), (50, -50)])
    crossing_first, _ = loop.locate(50, 0.0, near=48)
    crossing_last, _ = loop.locate(50, 0.0, near=245)
    assert crossing_first == pytest.approx(50, abs=1)
    assert crossing_last == pytest.approx(250, abs=1)


@given(st.floats(-30, 130), st.floats(-3, 3), st.one_of(st.none(), st.floats(-20, 120)))
def test_poses_and_places_of_single_points_are_those_of_arrays(s: float, d: float, near: float | None) -> None:
    """Bit for bit: `pose` as numpy.interp, and `locate_all` as `locate`."""
    path = RoutePath([(0, 0), (30.3, 1), (40, 20), (35, 80)])
    x, y, _ = path.pose(s, d)
    inside = min(max(s, 0.0), path.length)
    if s == inside and d == 0.0:
        assert (x, y) == (np.interp(s, path.s, path.xy[:, 0]), np.interp(s, path.s, path.xy[:, 1]))
    points = [(x, y), (5.0, s), (-s, 40.0)]
    assert path.locate_all(points, near, 40.0) == [path.locate(*point, near, 40.0) for point in points]
    assert path.locate_all([]) == []


def test_commands_begin_15_m_before_the_manoeuvre() -> None:
    angle = np.linspace(0, math.pi / 2, 60)
    turn = np.column_stack([40 + 10 * np.sin(angle), 10 - 10 * np.cos(angle)])
    path = RoutePath(np.vstack([[(0, 0)], turn, [(50, 60)]]))
    at = commands(path, [(40, 56)])
    assert [at(s) for s in (20, 26, 45, 60)] == [
        RouteCommand.FOLLOW,
        RouteCommand.LEFT,
        RouteCommand.LEFT,
        RouteCommand.FOLLOW,
    ]
    assert commands(path, [(0, 20)])(5) == RouteCommand.STRAIGHT
    assert commands(path, [], [(10, 20, -1)])(0) == RouteCommand.CHANGE_RIGHT


def test_locate_extrapolates_before_the_start_and_beyond_the_end() -> None:
    path = RoutePath([(0, 0), (10, 0)])
    assert path.locate(-17, 2) == (pytest.approx(-17), pytest.approx(2))
    assert path.locate(15, -3) == (pytest.approx(15), pytest.approx(-3))
    assert path.locate(-5, 1, near=0.0) == (pytest.approx(-5), pytest.approx(1))
    short = RoutePath([(0, 0), (0.4, 0)])  # one segment: both ends at once
    assert short.locate(-1, 0) == (pytest.approx(-1), pytest.approx(0))
    assert short.locate(2, 0) == (pytest.approx(2), pytest.approx(0))


@given(st.floats(-30, 80), st.floats(-15, 15))
def test_pose_and_locate_agree(s: float, d: float) -> None:
    path = RoutePath([(0, 0), (50, 0)])
    assert path.locate(*path.pose(s, d)[:2]) == (pytest.approx(s, abs=1e-6), pytest.approx(d, abs=1e-6))
