"""Corridor types against the figures of CARLA's scenario code (docs/scenarios.md): places at the start, and moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.driver.agents import tracking
from closedloop_plugin.worlds.base import EpisodeSetup, World

pytestmark = pytest.mark.integration

pytest.importorskip("scenic")


def start(world: World, route: Route, program: Path | None = None) -> tuple[GroundTruth, float]:
    """(truth at the start, s of the trigger point)."""
    world.reset(EpisodeSetup(route, 4, traffic=False, max_ticks=1000, program=program))
    return world.truth(), world.road.path.locate(*route.trigger[:2])[0]


def places(world: World, truth: GroundTruth, kind: str) -> list[tuple[float, float]]:
    """(s, d) of all actors of a kind, by s."""
    return sorted(world.road.path.locate(a.x, a.y) for a in truth.actors if a.kind == kind)


def drive(world: World, until: Callable[[GroundTruth], bool], speed: float = 7.0) -> list[GroundTruth]:
    """The truths at all ticks of an ego that follows the route's centre at a speed, for at most 20 s."""
    seen = [world.truth()]
    s: float | None = None
    while not until(seen[-1]) and seen[-1].time_s < 20.0:
        ego = seen[-1].ego
        s, _ = world.road.path.locate(ego.x, ego.y, s)
        world.step(tracking.control(ego, world.road.path, s, 0.0, tracking.to_speed(speed, ego.speed)))
        seen.append(world.truth())
    return seen


def moment(seen: list[GroundTruth], name: str) -> GroundTruth:
    return next(t for t in seen if any(name == known for _, known in t.events))


def has(name: str) -> Callable[[GroundTruth], bool]:
    return lambda t: any(name == known for _, known in t.events)


def test_accident_stands_aside_with_its_gaps_and_a_sign(world: World, routes: dict[str, Route]) -> None:
    truth, trigger = start(world, routes["2534"])  # 40 m
    ((police, aside),) = places(world, truth, "police")
    crashed = [p for p in places(world, truth, "car") if abs(p[1]) < 2.0]
    assert police - trigger == pytest.approx(40.0, abs=0.2) and aside == pytest.approx(-0.6 * 1.75, abs=0.05)
    assert [s - police for s, _ in crashed] == pytest.approx([10.0, 16.0], abs=0.2)
    assert [d for _, d in crashed] == pytest.approx([aside, aside], abs=0.05)
    ((sign, outside),) = places(world, truth, "warning sign")
    assert sign == pytest.approx(trigger, abs=0.2) and outside == pytest.approx(-3.55, abs=0.05)


def test_parked_obstacle_and_road_works(world: World, routes: dict[str, Route]) -> None:
    truth, trigger = start(world, routes["1773"])  # 40 m
    (car,) = [p for p in places(world, truth, "car") if abs(p[1]) < 2.0]
    assert car == pytest.approx((trigger + 40.0, -0.7 * 1.75), abs=0.1)
    truth, trigger = start(world, routes["2509"])  # 45 m
    cones = [(s - trigger - 45.0, d) for s, d in places(world, truth, "cone")]
    side = 0.85 * 1.75
    expected = [(2, side), (4, side), (6, side), (8, side), (8, side - 1), (8, side - 2), (8, side - 3)]
    by_place = sorted(cones, key=lambda p: (round(p[0]), p[1]))
    assert by_place == [pytest.approx(p, abs=0.1) for p in sorted(expected)]


def test_the_oncoming_lane_is_allowed_five_seconds_after_the_ego_has_come_within_fifty_metres(
    world: World, routes: dict[str, Route]
) -> None:
    _, trigger = start(world, routes["2664"])
    seen = drive(world, lambda t: t.oncoming_allowed, speed=3.0)
    x, y = world.road.path.pose(trigger + 44.0)[:2]
    near = next(t for t in seen if has("trigger")(t) and math.dist((t.ego.x, t.ego.y), (x, y)) < 50.0)
    assert seen[-1].time_s - near.time_s == pytest.approx(5.0, abs=0.11)


