"""Collisions, lights, stop signs, lanes, and speed relative to the traffic, with values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.closedloop.ticks import OTHER, at, lists, referee, ride, steps, touch

from closedloop_plugin.core.state import ActorKind, DrivingSurface, SignalState, StopLine
from closedloop_plugin.scoring.driving import route_efficiency

LINE = StopLine("L1", 40.0, 0.0, 0.0, 3.5, "signal", True, 40.0)
STOP = replace(LINE, id="S1", control="stop")
RED = {"L1": SignalState.RED, "L2": SignalState.RED}


# -- collisions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [
        (ActorKind.CAR, "collisions_vehicle", "vehicle.car"),
        (ActorKind.BICYCLE, "collisions_vehicle", "vehicle.bicycle"),
        (ActorKind.PEDESTRIAN, "collisions_pedestrian", "walker.pedestrian"),
        (ActorKind.CHILD, "collisions_pedestrian", "walker.child"),
        (ActorKind.ANIMAL, "collisions_pedestrian", "walker.animal"),
        (ActorKind.CONE, "collisions_layout", "static.cone"),
        (ActorKind.WARNING_SIGN, "collisions_layout", "static.warning_sign"),
        (ActorKind.BLOCKER, "collisions_layout", "static.blocker"),
    ],
)
def test_collisions_are_classified_by_the_actor_hit(kind: ActorKind, name: str, type_: str) -> None:
    judge = referee()
    judge.tick(at(0, 10.0, 1.0))
    judge.tick(at(1, 10.5, 1.0, contacts=(touch(kind),)))
    outcome = judge.outcome()
    text = f"Agent collided against object with type={type_} and id=7 at (x=10.5, y=-1.0, z=0.0)"
    assert lists(outcome) == {name: [text]}
    place = {"kind": name, "time_s": 0.05, "x": 12.0, "y": 1.0, "text": text, "actor": "7"}  # the contact's place
    assert outcome.places == [place]


@pytest.mark.parametrize(
    ("later_s", "metres", "count"),
    [(0.05, 0.5, 1), (5.0, 50.0, 1), (5.05, 5.0, 1), (5.05, 5.1, 2), (4.95, 80.0, 1), (20.0, 1.0, 1), (20.0, 30.0, 2)],
)
def test_the_same_actor_within_5_s_or_5_m_is_one_collision(later_s: float, metres: float, count: int) -> None:
    judge = referee()
    judge.tick(at(0, 5.0, contacts=(touch(),)))
    judge.tick(at(round(later_s * 20) - 1, 5.0 + metres, speed=8.0))
    judge.tick(at(round(later_s * 20), 5.0 + metres, contacts=(touch(),)))
    assert len(judge.outcome().infractions["collisions_vehicle"]) == count


def test_another_actor_is_another_collision() -> None:
    judge = referee()
    judge.tick(at(0, 5.0, contacts=(touch(), touch(name="8"))))
    assert len(judge.outcome().infractions["collisions_vehicle"]) == 2


@pytest.mark.parametrize(("speed", "count"), [(0.0, 0), (0.0999, 0), (0.1, 1), (-0.5, 1)])
def test_being_hit_while_standing_is_no_collision_of_the_ego(speed: float, count: int) -> None:
    judge = referee()
    judge.tick(at(0, 5.0, speed=speed))
    judge.tick(at(1, 5.0, speed=3.0, contacts=(touch(),)))  # the push
    judge.tick(at(2, 5.15, speed=3.0, contacts=(touch(),)))  # still in touch, now moving
    assert len(judge.outcome().infractions["collisions_vehicle"]) == count


def test_the_crash_that_stops_the_ego_counts() -> None:
    """The tick of the impact already has speed 0; the one before had 10 m/s."""
    judge = referee()
    judge.tick(at(0, 5.0, speed=10.0))
    judge.tick(at(1, 5.3, speed=0.0, contacts=(touch(ActorKind.BARRIER),)))
    assert len(judge.outcome().infractions["collisions_layout"]) == 1


def test_contacts_after_being_hit_are_ignored_for_5_s_and_5_m() -> None:
    judge = referee()
    judge.tick(at(0, 5.0, speed=0.0, contacts=(touch(),)))
    for tick in range(1, 101):
        judge.tick(at(tick, 5.0, speed=1.0, contacts=(touch(),)))
    assert not judge.outcome().infractions["collisions_vehicle"]  # exactly 5 s
    judge.tick(at(101, 5.0, speed=1.0, contacts=(touch(),)))
    assert len(judge.outcome().infractions["collisions_vehicle"]) == 1


# -- red lights ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "count"), [(SignalState.RED, 1), (SignalState.YELLOW, 0), (SignalState.GREEN, 0), (None, 0)]
)
def test_only_red_is_an_infraction(state: SignalState | None, count: int) -> None:
    judge = referee([LINE])
    ride(judge, steps(30, 50), signals={} if state is None else {"L1": state})
    found = judge.outcome().infractions["red_light"]
    assert found == ["Agent ran a red light L1 at (x=40.0, y=0.0, z=0.0)"][:count]


def test_the_signal_at_the_moment_of_crossing_counts() -> None:
    judge = referee([LINE])
    ride(judge, steps(30, 39.5), signals=RED)
    judge.tick(at(20, 40.2, signals={"L1": SignalState.GREEN}))
    ride(judge, steps(40.5, 50), first=21, signals=RED)
    assert lists(judge.outcome()) == {}


def test_standing_with_the_front_over_the_line_is_no_infraction() -> None:
    judge = referee([LINE])
    ride(judge, steps(30, 39.5), signals=RED)  # the front, 2 m ahead, is 1.5 m over
    for tick in range(20, 60):
        judge.tick(at(tick, 39.5, speed=0.0, signals=RED))
    assert lists(judge.outcome()) == {}


def test_reversing_over_a_line_is_no_infraction() -> None:
    judge = referee([LINE])
    ride(judge, steps(45, 35), signals=RED)
    assert lists(judge.outcome()) == {}


def test_a_line_of_another_road_counts_only_in_its_direction() -> None:
    """Northbound approach at x = 40; the ego turns into it, or only passes by on its own road."""
    north = StopLine("L2", 40.0, 6.0, math.pi / 2, 3.5, "signal")
    past = referee([north])
    ride(past, steps(30, 50), signals=RED)
    assert lists(past.outcome()) == {}
    into = referee([north])
    for tick, y in enumerate(steps(0, 9)):
        into.tick(at(tick, 41.5, y, signals=RED))
    assert len(into.outcome().infractions["red_light"]) == 1
    out = referee([north])
    for tick, y in enumerate(steps(9, 0, -0.5)):
        out.tick(at(tick, 41.5, y, signals=RED))
    assert lists(out.outcome()) == {}


@pytest.mark.parametrize(("y", "count"), [(1.75, 1), (1.76, 0), (-1.75, 1)])
def test_crossings_beside_the_line_do_not_count(y: float, count: int) -> None:
    judge = referee([LINE])
    ride(judge, steps(30, 50), y=y, signals=RED)
    assert len(judge.outcome().infractions["red_light"]) == count


def test_the_lines_of_the_lanes_of_one_approach_count_once() -> None:
    """Two lines that overlap, half a metre apart: one infraction. A second junction: another."""
    lines = [LINE, replace(LINE, id="L2", x=40.6), replace(LINE, id="L3", x=80.0)]
    judge = referee(lines)
    ride(judge, steps(30, 90), signals={**RED, "L3": SignalState.RED})
    assert len(judge.outcome().infractions["red_light"]) == 2
    assert judge.outcome().score_penalty == pytest.approx(0.49)


# -- stop signs ------------------------------------------------------------------------------------------------------
def _stop_drive(stand_at: float | None, speed: float = 0.0, back_to: float | None = None) -> list[str]:
    judge = referee([STOP])
    xs = steps(20, 60)
    if stand_at is not None:
        xs = [*steps(20, stand_at, 0.25)]
    ride(judge, xs)
    if stand_at is not None:
        judge.tick(at(200, stand_at, speed=speed))
        if back_to is not None:
            ride(judge, steps(stand_at, back_to, -0.25), first=201)
        ride(judge, steps(stand_at if back_to is None else back_to, 60, 0.25), first=400)
    return judge.outcome().infractions["stop_infraction"]


def test_running_a_stop_sign_is_an_infraction() -> None:
    assert _stop_drive(None) == ["Agent ran a stop with id=S1 at (x=40.0, y=0.0, z=0.0)"]


@pytest.mark.parametrize(
    ("stand_at", "speed", "count"),
    [
        (34.0, 0.0, 0),  # the front, 2 m ahead, is exactly 4 m from the line
        (33.75, 0.0, 1),
        (39.75, 0.0, 0),
        (37.0, 0.0999, 0),
        (37.0, 0.1, 1),
        (37.0, -0.05, 0),
    ],
)
def test_a_stop_is_below_0_1_m_s_within_4_m_of_the_line(stand_at: float, speed: float, count: int) -> None:
    assert len(_stop_drive(stand_at, speed)) == count


def test_a_stop_is_forgotten_when_the_car_leaves() -> None:
    assert len(_stop_drive(37.0, 0.0, back_to=30.0)) == 1
    assert len(_stop_drive(37.0, 0.0, back_to=36.0)) == 0


def test_a_yield_line_requires_nothing() -> None:
    judge = referee([replace(LINE, control="yield")])
    ride(judge, steps(30, 50), signals=RED)
    assert lists(judge.outcome()) == {}


# -- lanes -----------------------------------------------------------------------------------------------------------
def _excursion(surface: DrivingSurface, y: float, metres: float = 5.0, allowed: bool = False, start: float = 40.0):
    judge = referee()
    before = steps(0, start)
    ride(judge, before)
    n = round(metres / 0.5)
    for k in range(1, n + 1):  # n ticks outside, which include the way back
        tick = len(before) + k
        judge.tick(at(tick, start + 0.5 * k, y, surface=surface, oncoming_allowed=allowed))
    ride(judge, steps(start + metres + 0.5, 80), first=200)
    return judge.outcome()


def test_driving_on_the_oncoming_lane_is_charged_by_its_share() -> None:
    """5 of 80 m: 6.25 %, so the score is 80 x 0.9375 = 75."""
    outcome = _excursion(DrivingSurface.ONCOMING, 3.5)
    text = "Agent went outside its route lanes for about 5.0 meters (6.25% of the completed route)"
    assert lists(outcome) == {"outside_route_lanes": [text]}
    assert (outcome.score_penalty, outcome.score_composed) == (0.9375, 75.0)
    assert outcome.places == [{"kind": "outside_route_lanes", "time_s": 4.1, "x": 40.5, "y": 3.5, "text": text}]


@pytest.mark.parametrize(
    ("surface", "y", "metres", "allowed", "counts"),
    [
        (DrivingSurface.ONCOMING, 3.5, 5.0, True, False),  # the scenario needs it
        (DrivingSurface.SHOULDER, -3.5, 5.0, True, True),  # does not permit the shoulder
        (DrivingSurface.OFF, 6.0, 5.0, False, True),
        (DrivingSurface.ONCOMING, 1.76, 5.0, False, True),  # beyond the lane's edge
        (DrivingSurface.ONCOMING, 1.75, 5.0, False, False),  # in the lane of the route, regardless of the map
        (DrivingSurface.SHOULDER, -2.25, 5.0, False, False),  # half a metre over the edge is tolerated
        (DrivingSurface.SHOULDER, -2.26, 5.0, False, True),
        (DrivingSurface.ONCOMING, 3.5, 0.5, False, False),  # under a metre of route
        (DrivingSurface.ONCOMING, 3.5, 1.0, False, True),
        (DrivingSurface.LANE, 3.5, 5.0, False, False),
    ],
)
def test_positions_that_count_as_outside_the_lanes(
    surface: DrivingSurface, y: float, metres: float, allowed: bool, counts: bool
) -> None:
    assert bool(_excursion(surface, y, metres, allowed).infractions["outside_route_lanes"]) is counts


def test_two_excursions_make_one_message_and_two_places() -> None:
    judge = referee()
    for tick, x in enumerate(steps(0, 60)):
        out = 20 < x <= 24 or 40 < x <= 43
        judge.tick(at(tick, x, 3.5 if out else 0.0, surface=DrivingSurface.ONCOMING if out else DrivingSurface.LANE))
    outcome = judge.outcome()
    (text,) = outcome.infractions["outside_route_lanes"]
    assert text == "Agent went outside its route lanes for about 7.0 meters (11.67% of the completed route)"
    assert [p["x"] for p in outcome.places] == [20.5, 40.5]


def test_distance_driven_far_off_the_route_counts_on_return() -> None:
    """No progress while 15 m off; the skipped 10 m are credited and charged together on the return."""
    judge = referee()
    ride(judge, steps(0, 40))
    ride(judge, steps(40.5, 50), first=81, y=15.0, surface=DrivingSurface.OFF)
    judge.tick(at(101, 50.5))
    assert "for about 10.5 meters" in judge.outcome().infractions["outside_route_lanes"][0]


def test_leaving_a_parking_bay_is_free_for_20_m() -> None:
    short, long = referee(), referee()
    ride(short, steps(0, 15), y=-4.0, surface=DrivingSurface.SHOULDER)
    ride(short, steps(15.5, 60), first=31)
    assert lists(short.outcome()) == {}
    ride(long, steps(0, 60), y=-4.0, surface=DrivingSurface.SHOULDER)
    assert "for about 39.5 meters" in long.outcome().infractions["outside_route_lanes"][0]


def test_standing_outside_adds_nothing() -> None:
    judge = referee()
    ride(judge, steps(0, 40))
    for tick in range(81, 200):
        judge.tick(at(tick, 40.0, 3.5, speed=0.0, surface=DrivingSurface.ONCOMING))
    assert lists(judge.outcome()) == {}


# -- speed against the traffic ---------------------------------------------------------------------------------------
def _traffic(*speeds: float):
    return tuple(replace(OTHER, id=str(i), role="background", speed=v) for i, v in enumerate(speeds))


def test_there_is_a_speed_message_after_each_20th_of_the_route_and_at_the_end() -> None:
    judge = referee()
    ride(judge, steps(0, 4.5))
    assert judge.outcome().infractions["min_speed_infractions"] == []
    ride(judge, steps(5, 95), first=10)
    assert len(judge.outcome().infractions["min_speed_infractions"]) == 19  # exactly 95 %: not past it
    judge.tick(at(300, 95.5))
    assert len(judge.outcome().infractions["min_speed_infractions"]) == 20
    ride(judge, steps(96, 99.5), first=301)
    texts = judge.outcome().infractions["min_speed_infractions"]
    assert texts == ["Average speed is 100.0% of the surrounding traffic's one"] * 20


def test_mean_speeds_use_only_the_ticks_with_traffic() -> None:
    """First 5 m: the ego at 10 m/s; vehicles of 4 and 6 m/s only in its first half, in which the ego had 8 m/s."""
    judge = referee()
    for tick in range(5):
        judge.tick(at(tick, 0.5 * tick, speed=8.0, actors=_traffic(4.0, -6.0)))
    ride(judge, steps(2.5, 5), first=5)
    texts = judge.outcome().infractions["min_speed_infractions"]
    assert texts == ["Average speed is 160.0% of the surrounding traffic's one"]
    assert route_efficiency(texts) == 160.0


@pytest.mark.parametrize(
    "actors",
    [
        (),
        (OTHER,),  # the scenario's car
        (replace(OTHER, kind=ActorKind.PEDESTRIAN, role="background"),),
        (replace(OTHER, kind=ActorKind.BICYCLE, role="background"),),
        _traffic(0.0, 1e-9),  # parked, with numerical noise of the brake
    ],
)
def test_without_moving_traffic_the_speed_is_100_percent(actors) -> None:
    judge = referee()
    ride(judge, steps(0, 5), actors=actors)
    assert judge.outcome().infractions["min_speed_infractions"] == [
        "Average speed is 100.0% of the surrounding traffic's one"
    ]


def test_minimum_speed_has_no_place_and_no_penalty_in_bench2drive() -> None:
    judge = referee()
    ride(judge, steps(0, 50, 0.1), actors=_traffic(20.0))
    outcome = judge.outcome()
    assert "10.0%" in outcome.infractions["min_speed_infractions"][-1]
    assert outcome.places == [] and outcome.score_penalty == 1.0
