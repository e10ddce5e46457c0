"""Gap acceptance: profiles, contacts and choices, on a straight road crossed at a right angle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import VehicleStream
from closedloop_plugin.driver.agents.planning import gaps

EAST = RoutePath([(0.0, 0.0), (120.0, 0.0)])
NORTH = RoutePath([(40.0, -100.0), (40.0, 100.0)])


def stream(*cars: float, coming: tuple[float, ...] = (), speed: float = 10.0) -> VehicleStream:
    points = tuple((float(x), float(y)) for x, y in NORTH.xy)
    return VehicleStream("n", points, speed, cars, coming, source=0.0, sink=200.0, until_s=80.0)


def centre(s: np.ndarray) -> np.ndarray:
    return np.zeros_like(s)


def search(cars: np.ndarray, s: float = 24.0, speed: float = 0.0) -> gaps.GapSearch:
    return gaps.GapSearch(
        path=EAST,
        offset=centre,
        s=s,
        speed=speed,
        top=9.0,
        until=80.0,
        cars=cars,
        body=gaps.CAR,
        pace=10.0,
    )


def test_profiles_follow_the_laws_of_motion() -> None:
    options = np.array([(gaps.FULL, 0.0, 100.0), (-5.0, 2.0, 100.0), (0.0, 1.0, 100.0), (gaps.FULL, 0.0, 5.0)])
    places, last = gaps.profiles(4.0, options)
    at = round(3.0 / gaps.STEP_S) - 1  # 3 s
    assert places[0, at] == pytest.approx(4 * 3 + gaps.FULL * 9 / 2)
    assert places[1, at] == pytest.approx(16 / 10 + gaps.FULL / 2, abs=0.15)  # stops in 1.6 m, waits, starts at 2 s
    assert places[2, at] == pytest.approx(4 + 4 * 2 + gaps.FULL * 2)
    assert np.diff(places[3])[-1] == pytest.approx(5.0 * gaps.STEP_S)
    assert last == pytest.approx([4 + gaps.FULL * 7, gaps.FULL * 5, 4 + gaps.FULL * 6, 5.0])


def test_touches_is_exact_for_turned_boxes() -> None:
    places = np.full((1, 1), 40.0)

    def touch(x: float, y: float, yaw: float) -> bool:
        cars = np.array([x, y, yaw])[:, None, None]
        return bool(gaps.touches(EAST, places, centre, cars, (4.0, 2.0), 0.0)[0])

    # The ego covers 37.65 to 42.35 and -1 to 1.
    assert touch(44.3, 0.0, 0.0) and not touch(44.4, 0.0, 0.0)
    assert touch(40.0, 2.9, math.pi / 2) and not touch(40.0, 3.1, math.pi / 2)
    assert touch(44.0, 2.5, math.pi / 4) is False  # the corners pass each other


def test_cars_that_are_not_there_yet_are_far_away() -> None:
    poses = gaps.stream_poses(stream(50.0, coming=(-10.0,)), NORTH)
    assert poses.shape == (3, 2, len(gaps.TIMES))
    second = np.flatnonzero(np.isclose(gaps.TIMES, 1.5))[0]
    assert poses[:2, 0, second] == pytest.approx([40.0, -35.0])
    assert poses[0, 1, 0] > 1e6 and poses[:2, 1, second] == pytest.approx([40.0, -95.0])


def test_the_conflict_is_where_a_standing_ego_would_be_hit() -> None:
    poses = gaps.stream_poses(stream(70.0), NORTH)
    first, last = gaps.conflict(search(poses, 10.0), poses) or (0, 0)
    assert first == pytest.approx(37.0, abs=1.0) and last == pytest.approx(43.0, abs=1.0)
    gone = gaps.stream_poses(stream(130.0), NORTH)
    assert gaps.conflict(search(gone, 10.0), gone) is None


def test_it_waits_for_a_gap_and_keeps_its_plan() -> None:
    """10 m before the lane: 0 to 4.6 s are needed from a standstill, about 2.3 s of them in the lane's way."""
    memory = gaps.GapMemory()
    close = gaps.stream_poses(stream(*(100.0 - 12.0 * k for k in range(9))), NORTH)
    assert gaps.through_gap(search(close), 44.0, memory, 0.0) is None
    wide = gaps.stream_poses(stream(95.0, 55.0, 15.0), NORTH)  # 4 s between two cars
    first = gaps.through_gap(search(wide), 44.0, memory, 0.0)
    assert first is not None and memory.plan is not None
    plan = memory.plan
    assert gaps.through_gap(search(gaps.stream_poses(stream(96.0, 56.0, 16.0), NORTH)), 44.0, memory, 0.1) is not None
    assert memory.plan == plan


def test_a_car_ahead_in_the_lane_is_a_leader() -> None:
    assert gaps.is_leader((50.0, 0.3, 0.0), EAST, 30.0, 0.0)
    assert not gaps.is_leader((20.0, 0.3, 0.0), EAST, 30.0, 0.0)
    assert not gaps.is_leader((50.0, 0.3, math.pi / 2), EAST, 30.0, 0.0)
    assert not gaps.is_leader((50.0, 3.5, 0.0), EAST, 30.0, 0.0)


def test_speed_of_a_bend() -> None:
    turn = np.linspace(0.0, math.pi / 2, 60)
    line = RoutePath([(0.0, 0.0), *((30 + 20 * math.sin(a), 20 - 20 * math.cos(a)) for a in turn), (50.0, 60.0)])
    assert gaps.bend_speed(line, 0.0, line.length) == pytest.approx(math.sqrt(gaps.SIDEWAYS * 20), rel=0.05)
    assert gaps.bend_speed(line, 0.0, 20.0) == math.inf
