"""Axes, route paths and commands, with values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core import frames
from closedloop_plugin.core.path import RoutePath, commands
from closedloop_plugin.core.state import Control, RouteCommand


def test_carla_is_left_handed() -> None:
    assert frames.from_carla(3, 4, 90) == (3, -4, pytest.approx(-math.pi / 2))
    assert frames.to_carla(3, -4, -math.pi / 2) == (3, 4, pytest.approx(90))


@given(st.floats(-500, 500), st.floats(-500, 500), st.floats(-3.1, 3.1))
def test_conversions_round_trip(x: float, y: float, yaw: float) -> None:
    back = frames.from_carla(*frames.to_carla(x, y, yaw))
    assert back == (pytest.approx(x), pytest.approx(y), pytest.approx(yaw))
    assert frames.yaw_of_heading(frames.scenic_heading(yaw)) == pytest.approx(yaw)


def test_scenic_headings_start_at_north() -> None:
    assert frames.scenic_heading(math.pi / 2) == pytest.approx(0.0)
    assert frames.to_ego(0, 1, 0, 0, 0) == (pytest.approx(0), pytest.approx(1)), "north is left of a car heading east"


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


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(-9, 9), st.floats(-9, 9))
def test_control_is_clamped_or_refused(steer: float, throttle: float, brake: float) -> None:
    control = Control(steer, throttle, brake)
    if not math.isfinite(steer):
        with pytest.raises(ValueError, match="not finite"):
            control.checked()
        return
    c = control.checked()
    assert -1 <= c.steer <= 1
    assert 0 <= c.throttle <= 1
    assert 0 <= c.brake <= 1


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
