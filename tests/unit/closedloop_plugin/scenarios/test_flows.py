"""Flows and lines: places, timing with the ego, right of way. Values computed by hand on straight roads."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import SignalState, StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scenarios import flows, geometry
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

EAST = RoutePath([(0.0, 0.0), (100.0, 0.0)])
NORTH = RoutePath([(40.0, -60.0), (40.0, 60.0)])  # crosses EAST at s = 40, at s = 60 of NORTH


def stage(
    facts: dict[str, Any] | None = None, lines: tuple[StopLine, ...] = (), path: RoutePath = EAST
) -> ScenarioStage:
    road = RoadMap(
        Path("x.xodr"), "corridor", "T", "", path, (), junctions=((30.0, 50.0),), stop_lines=lines, facts=facts or {}
    )
    return ScenarioStage(road, {}, "", 10.0, 5)


def with_ego(s: ScenarioStage, x: float, y: float, yaw: float, speed: float) -> ScenarioStage:
    s.observe(SimpleNamespace(position=(x, y, 0.0), heading=yaw - math.pi / 2, speed=speed), 0)
    return s


def test_lines_meet_before_they_cross() -> None:
    place, other_place = geometry.meeting(EAST, NORTH) or (0.0, 0.0)
    assert 38.0 <= place <= 40.0  # within 1.6 m of the crossing at 40
    assert abs(other_place - 60.0) <= 1.0


def test_parallel_lines_do_not_meet_but_have_a_closest_place() -> None:
    beside = RoutePath([(0.0, 3.5), (100.0, 3.5)])
    assert geometry.meeting(EAST, beside) is None
    place, other_place = geometry.closest(EAST, beside, 20.0)
    assert place >= 20.0 and other_place == pytest.approx(place)


def test_across_crosses_the_ego_lane_at_the_given_place() -> None:
    path = geometry.across(stage({"lanes": {"oncoming": 1}}).road, 50.0, -3.0, 10.0)
    _, d = path.locate(50.0, 0.0)
    assert abs(d) < 0.01
    assert path.xy[0] == pytest.approx([50.0 - 3.0 * math.tan(math.radians(10)), -3.0])
    assert path.xy[-1][1] == pytest.approx(3.5 * 1.5 + 1.2)  # beyond one oncoming lane


def actor_flow(
    scene: ScenarioStage | None = None, gaps: tuple[float, float] = (15.0, 25.0), **more: Any
) -> flows.ActorFlow:
    return flows.ActorFlow(scene or stage(), NORTH, (0.0, 120.0), 10.0, gaps, 60.0, **more)


def run(flow: flows.ActorFlow, scene: ScenarioStage, seconds: float) -> list[list[float]]:
    """Play a flow at 20 Hz; the places of its cars after every tick."""
    seen = []
    for _ in range(round(seconds / 0.05)):
        scene.time_s += 0.05
        flow.step(scene)
        for rail in flow.on_line:
            rail.advance(0.05)
        seen.append([r.s for r in flow.on_line])
    return seen


def test_a_flow_does_not_end_while_the_ego_waits_and_keeps_the_distances_of_the_route() -> None:
    scene = with_ego(stage(), 20.0, 0.0, 0.0, 0.0)
    flow = actor_flow(scene)
    seen = run(flow, scene, 200.0)
    assert all(cars for cars in seen[300:])
    gaps = {round(a - b, 3) for cars in seen for a, b in itertools.pairwise(cars)}
    assert all(15.0 <= gap <= 25.0 for gap in gaps)
    assert len(gaps) > 50  # drawn anew for each car
    assert len(flow.rails) <= flows.MOST
    assert all(r.speed == 10.0 and r.gap is None for r in flow.rails)  # as in CARLA, they brake for nobody


def test_a_flow_begins_at_its_source_or_is_there_outside_the_junction() -> None:
    scene = stage()
    empty, everywhere, outside = (actor_flow(scene, populated=p) for p in (False, True, (40.0, 80.0)))
    assert run(empty, scene, 0.05)[0] == pytest.approx([0.5])
    (cars,) = run(everywhere, scene, 0.05)
    assert len(cars) >= 5 and any(40.0 < s < 80.0 for s in cars)
    (cars,) = run(outside, scene, 0.05)
    assert len(cars) >= 3 and not any(41.0 < s < 80.0 for s in cars)


def test_a_flow_is_the_same_for_a_seed() -> None:
    first, second = (run(actor_flow(scene), scene, 30.0) for scene in (stage(), stage()))
    assert first == second


def test_a_flow_ends_where_its_scenario_ends_or_by_timeout() -> None:
    scene = stage()
    flow = actor_flow(scene)
    run(flow, scene, 10.0)
    scene.ego_s = 61.0
    assert run(flow, scene, 1.0)[-1] == []
    assert flow.stream() is None
    scene = stage()
    flow = actor_flow(scene)
    run(flow, scene, 241.0)
    assert scene.happened("scenario timeout") and flow.ended


def test_after_a_collision_the_others_keep_their_distance() -> None:
    scene = stage()
    flow = actor_flow(scene)
    run(flow, scene, 6.0)
    hit = flow.on_line[0]
    for _ in range(3):  # a car that was hit is no longer moved along its line
        flow.step(scene)
        for rail in flow.on_line:
            if rail is not hit:
                rail.advance(0.05)
    assert flow.crashed and all(r.gap == 3.0 for r in flow.rails)
    assert flow.stream() is None  # what it said no longer holds


def test_a_stream_says_when_the_next_cars_come() -> None:
    scene = stage()
    flow = actor_flow(scene)
    run(flow, scene, 5.0)
    before = flow.stream()
    assert before is not None and before.until_s == 60.0
    run(flow, scene, 3.0)
    after = flow.stream()
    assert after is not None
    expected = [s + 30.0 for s in (*before.cars, *before.coming)]  # 3 s at 10 m/s
    present = [s for s in expected if 0.0 <= s < 120.0]
    assert present == pytest.approx(list(after.cars)[-len(present) :], abs=0.6)


def test_claims_returns_which_vehicle_has_to_brake() -> None:
    rail = Rail(NORTH, 40.0, speed=10.0, now=10.0)  # 20 m before the crossing
    assert flows.claims(rail, with_ego(stage(), 40.0, 0.0, 0.0, 8.0)) == 0  # cuts across
    assert flows.claims(rail, with_ego(stage(), 40.0, 0.0, 0.0, 0.0)) == 1  # stands at the crossing
    assert flows.claims(rail, with_ego(stage(), 40.0, 0.0, math.pi / 2, 5.0)) == 1  # drives ahead
    assert flows.claims(rail, with_ego(stage(), 40.0, 0.0, -math.pi / 2, 5.0)) == -1  # comes towards it
    assert flows.claims(rail, with_ego(stage(), 40.0, -30.0, 0.0, 0.0)) == 0  # is behind


def test_pace_slows_for_a_bend() -> None:
    """A quarter circle of 20 m: at most sqrt(4.5 * 20) = 9.5 m/s."""
    turn = np.linspace(0.0, math.pi / 2, 60)
    bend = [(50.0 + 20 * math.sin(a), 20 - 20 * math.cos(a)) for a in turn]
    line = RoutePath([(0.0, 0.0), *bend, (70.0, 90.0)])
    pace = flows.Pace(line, 15.0)
    assert pace.speed(65.0) == pytest.approx(math.sqrt(flows.SIDEWAYS * 20), rel=0.05)
    assert pace.speed(0.0) == 15.0
    assert pace.seconds(0.0, 30.0) == pytest.approx(2.0, rel=0.2)
    assert pace.before(60.0, pace.seconds(10.0, 60.0)) == pytest.approx(10.0, abs=0.1)


def test_every_second_gap_between_oncoming_cars_is_usable() -> None:
    convoy = flows.oncoming(stage(), (30.0, 60.0), 7.5, 50.0)
    first, second, third, fourth = (r.s for r in convoy.rails)
    assert 30.0 <= second - first <= 60.0
    assert third - second == flows.USABLE_M
    assert 30.0 <= fourth - third <= 60.0
    assert all(r.direction == -1 and r.d == 3.5 for r in convoy.rails)


def test_oncoming_traffic_does_not_end_while_the_ego_waits() -> None:
    """A car that is 60 m behind the ego enters again behind the last one, at the convoy's speed."""
    s = with_ego(stage(), 20.0, 0.0, 0.0, 0.0)
    convoy = flows.oncoming(s, (30.0, 60.0), 7.5, 50.0)
    cars, last = list(convoy.rails), convoy.rails[-1].s
    cars[0].s = s.ego_s - 59.0
    convoy.step(s)
    assert convoy.rails == cars
    cars[0].s = s.ego_s - 61.0
    convoy.step(s)
    assert convoy.rails == [*cars[1:], cars[0]]
    assert cars[0].s == last + flows.USABLE_M and cars[0].now == 7.5


