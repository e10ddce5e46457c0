"""Rails: exact motion, braking, lane changes; the scalar path interpolation against the array one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.worlds.bridge.rail import PathInterpolator, Rail

DT = 0.05
ARC = RoutePath([(40 * math.sin(a), 40 - 40 * math.cos(a)) for a in np.linspace(0, 2, 80)])
STRAIGHT = RoutePath([(0, 0), (200, 0)])


def test_the_interpolator_has_the_poses_of_the_path() -> None:
    track = PathInterpolator.of(ARC)
    assert PathInterpolator.of(ARC) is track
    for s in np.linspace(-5, ARC.length + 5, 57):
        assert track.pose(float(s), 1.5) == pytest.approx(ARC.pose(float(s), 1.5), abs=1e-9)


def test_the_foot_of_a_point_is_its_position_on_the_path() -> None:
    for s in (5.0, 30.0, 60.0):
        x, y, _ = ARC.pose(s, 2.0)
        assert PathInterpolator.of(ARC).foot(x, y, s - 8.0) == pytest.approx((s, 2.0), abs=0.15)


def test_a_rail_reaches_its_speed_and_stays_on_the_path() -> None:
    rail = Rail(ARC, 0.0, 1.0, speed=8.0, accel=2.0)
    for _ in range(80):  # 4 s at 2 m/s2
        rail.advance(DT)
    assert rail.now == 8.0  # it began with its target speed, because `now` was not given
    rail.speed = 0.0
    for _ in range(40):
        rail.advance(DT)
    assert rail.now == 0.0
    assert rail.pose() == pytest.approx(ARC.pose(rail.s, 1.0), abs=1e-9)


def test_a_rail_accelerates_at_the_given_rate() -> None:
    rail = Rail(STRAIGHT, 0.0, speed=8.0, accel=2.0, now=0.0)
    for _ in range(40):
        rail.advance(DT)
    assert rail.now == pytest.approx(4.0) and rail.s == pytest.approx(4.1, abs=0.15)


def test_a_rail_against_the_path_faces_backwards() -> None:
    rail = Rail(STRAIGHT, 100.0, 3.5, speed=10.0, direction=-1)
    rail.advance(DT)
    x, y, yaw = rail.pose()
    assert (x, y) == pytest.approx((99.5, 3.5)) and abs(yaw) == pytest.approx(math.pi)


def test_a_rail_halts_at_stop_s() -> None:
    rail = Rail(STRAIGHT, 0.0, speed=12.0, stop_s=60.0)
    for _ in range(600):
        rail.advance(DT)
    assert rail.now == pytest.approx(0.0, abs=1e-3) and rail.s == pytest.approx(60.0, abs=0.3)


def test_a_lane_change_has_the_given_lateral_speed() -> None:
    rail = Rail(STRAIGHT, 0.0, 3.5, speed=10.0, d_wanted=0.0, sideways=1.0)
    for _ in range(40):
        rail.advance(DT)
    assert rail.d == pytest.approx(1.5)
    for _ in range(60):
        rail.advance(DT)
    assert rail.d == 0.0


def test_a_rail_does_not_exceed_the_allowed_acceleration() -> None:
    rail = Rail(STRAIGHT, 0.0, speed=10.0, now=10.0)
    rail.advance(DT, allowed=-9.0)
    assert rail.now == pytest.approx(9.55)
