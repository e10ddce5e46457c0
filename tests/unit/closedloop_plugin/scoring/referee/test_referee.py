"""The referee: end of an episode, route completion and scores, with values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.closedloop.ticks import B2D, at, lists, referee, ride, road, steps, touch

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.state import Actor, ActorKind, EndReason, GroundTruth
from closedloop_plugin.scoring.referee.referee import Referee, body_ahead, emergency_vehicle


def test_a_clean_drive_scores_100() -> None:
    judge = referee(junctions=((30.0, 50.0),))
    assert ride(judge, steps(0, 98.5)) is None
    assert ride(judge, [99.0], first=198) is EndReason.COMPLETED  # 99 %, 1 m before the end
    outcome = judge.outcome()
    assert (outcome.score_route, outcome.score_penalty, outcome.score_composed) == (100.0, 1.0, 100.0)
    assert (outcome.status, outcome.junctions_passed, outcome.progress_m) == ("Completed", 1, 99.0)
    assert set(outcome.infractions) == set(INFRACTIONS)
    assert lists(outcome) == {} and outcome.places == []


def test_the_outcome_before_the_first_tick_is_empty() -> None:
    outcome = referee().outcome()
    assert (outcome.score_route, outcome.score_composed, outcome.end, outcome.junctions_passed) == (
        0.0,
        0.0,
        None,
        None,
    )
    assert not any(outcome.infractions.values())


def test_progress_counts_only_near_the_route() -> None:
    """12 m beside the road the nearest point of the route advances, the progress does not."""
    judge = referee()
    ride(judge, steps(0, 20))
    ride(judge, steps(20, 100), first=41, y=12.0)
    outcome = judge.outcome()
    assert outcome.progress_m == 20.0 and outcome.score_route == 20.0 and outcome.end is None


def test_progress_never_goes_back() -> None:
    judge = referee()
    ride(judge, steps(0, 40))
    ride(judge, steps(40, 25), first=100)
    assert judge.progress_m == 40.0


def test_a_route_that_crosses_itself_is_driven_in_its_order() -> None:
    """A figure with a crossing at (50, 0): the start of the second pass is 100 m of route away."""
    from closedloop_plugin.core.path import RoutePath

    loop = RoutePath([(0, 0), (100, 0), (100, 50), (50, 50), (50, -50)])
    judge = Referee(B2D, replace(road(), path=loop), None)
    ride(judge, steps(0, 60))
    assert judge.progress_m == pytest.approx(60.0)


@pytest.mark.parametrize(("y", "end"), [(30.0, None), (30.1, EndReason.ROUTE_DEVIATION)])
def test_more_than_30_m_off_the_route_ends_the_episode(y: float, end: EndReason | None) -> None:
    judge = referee()
    ride(judge, steps(0, 50))
    assert judge.tick(at(101, 50.0, y)) is end
    found = judge.outcome().infractions["route_dev"]
    assert found == ([] if end is None else ["Agent deviated from the route at (x=50.0, y=-30.1, z=0.0)"])


def test_without_a_route_there_is_no_route_deviation() -> None:
    judge = Referee(B2D, road(), None)
    ride(judge, steps(0, 50))
    assert judge.tick(at(101, 50.0, 60.0)) is None


def test_standing_for_more_than_60_s_is_blocked() -> None:
    judge = referee()
    judge.tick(at(0, 0.0))
    for tick in range(1, 1201):  # up to exactly 60 s
        assert judge.tick(at(tick, 0.0, speed=0.0999)) is None
    assert judge.tick(at(1201, 0.0, speed=0.0)) is EndReason.BLOCKED
    outcome = judge.outcome()
    assert outcome.infractions["vehicle_blocked"] == ["Agent got blocked at (x=0.0, y=0.0, z=0.0)"]
    assert outcome.status == "Failed - Agent got blocked"


@pytest.mark.parametrize("speed", [0.1, -0.1])
def test_a_speed_of_0_1_is_no_standstill(speed: float) -> None:
    judge = referee()
    for tick in range(0, 1600):
        assert judge.tick(at(tick, 0.0, speed=speed)) is None


def test_the_timeout_is_300_s_plus_the_route_at_a_tenth_of_the_speed_limit() -> None:
    """100 m at 1 m/s: 400 s."""
    judge = referee(rules=profile("leaderboard-2.0"))
    judge.tick(at(0, 0.0))
    assert judge.tick(at(8000, 1.0)) is None
    assert judge.tick(at(8001, 1.0)) is EndReason.ROUTE_TIMEOUT
    assert judge.outcome().infractions["route_timeout"]


def test_the_tick_limit_is_that_of_the_profile() -> None:
    judge = referee()
    assert judge.tick(at(3999, 1.0)) is None
    assert judge.tick(at(4000, 1.5)) is EndReason.TICK_LIMIT
    assert judge.outcome().status == "Failed - TickRuntime"
    assert lists(judge.outcome()) == {}  # a status, no infraction


def test_the_end_of_the_route_takes_precedence_over_the_tick_limit() -> None:
    judge = referee()
    ride(judge, steps(0, 98.5))
    assert judge.tick(at(4000, 99.5)) is EndReason.COMPLETED


def test_after_the_end_nothing_counts() -> None:
    judge = referee()
    ride(judge, steps(0, 99))
    assert judge.tick(at(300, 99.0, contacts=(touch(),))) is EndReason.COMPLETED
    assert lists(judge.outcome()) == {}


def test_events_of_the_scenario_count_once_as_infractions() -> None:
    judge = referee()
    seen = ((0.5, "trigger"), (1.0, "yield failed 40%"))
    judge.tick(at(20, 5.0, events=seen))
    judge.tick(at(21, 5.5, events=seen))
    judge.tick(at(22, 6.0, events=(*seen, (1.1, "scenario timeout"), (1.1, "act"))))
    outcome = judge.outcome()
    assert lists(outcome) == {
        "yield_emergency_vehicle_infractions": ["Agent failed to yield to an emergency vehicle (40%)"],
        "scenario_timeouts": ["Agent timed out a scenario"],
    }
    assert outcome.score_penalty == 0.49  # 0.7 x 0.7
    assert [(p["kind"], p["time_s"]) for p in outcome.places] == [
        ("yield_emergency_vehicle_infractions", 1.0),
        ("scenario_timeouts", 1.1),
    ]


def test_an_unknown_event_is_no_infraction() -> None:
    judge = referee()
    judge.tick(at(1, 1.0, events=((0.0, "yield failed badly"), (0.0, "end"))))
    assert lists(judge.outcome()) == {}


def test_penalties_are_combined_by_the_rule_of_the_profile() -> None:
    """Half the route, a pedestrian and a car: 50 x 0.5 x 0.6 = 15; additively 50 / (1 + 1.0 + 0.7) = 18.518519."""
    for name, expected in (("bench2drive", 15.0), ("leaderboard-2.1", 18.518519)):
        judge = referee(rules=profile(name))
        ride(judge, steps(0, 10))
        judge.tick(at(21, 10.5, contacts=(touch(ActorKind.PEDESTRIAN, "8"), touch())))
        ride(judge, steps(11, 50), first=22)
        outcome = judge.outcome()
        assert (outcome.score_route, outcome.score_composed) == (50.0, expected)


def test_outcome_is_available_at_any_time() -> None:
    judge = referee()
    ride(judge, steps(0, 97))
    assert judge.outcome() == judge.outcome()
    assert judge.tick(at(200, 99.2)) is EndReason.COMPLETED


@pytest.mark.parametrize(("done", "passed"), [(49.5, 0), (50.0, 1), (99.0, 2)])
def test_junctions_behind_the_ego_count_as_passed(done: float, passed: int) -> None:
    judge = referee(junctions=((30.0, 50.0), (70.0, 99.6)))
    ride(judge, steps(0, done))
    assert judge.outcome().junctions_passed == passed


def body(id: str, x: float, y: float, kind: ActorKind = ActorKind.CAR, **more: float) -> Actor:
    size = {"length": 4.0, "width": 2.0, "height": 1.5, "yaw": 0.0, "speed": 0.0, **more}
    return Actor(id=id, kind=kind, x=x, y=y, **size)  # type: ignore[arg-type]


def truth(*actors: Actor, yaw: float = 0.0) -> GroundTruth:
    return GroundTruth(tick=1, time_s=0.1, ego=body("ego", 0.0, 0.0, yaw=yaw), actors=actors)


@pytest.mark.parametrize(
    ("actors", "expected"),
    [
        ([body("s1", 15.9, 0.0)], "s1"),  # 11.9 m between front and rear
        ([body("s1", 16.1, 0.0)], ""),
        ([body("s1", 8.0, 2.2)], "s1"),  # their sides are 0.2 m apart
        ([body("s1", 8.0, 2.4)], ""),
        ([body("s1", 8.0, 2.9, yaw=math.pi / 2)], "s1"),  # it stands across: 4 m wide there
        ([body("s1", -6.0, 0.0)], ""),  # behind
        ([body("s1", 12.0, 0.0), body("r1", 7.0, 0.5)], "r1"),  # the nearest
    ],
)
def test_the_body_straight_ahead(actors: list[Actor], expected: str) -> None:
    assert body_ahead(truth(*actors)) == expected


def test_ahead_is_where_the_ego_faces() -> None:
    north = truth(body("s1", 0.0, 8.0), body("r1", 8.0, 0.0), yaw=math.pi / 2)
    assert body_ahead(north) == "s1"


def test_the_emergency_vehicle_with_a_siren_is_named_before_a_nearer_silent_one() -> None:
    silent = body("r1", 5.0, 0.0, ActorKind.POLICE)
    loud = Actor(**{**vars(body("s1", -9.0, 0.0, ActorKind.AMBULANCE)), "lamps": frozenset({"siren"})})
    assert emergency_vehicle(truth(silent, loud)) == "s1"
    assert emergency_vehicle(truth(silent, body("b1", 1.0, 0.0))) == "r1"
    assert emergency_vehicle(truth(body("b1", 1.0, 0.0))) == ""