def test_traffic_beside_and_in_the_next_lane_does_not_end() -> None:
    """Of the gaps drawn for seven cars the fifth is wide, for six overtaking ones the third. A car 120 m ahead of the
    ego enters again behind the last one."""
    s = with_ego(stage(), 0.0, -3.0, 0.0, 0.0)
    convoy = flows.beside(s, 7.0, 25.0)
    assert -np.diff([r.s for r in convoy.rails]) == pytest.approx([25.0] * 4 + [flows.LEAVE_M, 25.0])
    cars, last = list(convoy.rails), convoy.rails[-1].s
    cars[0].s = s.ego_s + flows.AHEAD_M + 1.0
    convoy.step(s)
    assert convoy.rails == [*cars[1:], cars[0]]
    assert cars[0].s == last - 25.0
    overtaking = -np.diff([r.s for r in flows.passing(s, 14.0, 1).rails])
    assert overtaking[2] == flows.CHANGE_M
    assert np.all((np.delete(overtaking, 2) >= 14.0) & (np.delete(overtaking, 2) <= 26.0))


def test_arms_are_found_by_their_side() -> None:
    arms = [{"name": "exit", "out": [40.0, 10.0, math.pi / 2]}, {"name": "entry", "out": [30.0, 0.0, math.pi]},
            {"name": "ahead", "out": [50.0, 0.0, 0.0]}]  # fmt: skip
    facts = {"junction": {"arms": arms}, "flows": {"ahead->entry": [[90.0, 3.5], [0.0, 3.5]]}}
    road = stage(facts).road
    assert geometry.arm_towards(road, "left") == "exit"
    assert geometry.arm_towards(road, "right") is None
    assert geometry.junction_flow(road, "opposite", "entry").length == pytest.approx(90.0)


def test_a_junction_without_facts_still_has_a_flow_that_meets_the_route() -> None:
    arm, line, (place, _) = geometry.conflict(stage().road, "left")
    assert arm == "left"
    assert 28.0 <= place <= 52.0
    assert line.pose(0.0)[2] == pytest.approx(-math.pi / 2, abs=0.01)  # from the left: southwards


def test_green_for_gives_the_flow_a_green_light() -> None:
    lines = (StopLine("a", 40.0, -10.0, math.pi / 2, 3.5, "signal"), StopLine("b", 30.0, 0.0, 0.0, 3.5, "signal", True))
    scene = stage(lines=lines)
    scene.hold_signals(route="green", cross="red")
    flows.green_for(scene, NORTH)
    assert scene.signals == {"a": SignalState.GREEN, "b": SignalState.GREEN}
