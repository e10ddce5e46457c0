"""Background traffic: its paths and distances."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import ActorKind, SignalState, StopLine
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.car_following import closed_stop_lines, find_leader, idm, max_acceleration
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bodies.vehicle import MotionState, size_of
from closedloop_plugin.worlds.bridge.ground import NetworkGround
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.embedded.traffic import BackgroundTraffic, cycle_paths, drivable_paths, pavements

LINE = RoutePath([(0, 0), (300, 0)])
STRAIGHT = tuple((2.0 * i, 0.0) for i in range(61))


@cache
def staged(layout: RoadLayout) -> tuple[ScenarioStage, object]:
    """A 120 m road along +x with the layout's lanes, and Scenic's network of it."""
    from scenic.domains.driving.roads import Network

    route = Route("1", "T", STRAIGHT, "", "", (20.0, 0.0, 0.0))
    road = road_for(route, layout, folder=Path(mkdtemp()))
    return ScenarioStage(road, {}, "", 20.0, 0), Network.fromFile(road.file, useCache=False, writeCache=False)


def car(x: float, y: float = 0.0, v: float = 0.0, kind: ActorKind = ActorKind.CAR, name: str = "") -> SimulatedBody:
    return SimulatedBody(name or f"{x},{y}", kind, MotionState(x, y, 0.0, v), *size_of(kind.value))


def offsets(found: list[RoutePath]) -> list[tuple[float, int]]:
    """(mean y, direction along x) of each path."""
    return sorted((round(float(w.xy[:, 1].mean()), 1), 1 if w.xy[-1, 0] > w.xy[0, 0] else -1) for w in found)


def test_paths_use_the_next_and_the_oncoming_lane_but_not_the_egos() -> None:
    stage, network = staged(RoadLayout(left=1, oncoming=1))
    assert offsets(drivable_paths(network, stage)) == [(3.5, 1), (7.0, -1)]


def test_lanes_used_by_the_scenario_have_no_traffic() -> None:
    stage, network = staged(RoadLayout(left=1, oncoming=1))
    flow = Rail(stage.road.path, 100.0, 7.0, speed=8, direction=-1)
    assert offsets(drivable_paths(network, stage, [flow])) == [(3.5, 1)]


def test_pedestrians_walk_beside_the_road() -> None:
    stage, network = staged(RoadLayout(left=1, oncoming=1))
    found = pavements(network, stage)
    assert found and all(abs(y) > 2.0 for y, _ in offsets(found))


def test_cyclists_ride_on_the_far_shoulder_out_of_the_way_of_cars() -> None:
    stage, network = staged(RoadLayout(oncoming=1))
    ground = NetworkGround(network)
    (cycle_path,) = cycle_paths(drivable_paths(network, stage), stage, ground)
    assert cycle_path[1] == -2.5 and cycle_path[0].pose(50.0, cycle_path[1])[1] == pytest.approx(3.5 + 2.5, abs=0.05)
    objects = [SimpleNamespace(position=(0.0, 0.0), rail=None)]
    background = BackgroundTraffic(stage, network, objects, 1, ground)
    cyclists = [b for b in background.bodies if b.kind is ActorKind.BICYCLE]
    assert 1 <= len(cyclists) <= 2 and all(b.role == "background" for b in cyclists)
    bicycle = cyclists[0]
    assert bicycle.rail is not None
    behind = SimulatedBody("x", ActorKind.TRUCK, MotionState(0, 0, 0), *size_of("truck"))
    behind.rail = Rail(bicycle.rail.path, bicycle.rail.s - 15.0, speed=8.0, gap=2.5, now=8.0)
    behind.motion = MotionState(*behind.rail.pose(), 8.0)
    assert find_leader(behind, behind.rail, cyclists) is None  # a truck in the lane can pass
    stage.road = replace(stage.road, speed_limit=25.0)
    try:
        on_a_motorway = BackgroundTraffic(stage, network, objects, 1, ground)
        assert all(b.kind is not ActorKind.BICYCLE for b in on_a_motorway.bodies)
    finally:
        staged.cache_clear()


def test_there_are_no_cyclists_without_a_shoulder() -> None:
    stage, network = staged(RoadLayout(oncoming=1, shoulder=False))
    assert cycle_paths(drivable_paths(network, stage), stage, NetworkGround(network)) == []


def test_idm_accelerates_behind_a_far_leader_and_brakes_behind_a_near_one() -> None:
    assert idm(8.0, 10.0, 200.0, 10.0, 2.0, 4.0, 2.5) > 0.5
    assert idm(10.0, 10.0, 12.0, 0.0, 2.0, 4.0, 2.5) < -4.0
    assert idm(0.0, 10.0, 2.5, 0.0, 2.0, 4.0, 2.5) == pytest.approx(0.0, abs=0.01)


def test_the_leader_is_the_nearest_body_ahead_in_the_corridor() -> None:
    follower = car(10.0, v=8.0)
    follower.rail = Rail(LINE, 10.0, now=8.0)
    beside, behind, ahead, farther = car(30.0, 3.5), car(0.0), car(40.0, v=3.0), car(60.0)
    gap, speed = find_leader(follower, follower.rail, [follower, beside, behind, farther, ahead]) or (0, 0)
    assert (gap, speed) == pytest.approx((30 - 4.6, 3.0))
    assert find_leader(follower, follower.rail, [beside, behind]) is None
    assert (
        find_leader(follower, follower.rail, [car(30.0, 1.9, kind=ActorKind.PEDESTRIAN)]) is not None
    )  # near the edge: a person counts


def test_a_driver_stops_for_red_at_the_line_and_goes_on_green() -> None:
    line = StopLine("a", 80.0, 0.0, 0.0, 3.5, "signal")
    lights = TrafficLightCycle([line], 0)
    body = car(0.0, v=10.0)
    body.rail = rail = Rail(LINE, 0.0, speed=10.0, now=10.0, gap=2.5, lights=True)
    for state in (SignalState.RED, SignalState.GREEN):
        lights.state["a"] = state
        for _ in range(400):
            rail.advance(0.05, max_acceleration(body, [], closed_stop_lines(lights)))
            body.motion.x = rail.s
        if state is SignalState.RED:
            assert 74.0 < rail.s + 2.3 < 80.0 and (rail.now or 0.0) < 0.1
    assert rail.s > 120


def run(background: BackgroundTraffic, ego: SimulatedBody, ticks: int) -> None:
    from closedloop_plugin.worlds.embedded.collisions import resolve_collisions

    for _ in range(ticks):
        bodies = [ego, *background.bodies]
        background.step(bodies, [], 0.05)
        assert not resolve_collisions(bodies)


@pytest.mark.parametrize("seed", range(3))
def test_traffic_starts_away_from_the_ego_is_seeded_and_avoids_a_standing_car(seed: int) -> None:
    stage, network = staged(RoadLayout(left=1, oncoming=1))
    objects = [SimpleNamespace(position=(0.0, 0.0), rail=None)]

    def create() -> BackgroundTraffic:
        return BackgroundTraffic(stage, network, objects, seed, NetworkGround(network))

    background = create()
    drivers = [b for b in background.bodies if b.kind not in (ActorKind.PEDESTRIAN, ActorKind.BICYCLE)]
    assert 2 <= len(drivers) <= 7 and any(b.kind is ActorKind.PEDESTRIAN for b in background.bodies)
    assert all(math.hypot(b.motion.x, b.motion.y) > 25 for b in drivers)
    assert [b.actor() for b in create().bodies] == [b.actor() for b in background.bodies]
    ego = car(60.0, 2.6, name="ego")  # standing askew over the line between two lanes
    for body in [b for b in background.bodies if math.dist((b.motion.x, b.motion.y), (60.0, 2.6)) < 30]:
        background.bodies.remove(body)
    run(background, ego, 800)


def test_a_hit_body_stays_at_rest() -> None:
    stage, network = staged(RoadLayout(left=1, oncoming=1))
    background = BackgroundTraffic(stage, network, [SimpleNamespace(position=(0.0, 0.0))], 1, NetworkGround(network))
    body = background.bodies[0]
    body.rail, body.was_hit = None, True
    run(background, car(-200.0), 200)
    assert body.motion.v == 0.0 and body.braking
