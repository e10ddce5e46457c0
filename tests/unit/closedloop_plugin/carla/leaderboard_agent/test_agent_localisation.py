"""Localisation and route of the leaderboard agent, with expected values computed by hand."""

from __future__ import annotations

import importlib
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.bench2drive import stand_in as stand_in
from support.running import REPO

from closedloop_plugin.core.routes import read_routes

FOLLOW, LEFT, RIGHT, STRAIGHT, CHANGE_LEFT = 4, 1, 2, 3, 5
EAST, NORTH, SOUTH = math.pi / 2, 0.0, math.pi  # compass angles; north is -y


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """agent.py, imported by its bare name with fakes that are removed after the test."""
    before = dict(sys.modules)
    monkeypatch.syspath_prepend(str(REPO / "closedloop_plugin" / "carla" / "leaderboard_agent"))
    stand_in.install()
    try:
        yield importlib.import_module("agent")
    finally:
        for name in set(sys.modules) - set(before):
            if name in ("agent", "ad2_link", "ad2_position", "carla") or name.split(".")[0] == "leaderboard":
                del sys.modules[name]
        sys.modules.update({k: v for k, v in before.items() if k == "carla" or k.startswith("carla.")})


def projection(agent: Any, reference: tuple[float, float] = (42.0, 2.0)) -> Any:
    points = [(0.0, 0.0), (50.0, 0.0), (50.0, -40.0)]
    return agent.GnssProjection([stand_in.gps(x, y, *reference) for x, y in points], points)


@pytest.mark.parametrize("reference", [(0.0, 0.0), (42.0, 2.0), (-33.9, 151.2), (69.0, -179.9)])
def test_the_projection_is_derived_from_the_plan(agent: ModuleType, reference: tuple[float, float]) -> None:
    """Also kilometres off the plan, for any geographic reference of the map."""
    found = projection(agent, reference)
    for x, y in [(0.0, 0.0), (33.0, -12.5), (-2000.0, 3500.0)]:
        place = stand_in.gps(x, y, *reference)
        assert found.to_map(place["lat"], place["lon"]) == pytest.approx((x, y), abs=1e-3)


def test_a_thousandth_of_a_degree_is_111_m(agent: ModuleType) -> None:
    """At 0, 0 a thousandth of a degree is 6378137 m * pi / 180000 = 111.319 m; north is -y."""
    found = projection(agent, (0.0, 0.0))
    assert found.to_map(0.001, 0.0) == pytest.approx((0.0, -111.319), abs=1e-3)
    assert found.to_map(0.0, 0.001) == pytest.approx((111.319, 0.0), abs=1e-3)


def test_a_straight_plan_suffices_for_the_projection(agent: ModuleType) -> None:
    line = [(10.0, 5.0), (60.0, 5.0)]
    found = agent.GnssProjection([stand_in.gps(x, y, 42.0, 2.0) for x, y in line], line)
    off = stand_in.gps(30.0, -20.0, 42.0, 2.0)
    assert found.to_map(off["lat"], off["lon"]) == pytest.approx((30.0, -20.0), abs=1e-3)


