"""The vehicle model against values computed by hand and from road tests."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.vehicle import SPECS, MotionState, drive, mass_of, place, size_of, slide, walk

CAR = SPECS[ActorKind.CAR]
DT = 0.05


def rolled(steps: int, v: float = 0.0, steer: float = 0.0, throttle: float = 0.0, brake: float = 0.0) -> MotionState:
    m = MotionState(0.0, 0.0, 0.0, v)
    for _ in range(steps):
        drive(m, CAR, steer, throttle, brake, False, 1.0, DT)
    return m


def braking_distance(grip: float) -> float:
    m = MotionState(0.0, 0.0, 0.0, 50 / 3.6)
    while m.v > 0:
        drive(m, CAR, 0.0, 0.0, 1.0, False, grip, DT)
    return m.x


def test_a_car_takes_nine_to_twelve_seconds_to_100_km_h() -> None:
    m, steps = MotionState(0.0, 0.0, 0.0), 0
    while m.v < 100 / 3.6:
        drive(m, CAR, 0.0, 1.0, 0.0, False, 1.0, DT)
        steps += 1
    assert 9.0 <= steps * DT <= 12.0


def test_braking_from_50_km_h() -> None:
    # v2 / (2 mu g) = 13.89^2 / (2 * 0.8 * 9.81) = 12.3 m dry; at grip 0.6 the same over 0.6 = 20.5 m.
    assert braking_distance(1.0) == pytest.approx(12.3, abs=0.5)
    assert braking_distance(0.6) == pytest.approx(20.5, abs=0.9)


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_no_kind_passes_its_top_speed_and_each_stops(kind: ActorKind) -> None:
    m = MotionState(0.0, 0.0, 0.0)
    for _ in range(4000):
        drive(m, SPECS[kind], 0.0, 1.0, 0.0, False, 1.0, DT)
    assert 0.6 * SPECS[kind].top_speed < m.v <= SPECS[kind].top_speed
    for _ in range(800):
        drive(m, SPECS[kind], 0.0, 0.0, 1.0, False, 1.0, DT)
    assert m.v == 0.0


def test_the_radius_of_the_rear_axle_is_wheelbase_over_tangent() -> None:
    m = MotionState(0.0, 0.0, 0.0, 1.0)
    points = []
    for _ in range(2400):
        m.v = 1.0
        drive(m, CAR, -0.5, 0.0, 0.0, False, 1.0, DT)
        points.append((m.x - 0.5 * CAR.wheelbase * math.cos(m.yaw), m.y - 0.5 * CAR.wheelbase * math.sin(m.yaw)))
    circle = points[100:]  # the wheels need a quarter of a second to turn
    across = max(math.dist(circle[0], p) for p in circle)
    assert across / 2 == pytest.approx(CAR.wheelbase / math.tan(0.5 * CAR.steer_limit), rel=0.01)
    assert m.yaw_rate > 0  # steer < 0 is left, and left is positive


def test_steer_to_the_right_turns_clockwise() -> None:
    m = rolled(40, v=5.0, steer=0.5, throttle=0.2)
    assert m.yaw < 0 and m.y < 0


def test_cornering_is_limited_by_the_tyres_and_more_so_in_the_wet() -> None:
    def sideways(grip: float) -> float:
        m = MotionState(0.0, 0.0, 0.0, 20.0)
        for _ in range(20):
            drive(m, CAR, 1.0, 0.3, 0.0, False, grip, DT)
        return abs(m.v * m.yaw_rate)

    assert sideways(1.0) <= 0.8 * 9.81 * 1.02
    assert sideways(0.6) <= 0.6 * sideways(1.0) * 1.05


def test_hard_steering_reduces_braking() -> None:
    straight, bent = rolled(20, v=20.0, brake=1.0), rolled(20, v=20.0, brake=1.0, steer=1.0)
    assert bent.v > straight.v + 2.0


def test_coasting_slows_gently_and_never_reverses() -> None:
    assert 10.0 < rolled(100, v=14.0).v < 13.0
    assert rolled(2000, v=3.0).v == 0.0


def test_reverse_moves_backwards_slowly() -> None:
    m = MotionState(0.0, 0.0, 0.0)
    for _ in range(400):
        drive(m, CAR, 0.0, 1.0, 0.0, True, 1.0, DT)
    assert -8.0 <= m.v < -5.0 and m.x < -20


def test_reverse_throttle_while_rolling_forward_stops_the_car_first() -> None:
    m = MotionState(0.0, 0.0, 0.0, 5.0)
    drive(m, CAR, 0.0, 1.0, 0.0, True, 1.0, DT)
    assert 4.0 < m.v < 5.0


def test_acceleration_is_the_change_of_velocity() -> None:
    m = MotionState(0.0, 0.0, 0.0, 10.0)
    drive(m, CAR, 0.0, 0.0, 0.5, False, 1.0, DT)
    assert m.ax == pytest.approx((m.vx - 10.0) / DT) and m.ax < -4.0


def test_a_walker_moves_at_the_given_speed_and_heading() -> None:
    m = MotionState(0.0, 0.0, 0.0)
    for _ in range(20):
        walk(m, 1.5, math.pi / 2, DT)
    assert (m.x, m.y) == pytest.approx((0.0, 1.5), abs=1e-9)


def test_placing_a_body_sets_its_speeds() -> None:
    m = MotionState(0.0, 0.0, 0.0)
    place(m, 0.5, 0.0, 0.1, 10.0, DT)
    assert m.yaw_rate == pytest.approx(2.0) and m.v == 10.0


def test_a_knocked_body_slides_to_a_stop() -> None:
    m = MotionState(0.0, 0.0, 0.0)
    m.knock_x, m.knock_w = 6.0, 1.0
    for _ in range(100):
        slide(m, 0.6, DT)
    # 6^2 / (2 * 0.6 * 9.81) = 3.06 m
    assert m.x == pytest.approx(3.06, abs=0.2) and m.knock_x == 0.0 and m.knock_w == 0.0


def test_every_kind_has_a_size_and_a_mass() -> None:
    for kind in ActorKind:
        assert min(size_of(kind.value)) > 0 and mass_of(kind) > 0
    with pytest.raises(ValueError):
        size_of("hovercraft")


wheel = st.floats(-1.0, 1.0)
pedal = st.floats(0.0, 1.0)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(sorted(SPECS)),
    st.lists(st.tuples(wheel, pedal, pedal), min_size=1, max_size=60),
    st.floats(0.05, 1),
)
def test_any_input_keeps_the_state_finite(
    kind: ActorKind, inputs: list[tuple[float, float, float]], grip: float
) -> None:
    m = MotionState(3.0, -2.0, 1.0, 10.0)
    for steer, throttle, brake in inputs:
        before = m.v
        drive(m, SPECS[kind], steer, throttle, brake, False, grip, DT)
        values = (m.x, m.y, m.yaw, m.v, m.ax, m.ay, m.yaw_rate)
        assert all(map(math.isfinite, values))
        assert abs(m.v - before) / DT < 12.0
        assert -math.pi <= m.yaw <= math.pi


def test_a_body_that_was_moved_while_hidden_does_not_turn_or_accelerate() -> None:
    m = MotionState(100.0, 50.0, 1.5, 10.0)
    place(m, 0.0, 0.0, 0.0, 10.0, 0.05)
    assert (m.x, m.y, m.yaw, m.vx) == (0.0, 0.0, 0.0, 10.0)
    assert m.yaw_rate == m.ax == m.ay == 0.0