def test_all_cars_ahead_stop_at_the_trigger_for_ten_seconds(world: World, routes: dict[str, Route]) -> None:
    start(world, routes["3540"])
    seen = drive(world, lambda t: has("act")(t) and t.time_s > moment([t], "act").events[0][0] + 11.5, speed=2.0)
    began = moment(seen, "act").events
    began_s = next(s for s, name in began if name == "act")

    def speeds(after: float) -> list[float]:
        truth = min(seen, key=lambda t: abs(t.time_s - began_s - after))
        return [a.speed for a in truth.actors if a.kind == "car"]

    assert len(speeds(0.0)) == 2 and min(speeds(-0.1)) > 0.5
    assert max(speeds(2.5)) == max(speeds(9.9)) == 0.0
    assert min(speeds(11.5)) > 1.0


@pytest.mark.parametrize(("route", "seconds", "beyond"), [("17752", 2.3, 0.0), ("3248", 2.35, 2.8)])
def test_a_pedestrian_starts_by_time_to_arrival_with_its_angle(
    world: World, routes: dict[str, Route], route: str, seconds: float, beyond: float
) -> None:
    """Angles of 11 and 10 degrees: 2 * 0.1 s more than 2.1 s and 2.15 s."""
    _, trigger = start(world, routes[route])
    seen = drive(world, lambda t: has("act")(t) and walker(t).speed > 1.9)
    x, y = world.road.path.pose(trigger + routes[route].params["distance"] + beyond)[:2]
    ego = moment(seen, "act").ego
    assert seconds - 0.11 < math.dist((ego.x, ego.y), (x, y)) / ego.speed < seconds  # seen up to two ticks later
    turn = walker(seen[-1]).yaw - world.road.path.pose(trigger)[2]
    assert math.degrees(turn) % 360 == pytest.approx(90 + routes[route].params["crossing_angle"], abs=1.0)
    assert walker(seen[-1]).speed == pytest.approx(2.0, abs=0.05)


def walker(truth: GroundTruth) -> Actor:
    return next(a for a in truth.actors if a.kind == "pedestrian")


def test_an_ego_that_keeps_its_lane_has_not_given_way_after_ten_seconds(world: World, routes: dict[str, Route]) -> None:
    start(world, routes["3364"])
    seen = drive(world, has("yield failed"), speed=6.0)
    times = {name: s for s, name in seen[-1].events}
    assert times["yield failed"] - times["trigger"] == pytest.approx(10.0, abs=0.11)
    ambulance = next(a for a in seen[-2].actors if a.kind == "ambulance")
    lead = math.dist((ambulance.x, ambulance.y), (seen[-2].ego.x, seen[-2].ego.y))
    assert 7.0 < lead < 11.5 and ambulance.speed == pytest.approx(6.0, abs=0.3)  # 10 m + 0.15 s * 6 m/s


def test_an_object_never_moves_by_itself(world: World, routes: dict[str, Route], tmp_path: Path) -> None:
    program = tmp_path / "cones.scenic"
    program.write_text(
        "model scenic.domains.driving.model\n"
        "from closedloop_plugin.scenarios.actions import *\n"
        "ego = new Car at place(0), facing stage.heading(0)\n"
        'path = rail_across(40.0, "right", d=alongside("car"))\n'
        'new Thing at start_of(path), facing facing_of(path), with kind "cone", with rail path, \\\n'
        '    with behavior Obstruct(40.0, 20.0, "distance", 3.0, 0.4)\n'
    )
    start(world, routes["1773"], program)
    seen = drive(world, lambda t: world.road.path.locate(t.ego.x, t.ego.y)[0] > 34.0)
    assert has("act")(seen[-1])
    cones = {(round(a.x, 3), round(a.y, 3)) for t in seen[2:] for a in t.actors if a.kind == "cone"}
    ((x, y),) = cones
    assert world.road.path.locate(x, y) == pytest.approx((40.0, 0.4), abs=0.1)
