"""Rules: text and waypoints to controls, with numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closedloop.models import decision_of, decision_request, observation
from support.tiers import examples

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision, RouteCommand
from closedloop_plugin.driver.interpreters.parsing.fine_grained import SpeedSuffixError, wanted_speed
from closedloop_plugin.driver.interpreters.parsing.waypoints import (
    REASONS,
    NoTrajectory,
    acceleration,
    follow,
    read_waypoints,
    steer_at,
)
from closedloop_plugin.driver.interpreters.rules import RuleInterpreter

RULES = profile("bench2advlm")
INTERPRETER = RuleInterpreter(RULES)


def _read(text: str, task: str = "action", **known):
    return INTERPRETER.interpret([(decision_request(**known), Decision({task: text}))])[0]


@pytest.mark.parametrize(
    ("words", "throttle", "brake"),
    [
        ("Stop.", 0.0, 0.6), ("Stop immediately!", 0.0, 1.0), ("Come gently to a stop.", 0.0, 0.4),
        ("Brake.", 0.0, 0.5), ("Brake hard.", 0.0, 1.0), ("Brake gently.", 0.0, 0.25),
        ("Slow down.", 0.0, 0.3), ("Accelerate.", 0.75, 0.0), ("Accelerate slightly.", 0.45, 0.0),
        ("Keep the speed.", 0.02 * 3 / 4.5, 0.0),  # no acceleration: throttle that holds 3 m/s against drag
        ("Go on.", (1.2 * 2 + 0.06) / 4.5 if 1.2 * 2 < 2 else (2 + 0.06) / 4.5, 0.0),  # to 5 m/s, at most 2 m/s2
    ],
)  # fmt: skip
def test_pedals_at_3_metres_per_second(words: str, throttle: float, brake: float) -> None:
    control = _read(words).control
    assert (control.throttle, control.brake) == pytest.approx((throttle, brake))


def test_repeated_slowing_down_does_not_stop_the_car() -> None:
    """At 1.4 m/s it holds the speed (0.02 x 1.4 / 4.5 against drag); a stationary car stays stationary."""
    creeping, stationary = (_read("Slow down.", speed=v).control for v in (1.4, 0.0))
    assert (creeping.throttle, creeping.brake) == pytest.approx((0.028 / 4.5, 0.0))
    assert stationary.throttle == 0.0 and stationary.brake > 0
    assert _read("Slow down and turn right.", speed=0.0).control.throttle > 0.3


def test_keeping_the_speed_moves_a_stationary_car() -> None:
    assert _read("Keep the current speed.", speed=0.0).control.throttle > 0.3


@pytest.mark.parametrize(
    ("words", "command", "target", "steer"),
    [
        ("Go straight.", RouteCommand.FOLLOW, (10.0, 0.0), 0.0),
        ("Follow the lane.", RouteCommand.FOLLOW, (8.55, 2.0), "along"),  # lane keeping by the route hint
        ("Keep the speed.", RouteCommand.FOLLOW, (8.55, -2.0), "along"),
        ("Turn left.", RouteCommand.LEFT, (5.0, 4.0), "along"),
        ("Turn right.", RouteCommand.RIGHT, (5.0, -4.0), "along"),
        ("Turn left.", RouteCommand.FOLLOW, (10.0, 0.0), -0.55),  # the instruction leaves the route, and is followed
        ("Turn left.", RouteCommand.RIGHT, (5.0, -4.0), -0.55),
        ("Turn right.", RouteCommand.STRAIGHT, (10.0, 0.0), 0.55),
        ("Go straight.", RouteCommand.LEFT, (5.0, 4.0), 0.0),
        ("Change lane to the left.", RouteCommand.CHANGE_LEFT, (10.0, 2.0), "along"),
        ("Change lane to the left.", RouteCommand.FOLLOW, (10.0, 0.0), -0.2),
        ("Change lane to the right.", RouteCommand.FOLLOW, (10.0, 0.0), 0.2),
        ("Steer slightly to the left.", RouteCommand.FOLLOW, (10.0, 0.0), -0.1),
        ("Slow down.", RouteCommand.LEFT, (5.0, 4.0), "along"),
    ],
)
def test_steering(words: str, command: RouteCommand, target, steer) -> None:
    control = _read(words, command=command, target=target).control
    assert control.steer == pytest.approx(steer_at(*target) if steer == "along" else steer)


LEFT, RIGHT = "Change lane to the left.", "Change lane to the right."


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ([("Go straight.", 0.0)], 0.0),
        ([("Keep the lane.", 1.9)], 0.0),  # drifted: no words have changed the lane
        ([("Accelerate.", -3.0)], 0.0),  # starts beside the road
        ([(LEFT, 0.0)], 3.5), ([(LEFT, 2.5)], 3.5), ([(LEFT, 2.8)], 7.0), ([(RIGHT, 3.5)], 0.0), ([(RIGHT, 0.0)], -3.5),
        ([(LEFT, 1.5), ("Go straight.", 1.8)], 3.5), ([(LEFT, 1.5), ("Slow down.", 1.9), ("Go straight.", 3.0)], 3.5),
        ([(LEFT, 1.5), ("Go straight.", 1.6)], 0.0),  # given up before the marking
        ([(LEFT, 1.5), ("Go straight.", 1.8), ("Go straight.", 5.4)], 3.5),  # drifted from the new lane
        ([(LEFT, 1.7), (RIGHT, 1.8), ("Go straight.", 1.6)], 0.0),
        ([(LEFT, 1.7), ("Go on.", 1.8), (RIGHT, 3.4), ("Go on.", 1.7)], 0.0),
        ([("Steer slightly to the left.", 0.0)], 1.0), ([(LEFT, 1.7), ("Steer slightly to the right.", 3.4)], 2.5),
    ],
)  # fmt: skip
def test_a_lane_is_kept_after_words_have_changed_into_it(said: list[tuple[str, float]], line: float) -> None:
    """A straight road at 4 m/s, offsets to the left of the route in metres: the car aims 8 m ahead at `line`."""
    interpreter = RuleInterpreter(RULES)
    for tick, (words, offset) in enumerate(said):
        request = decision_request(speed=4.0, target=(8.0, -offset), route_offset=offset, tick=tick)
        (found,) = interpreter.interpret([(request, Decision({"action": words}))])
    assert found.control is not None and found.control.steer == pytest.approx(steer_at(8.0, line - said[-1][1]))


def test_lanes_are_remembered_by_episode_and_end_at_junctions_and_restarts() -> None:
    interpreter = RuleInterpreter(RULES)

    def steer(words: str, offset: float, episode: str, **known: Any) -> float:
        request = decision_request(episode, speed=4.0, target=(8.0, -offset), route_offset=offset, **known)
        (found,) = interpreter.interpret([(request, Decision({"action": words}))])
        assert found.control is not None
        return found.control.steer

    for tick, (words, offset) in enumerate([(LEFT, 1.7), ("Go straight.", 3.5)]):
        assert steer(words, offset, "a", tick=tick) == pytest.approx(steer_at(8.0, 3.5 - offset))
    back = pytest.approx(steer_at(8.0, -3.5))
    assert steer("Go straight.", 3.5, "b", tick=2) == back, "another episode"
    assert steer("Go straight.", 3.5, "a", tick=0) == back, "started again"
    steer(LEFT, 1.7, "a", tick=1)
    steer("Go on.", 3.5, "a", tick=2, command=RouteCommand.RIGHT)
    assert steer("Go straight.", 3.5, "a", tick=3) == back, "a junction"


def test_a_slow_car_changes_its_lane_within_a_short_way() -> None:
    """At 1 m/s it aims 3.5 m ahead; the route passes 3.5 m of the 8 m to its target, which is 0.8 m to the left."""
    control = _read("Change lane to the left.", speed=1.0, target=(8.0, 0.8), route_offset=0.0).control
    assert control.steer == pytest.approx(steer_at(3.5, 0.8 * 3.5 / 8 + 3.5))


def test_navigation_to_a_lane_change_or_a_turn_leads_back_to_the_route() -> None:
    for words, command in (("Change lane to the left.", RouteCommand.CHANGE_LEFT), ("Turn left.", RouteCommand.LEFT)):
        control = _read(words, speed=4.0, command=command, target=(8.0, 3.0), route_offset=-3.0).control
        assert control.steer == pytest.approx(steer_at(8.0, 3.0)), words


def test_pure_pursuit_in_a_case_worked_out_by_hand() -> None:
    """Point 8.55 m ahead of the centre, 10 m ahead of the rear axle, 2 m to the left: reach² 104, wheel
    atan2(2 x 2.9 x 2, 104) = 0.11109 rad of 35 degrees = 0.61087 rad, to the left, so negative."""
    assert steer_at(8.55, 2.0) == pytest.approx(-0.11109 / 0.61087, abs=1e-4)
    assert steer_at(8.55, -2.0) == pytest.approx(0.11109 / 0.61087, abs=1e-4)
    assert steer_at(0.0, 5.0) == pytest.approx(-1.0, abs=0.35) and steer_at(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("words", "speed"),
    [
        ("Keep going straight with speed = 0.5", 2.5), ("go with speed=1", 5.0), ("with speed = 0", 0.0),
        ("with speed of 0.25", 1.25), ("with a speed of 3 m/s", 3.0), ("with speed = 18 km/h", 5.0),
        ("with speed 10 mph", 4.4704), ("with speed = 50%", 2.5), ("with speed: .2", 1.0), ("go straight", None),
        ("with speed = 0.5, yes, with speed = 0.5", 2.5),
        ("with speed = 3", "speed_off_scale"), ("with speed = -0.5", "speed_off_scale"),
        ("with speed = 400 km/h", "speed_off_scale"), ("with speed = 0.5 or with speed = 1", "several_speeds"),
    ],
)  # fmt: skip
def test_speed_suffixes_are_parsed(words: str, speed: float | str | None) -> None:
    if isinstance(speed, str):
        with pytest.raises(SpeedSuffixError, match=speed):
            wanted_speed(words, RULES, observation())
    else:
        found = wanted_speed(words, RULES, observation())
        assert found == (None if speed is None else pytest.approx(speed))


@pytest.mark.parametrize(
    ("words", "now", "moves"),
    [
        ("Keep going straight with speed = 0.5", 1.0, "faster"),
        ("Keep going straight with speed = 0.5", 4.0, "slower"),
        ("with speed = 0.5", 1.0, "faster"), ("Stop with speed = 0", 3.0, "slower"),
        ("Slow down with speed = 0.5", 4.0, "slower"), ("Slow down with speed = 1", 2.0, "holds"),
        ("Accelerate with speed = 0.25", 4.0, "slower"),
    ],
)  # fmt: skip
def test_a_suffix_sets_the_pedals(words: str, now: float, moves: str) -> None:
    control = _read(words, speed=now).control
    got = "faster" if control.throttle > 0.05 else "slower" if control.brake > 0 else "holds"
    assert got == moves


def test_a_stop_with_a_speed_contradicts_itself() -> None:
    assert _read("Stop with speed = 0.5").reason == "contradiction"


PLAN = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)]
WAYPOINTS = [
    ("[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)]", PLAN),
    ("[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]", PLAN),
    ("Trajectory: [(1, 0), (2, 0), (3, 0), (4, 0)].", PLAN),
    ("(1.0,0.0) (2.0,0.0) (3.0,0.0) (4.0,0.0)", PLAN),
    ("[PT, (+1.00, +0.00), (+2.00, -0.00), (+3.00, 0), (+4.00, 0)]", PLAN),
    ("(1.0, 0.0) -> (2.0, 0.0) -> (3.0, 0.0) -> (4.0, 0.0)", PLAN),
    ("```python\n[(1.0, 0.0),\n (2.0, 0.0),\n (3.0, 0.0),\n (4.0, 0.0)]\n```", PLAN),
    ("First [(9, 9), (8, 8)], corrected: [(1, 0), (2, 0), (3, 0), (4, 0)]", PLAN),
    ("The car at (12, 3) stays. [(1, 0), (2, 0), (3, 0), (4, 0)]", PLAN),
    ("<think>[(5, 5), (6, 6)]</think>[(1, 0), (2, 0), (3, 0), (4, 0)]", PLAN),
    ("", "no_waypoints"), ("go straight", "no_waypoints"), ("[1, 2, 3, 4]", "no_waypoints"),
    ("[(1, 0, 0), (2, 0, 0)]", "no_waypoints"), ("[(1.0, 0.0)]", "too_few_waypoints"),
    ("[(1, 0), (nan, 0)]", "not_finite"), ("[(1, 0), (inf, 0)]", "not_finite"),
    ("[(1, 0), (9000, 0)]", "implausible_waypoints"), ("[(1, 0), (2, 0), (3,", "truncated_waypoints"),
    ("[(1, 0), (2, 0), (3", "truncated_waypoints"), ("<think>[(1, 0), (2, 0)]", "no_waypoints"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "points"), WAYPOINTS, ids=range(len(WAYPOINTS)))
def test_waypoints_are_parsed_or_refused(text: str, points) -> None:
    if isinstance(points, str):
        with pytest.raises(NoTrajectory, match=points):
            read_waypoints(text)
    else:
        assert read_waypoints(text) == points


def test_waypoints_set_speed_and_steering() -> None:
    """1 m every 0.5 s is 2 m/s; the first point beyond 3.85 m (0.55 x 3 + 2.2) is the fourth."""
    straight = follow(PLAN, 2.0)
    assert straight.steer == 0.0 and straight.throttle == pytest.approx(0.04 / 4.5) and straight.brake == 0.0
    assert follow(PLAN, 4.0).brake > 0 and follow(PLAN, 0.0).throttle > 0.3
    left = follow([(1.0, 0.1), (2.0, 0.4), (3.0, 0.9), (4.0, 1.6)], 3.0)
    assert left.steer == pytest.approx(steer_at(4.0, 1.6)) and left.steer < 0
    assert follow([(0.0, 0.0)] * 6, 3.0).brake == 0.6


@pytest.mark.parametrize("speed", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("wanted", [-8.0, -6.0, -3.0, -1.0, 0.0, 1.5])
def test_waypoints_give_the_acceleration_that_they_describe(speed: float, wanted: float) -> None:
    """Positions every 0.5 s at a constant acceleration, standing still from the stop on."""
    if speed == 0.0 and wanted <= 0.0:
        return
    stop_s = -speed / wanted if wanted < 0.0 else math.inf
    points = [(speed * t + wanted * t * t / 2, 0.0) for t in (min(0.5 * k, stop_s) for k in range(1, 7))]
    assert acceleration(points, speed) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("texts", "used"),
    [
        ({"trajectory": "[(1, 0), (2, 0)]", "action": "Stop."}, "[(1, 0), (2, 0)]"),
        ({"trajectory": "straight on", "action": "Stop."}, "Stop."),
        ({"action": "hm", "reasoning": "A child. Brake."}, "A child. Brake."),
        ({"threat": "yes", "action": "Stop."}, "Stop."),
    ],
)
def test_the_first_usable_answer_counts(texts: dict[str, str], used: str) -> None:
    (result,) = INTERPRETER.interpret([(decision_request(), Decision(texts))])
    assert result.raw == used and result.control is not None and result.reason is None


@pytest.mark.parametrize(
    ("decision", "reason", "raw"),
    [
        (Decision(), "no_answer", ""),
        (decision_of(action="  "), "no_answer", ""),
        (decision_of(threat="yes"), "no_answer", ""),
        (Decision({"action": "Stop."}, error="timeout"), "agent_error", ""),
        (decision_of(action="Maybe stop."), "hedged", "Maybe stop."),
        (decision_of(trajectory="(1, 0)", action="?"), "too_few_waypoints", "(1, 0)"),
    ],
)  # fmt: skip
def test_unusable_decisions_have_a_reason_and_no_control(decision: Decision, reason: str, raw: str) -> None:
    (result,) = INTERPRETER.interpret([(decision_request(), decision)])
    assert (result.control, result.reason, result.raw) == (None, reason, raw)


NUMBERS = st.one_of(st.floats(-300, 300), st.sampled_from([math.nan, math.inf, 1e300]))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.one_of(
        st.text(),
        st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8).map(str),
        st.tuples(st.sampled_from(["stop", "go", "turn left", "slow down"]), NUMBERS).map(
            lambda t: f"{t[0]} with speed = {t[1]}"
        ),
    ),
    st.sampled_from(["action", "trajectory", "reasoning"]),
    st.floats(-3, 40),
    st.sampled_from(list(RouteCommand)),
    st.tuples(st.floats(-50, 50), st.floats(-50, 50)),
)
def test_any_text_gives_a_control_in_range_or_a_reason(text, task, speed, command, target) -> None:
    result = _read(text, task, speed=speed, command=command, target=target)
    if result.control is None:
        assert result.reason
    else:
        assert result.control == result.control.checked()


@given(st.text("()[]<>,.0123456789-enaif \n"))
def test_no_text_makes_the_waypoint_reader_raise(text: str) -> None:
    try:
        points = read_waypoints(text)
    except NoTrajectory as exc:
        assert str(exc) in REASONS
    else:
        assert len(points) >= 2


@pytest.mark.parametrize(
    ("texts", "meaning"),
    [
        ({"action": "Keep the speed and follow the lane."}, "keep, follow"),
        ({"action": "Stop."}, "stop"),
        ({"trajectory": "[(2, 0), (4, 0), (6, 0), (8, 0)]"}, "waypoints"),
        ({"action": "hm"}, ""),
    ],
)
def test_the_meaning_of_the_words_is_kept_beside_the_control(texts: dict[str, str], meaning: str) -> None:
    (found,) = RuleInterpreter(profile("bench2advlm")).interpret([(decision_request(), Decision(texts))])
    assert found.meaning == meaning