@pytest.mark.parametrize(
    ("points", "words"),
    [([], "no route plan"), ([(1.0, 1.0)], "no route plan"), ([(1.0, 1.0), (1.0, 1.2)], "shorter than a metre")],
)
def test_empty_and_too_short_plans_are_refused(
    agent: ModuleType, points: list[tuple[float, float]], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        agent.GnssProjection([stand_in.gps(x, y, 42.0, 2.0) for x, y in points], points)


def test_a_plan_with_contradictory_coordinates_is_refused(agent: ModuleType) -> None:
    world = [(0.0, 0.0), (50.0, 0.0), (50.0, -40.0)]
    turned = [stand_in.gps(y, x, 42.0, 2.0) for x, y in world]
    with pytest.raises(Exception, match="disagree by"):
        agent.GnssProjection(turned, world)


def place_at(agent: Any, x: float, y: float, compass: float) -> Any:
    """Localizer of a car with its centre at (x, y); GNSS is 1.4 m behind it."""
    found = agent.EgoLocalizer(projection(agent), 0.0)
    yaw = compass - math.pi / 2
    rear = stand_in.gps(x - 1.4 * math.cos(yaw), y - 1.4 * math.sin(yaw), 42.0, 2.0)
    found.update([rear["lat"], rear["lon"], 0.0], compass, 0.0, 0.05)
    return found


@pytest.mark.parametrize(
    ("compass", "point", "expected"),
    [
        (EAST, (20.0, 0.0), [10.0, 0.0]),
        (EAST, (10.0, -3.0), [0.0, 3.0]),  # north of a car facing east: left
        (EAST, (10.0, 3.0), [0.0, -3.0]),
        (NORTH, (10.0, -5.0), [5.0, 0.0]),
        (NORTH, (7.0, 0.0), [0.0, 3.0]),  # west of a car facing north: left
        (SOUTH, (7.0, 0.0), [0.0, -3.0]),
        (EAST + math.pi, (4.0, 2.0), [6.0, 2.0]),  # south-west of a car facing west: ahead and left
    ],
)
def test_points_are_converted_to_the_ego_frame(
    agent: ModuleType, compass: float, point: tuple[float, float], expected: list[float]
) -> None:
    place = place_at(agent, 10.0, 0.0, compass)
    assert place.centre == pytest.approx((10.0, 0.0), abs=1e-3)
    assert place.seen(*point) == pytest.approx(expected, abs=2e-3)


def test_noise_is_smoothed_and_motion_does_not_lag(agent: ModuleType) -> None:
    """5 m/s eastward, GNSS with the leaderboard's noise of 5e-6 degrees: 0.56 m north, 0.41 m east."""
    rng = random.Random(3)
    place = agent.EgoLocalizer(projection(agent), 0.0)
    errors = []
    for i in range(400):
        x = 0.25 * i
        fix = stand_in.gps(x - 1.4, 0.0, 42.0, 2.0)
        noisy = [fix["lat"] + rng.gauss(0, 5e-6), fix["lon"] + rng.gauss(0, 5e-6), 0.0]
        place.update(noisy, EAST, 5.0, 0.05 * (i + 1))
        errors.append((place.centre[0] - x, place.centre[1]))
    settled = errors[50:]
    assert max(math.hypot(*e) for e in settled) < 0.6
    assert math.sqrt(sum(y * y for _, y in settled) / len(settled)) < 0.2
    assert abs(sum(x for x, _ in settled) / len(settled)) < 0.05


def test_non_finite_readings_are_ignored(agent: ModuleType) -> None:
    """The compass gives NaN in its first frames: then the route's direction is used."""
    place = agent.EgoLocalizer(projection(agent), -0.5)
    assert place.centre is None
    place.update([math.nan, 2.0, 0.0], math.nan, math.nan, 0.05)
    assert place.centre is None and place.yaw == -0.5 and place.speed == 0.0
    here = stand_in.gps(5.0, 0.0, 42.0, 2.0)
    place.update([here["lat"], here["lon"], 0.0], EAST, 3.0, 0.1)
    place.update([math.inf, math.nan, 0.0], math.nan, math.nan, 0.2)
    assert place.yaw == pytest.approx(0.0, abs=1e-12)
    assert place.centre == pytest.approx((5.0 + 1.4 + 0.3, 0.0), abs=1e-3)  # 0.1 s on at 3 m/s


def test_commands_begin_15_m_before_their_section_and_end_with_it(agent: ModuleType) -> None:
    """A left turn from 30 to 40 m, a lane change at 70 m, straight on over a junction from 90 m."""
    option = [LEFT if 30 <= i <= 40 else CHANGE_LEFT if i == 70 else STRAIGHT if 90 <= i < 95 else FOLLOW
              for i in range(120)]  # fmt: skip
    route = agent.LeaderboardRoute([(float(i), 0.0) for i in range(120)], option)
    expected = {0: "lane follow", 14: "lane follow", 15: "turn left", 40: "turn left", 41: "lane follow",
                54: "lane follow", 55: "change lane left", 70: "change lane left", 71: "lane follow",
                75: "go straight", 94: "go straight", 96: "lane follow"}  # fmt: skip
    for s, command in expected.items():
        route.s = float(s)
        assert (s, route.command()) == (s, command)


def test_the_route_position_stays_on_its_branch_at_a_self_crossing(agent: ModuleType) -> None:
    """A figure of eight. Consecutive legs share their end points."""
    there = [(float(i), 0.0) for i in range(61)]
    loop = [(60.0, -float(i)) for i in range(61)] + [(60.0 - i, -60.0) for i in range(31)]
    back = [(30.0, -60.0 + i) for i in range(91)]
    points = [p for leg in (there, loop[:61], loop[61:], back) for p in leg]
    route = agent.LeaderboardRoute(points, [FOLLOW] * len(points))
    assert route.advance(0.0, 0.2) == pytest.approx(0.2)
    for x, y in there[1:]:
        assert route.advance(x, y + 0.2) == pytest.approx(0.2)  # at 30 m the other branch is nearer
    assert route.s == pytest.approx(60.0, abs=0.01)
    for x, y in loop:
        route.advance(x, y)
    for x, y in back[:61]:
        assert route.advance(x, y) == pytest.approx(0.0)
    assert route.s == pytest.approx(60 + 60 + 30 + 60)  # at (30, 0) for the second time
    assert route.ahead(8.0) == pytest.approx((30.0, 8.0))
    route.advance(30.0, 30.0)
    assert route.ahead(8.0) == pytest.approx((30.0, 38.0))  # beyond the end: straight on


def test_the_first_heading_is_that_of_the_route(agent: ModuleType) -> None:
    """Also if the plan begins with the same point twice."""
    route = agent.LeaderboardRoute([(0.0, 0.0), (0.0, 0.0), (0.0, -1.0), (0.0, -6.0)], [FOLLOW] * 4)
    assert route.heading() == pytest.approx(-math.pi / 2)


def test_the_offset_is_positive_to_the_left_of_the_route(agent: ModuleType) -> None:
    """In CARLA's map y points to the right: left of a route along +x is -y, left of one along -y (north) is -x."""
    east = agent.LeaderboardRoute([(0.0, 0.0), (50.0, 0.0)], [FOLLOW] * 2)
    north = agent.LeaderboardRoute([(0.0, 0.0), (0.0, -50.0)], [FOLLOW] * 2)
    for route, x, y in ((east, 10.0, -3.5), (north, -3.5, -10.0), (east, 0.0, -3.5)):
        route.advance(x, y)
        assert route.offset(x, y) == pytest.approx(3.5)
    assert east.offset(0.0, 1.0) == pytest.approx(-1.0)


# Bench2Drive's routes that begin less than 50 m from the map's x axis: id -> first point, x and y in m
NEAR_THE_AXIS = {
    25300: (-441.6, 7.7), 25968: (-2.1, 17.8), 26394: (554.7, -24.3), 26408: (554.7, -24.3), 24757: (465.8, -24.5),
    25863: (-2.3, 35.8), 25955: (155.0, -37.0), 26956: (25.1, -43.2), 27506: (-44.2, -45.9),
}  # fmt: skip


@pytest.mark.parametrize("route_id", NEAR_THE_AXIS)
@pytest.mark.parametrize("yaw", [0.0, 0.5 * math.pi, math.pi, 1.5 * math.pi])
def test_a_mirrored_start_is_refused(agent: ModuleType, route_id: int, yaw: float) -> None:
    """Whatever the direction: a route that leads to the mirrored point itself must not hide it."""
    x, y = NEAR_THE_AXIS[route_id]
    points = [(x + i * math.cos(yaw), y + i * math.sin(yaw)) for i in range(100)]
    route = agent.LeaderboardRoute(points, [FOLLOW] * 100)
    agent.check_start(route, x + 1.0, y - 1.0)  # GNSS noise and the car's exact place
    words = rf"GNSS is {2 * abs(y):.0f} m off .* CARLA 0\.9\.16 .* needs CARLA 0\.9\.15"
    with pytest.raises(agent.DriverGaveUp, match=words):
        agent.check_start(route, x, -y)


def test_a_mirrored_start_of_every_official_route_is_refused(agent: ModuleType, data_dir: Path) -> None:
    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")
    assert len(routes) == 220
    for found in routes:
        x, north = found.points[0]
        route = agent.LeaderboardRoute([(px, -py) for px, py in found.points], [FOLLOW] * len(found.points))
        agent.check_start(route, x, -north)
        with pytest.raises(agent.DriverGaveUp, match="mirrored"):
            agent.check_start(route, x, north)
