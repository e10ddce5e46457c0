"""Manoeuvres against values worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth, SignalState, StopLine
from closedloop_plugin.driver.agents.planning import manoeuvre
from closedloop_plugin.driver.agents.planning.manoeuvre import LateralOffset, StandstillTimer
from closedloop_plugin.maps.base import RoadMap

ROAD = RoutePath([(0, 0), (200, 0)])


def car(
    x: float, y: float = 0.0, speed: float = 0.0, yaw: float = 0.0, kind: ActorKind = ActorKind.CAR, name: str = "a"
) -> Actor:
    return Actor(id=name, kind=kind, x=x, y=y, yaw=yaw, speed=speed, length=4.5, width=2.0, height=1.5)


def road(**lanes: int) -> RoadMap:
    return RoadMap(Path("x"), "corridor", "T", "0", ROAD, (), facts={"lanes": lanes})


def test_a_stationary_car_is_a_blocker_but_a_queue_at_a_red_light_is_not() -> None:
    line = StopLine("l", 60, 0, 0, 3.5, "signal", True, 60.0)
    plain = road(left=1)
    with_signal = RoadMap(Path("x"), "corridor", "T", "0", ROAD, (), stop_lines=(line,), facts={"lanes": {"left": 1}})
    truth = GroundTruth(0, 0, car(10, name="ego"), (car(45, name="b"),), {"l": SignalState.RED})
    standstill = StandstillTimer()
    actors = manoeuvre.route_actors(ROAD, truth, 10)
    assert manoeuvre.blockers(plain, truth, actors, standstill, 10) == [], "nobody has stood long enough"
    standstill.update(actors, 2.0)
    assert [x.actor.id for x in manoeuvre.blockers(plain, truth, actors, standstill, 10)] == ["b"]
    assert manoeuvre.blockers(with_signal, truth, actors, standstill, 10) == [], "it waits for the red light"


def test_passing_offset_is_the_smallest() -> None:
    truth = GroundTruth(0, 0, car(10, name="ego"), (car(45, name="b"),))
    group = manoeuvre.route_actors(ROAD, truth, 10)
    assert manoeuvre.passing_offset(road(left=1, right=0), truth, group) == (3.5, "pass")
    assert manoeuvre.passing_offset(road(right=1), truth, group) == (-3.5, "pass")
    assert manoeuvre.passing_offset(road(oncoming=1), truth, group) is None, "the other lane only where it is allowed"
    allowed = GroundTruth(0, 0, truth.ego, truth.actors, oncoming_allowed=True)
    assert manoeuvre.passing_offset(road(oncoming=1), allowed, group) == (pytest.approx(2.8), "oncoming")


def test_cones_along_the_edge_of_the_lane_belong_to_the_road_works_behind_which_they_stand() -> None:
    """A barrier in the lane, then a cone at 1.5 m, which alone would be clear of the ego (1.0 + 0.3 m)."""
    barrier = Actor(id="b", kind=ActorKind.BARRIER, x=40, y=0, yaw=0, speed=0, length=1.2, width=2.2, height=2.4)
    cone = Actor(id="c", kind=ActorKind.CONE, x=47, y=1.5, yaw=0, speed=0, length=0.35, width=0.35, height=0.7)

    def found(*actors: Actor) -> list[str]:
        truth = GroundTruth(0, 0, car(10, name="ego"), actors)
        seen = manoeuvre.route_actors(ROAD, truth, 10)
        return [x.actor.id for x in manoeuvre.blockers(road(), truth, seen, StandstillTimer(), 10)]

    assert found(barrier, cone) == ["b", "c"]
    assert found(cone) == []


def test_a_cyclist_at_the_right_is_passed_in_the_next_lane() -> None:
    """Its left edge is at -0.66 m: 0.8 m beside it the ego's centre is at 1.14 m, over the edge of a 3.5 m lane; a
    parked car with the same edge is passed at 0.79 m."""
    for kind, offset in ((ActorKind.BICYCLE, 3.5), (ActorKind.CAR, 0.79)):
        actor = Actor(id="b", kind=kind, x=40, y=-0.96, yaw=0, speed=0, length=1.8, width=0.6, height=1.7)
        truth = GroundTruth(0, 0, car(10, name="ego"), (actor,))
        group = manoeuvre.route_actors(ROAD, truth, 10)
        assert manoeuvre.passing_offset(road(left=1), truth, group) == (pytest.approx(offset), "pass")


def test_oncoming_gap() -> None:
    """Passing an obstacle that ends at 31.3 m: 40 m from standstill, about 7 s; the other comes 56 m nearer."""

    def scene(x: float, speed: float = 8.0) -> list[manoeuvre.RouteActor]:
        others = (car(29.05), car(x, 3.5, speed, math.pi, name="o"))
        return manoeuvre.route_actors(ROAD, GroundTruth(0, 0, car(10, name="e"), others), 10, reach=300)

    def free(x: float, speed: float = 8.0, top: float = 8.0) -> bool:
        obstacle, other = scene(x, speed)
        return manoeuvre.oncoming_is_free([obstacle, other], 10, 0.0, [obstacle], 3.5, top)

    assert not free(90)
    assert free(140)
    assert not free(45, 0.0), "who stands there blocks as well"
    assert free(60, 0.0)
    assert not free(140, top=3.0), "at 3 m/s it takes 14 s, in which the other comes 112 m nearer"


def test_a_group_that_is_as_fast_as_the_ego_may_drive_is_not_passed() -> None:
    truth = GroundTruth(0, 0, car(10, name="e"), (car(30, 0.0, 4.8, kind=ActorKind.BICYCLE),))
    group = manoeuvre.route_actors(ROAD, truth, 10)
    assert not manoeuvre.oncoming_is_free(group, 10, 4.8, group, 3.5, 5.0)
    assert manoeuvre.oncoming_is_free(group, 10, 4.8, group, 3.5, 8.0)


def test_head_on_gives_way_into_its_own_lane() -> None:
    def stuck(*others: Actor) -> bool:
        return manoeuvre.head_on(
            manoeuvre.route_actors(ROAD, GroundTruth(0, 0, car(50, 2.8, name="e"), others), 50), 50, 2.8
        )

    facing = car(60, 3.5, 0.0, math.pi, name="o")
    assert stuck(facing)
    assert not stuck(facing, car(52, -0.7, kind=ActorKind.BICYCLE, name="b")), "no room beside"
    assert not stuck(car(60, 3.5, 8.0, math.pi))


@pytest.mark.parametrize(("distance", "speed", "top", "seconds"), [(9, 0, 8, 3.0), (48, 8, 8, 6.0), (32, 0, 8, 6.0)])
def test_travel_time(distance: float, speed: float, top: float, seconds: float) -> None:
    assert manoeuvre.travel_time(distance, speed, top) == pytest.approx(seconds)


def test_a_ramp_is_smooth_and_ends() -> None:
    ramp = LateralOffset()
    ramp.move(20.0, 0.0, 3.5, 8.0, "pass")
    d = ramp.at(np.arange(0, 80, 0.5))
    assert d[0] == 0.0
    assert d[-1] == 3.5
    assert np.abs(np.diff(d)).max() < 0.2, "no step"


def test_the_return_begins_where_the_group_is_passed() -> None:
    bicycle = manoeuvre.route_actors(
        ROAD, GroundTruth(0, 0, car(10, name="e"), (car(40, 0.0, 2.0, kind=ActorKind.BICYCLE),)), 10
    )
    # 40 + 2.25 + 2.35 + 2 = 46.6 m is 36.6 m ahead; at 8 m/s behind 2 m/s it is reached after 36.6 * 8 / 6 m.
    assert manoeuvre.passed_at(bicycle, 10, 8.0, math.inf) == pytest.approx(10 + 36.6 * 8 / 6)
    assert manoeuvre.passed_at(bicycle, 10, 0.0, 4.0) == pytest.approx(10 + 36.6 * 4 / 2)  # at most 4 m/s
    ramp = LateralOffset(0.0, 0.0, 2.8, 10.0, "oncoming", back_s=40.0)
    assert list(ramp.at(np.array([0.0, 10.0, 40.0, 47.0, 54.0]))) == pytest.approx([0, 2.8, 2.8, 1.4, 0])
