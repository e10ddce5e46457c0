"""Motion of the simulated vehicles, against kinematics computed by hand, and reaction to odd commands."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.robots.sandbox.body import SandboxBody
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, WordCommand
from closedloop_plugin.robots.vehicles.jetbot import WHEELS_APART, WORD_SPEED
from closedloop_plugin.robots.vehicles.limo import TURNING_RADIUS
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

NAMES = sorted(VEHICLES)
TWISTED = [name for name in NAMES if VEHICLES[name].kind == "twist"]


def driving(name: str, actuation: Actuation, seconds: float, every: float | None = None) -> SandboxBody:
    """A body `seconds` after the first command, which is repeated at intervals of `every` seconds, if given."""
    body = SandboxBody(VEHICLES[name])
    body.command(actuation)
    drive(body, seconds, actuation, every)
    return body


def drive(body: SandboxBody, seconds: float, actuation: Actuation | None = None, every: float | None = None) -> float:
    """Steps the body by 10 ms; returns the distance in m."""
    distance = 0.0
    for step in range(1, round(seconds / 0.01) + 1):
        x, y, _ = body.pose
        body.step(0.01)
        distance += math.dist((x, y), body.pose[:2])
        if actuation is not None and every and step % round(every / 0.01) == 0:
            body.command(actuation)
    return distance


@pytest.mark.parametrize("name", TWISTED)
def test_a_forward_twist_moves_straight_ahead(name: str) -> None:
    body = driving(name, Twist(0.3), 0.8)
    accel = VEHICLES[name].ceiling.accel
    assert body.x == pytest.approx(0.3 * 0.8 - 0.3**2 / (2 * accel), abs=0.005)
    assert (body.y, body.yaw) == (0.0, 0.0)


@pytest.mark.parametrize("name", TWISTED)
def test_a_positive_yaw_rate_turns_left(name: str) -> None:
    body = driving(name, Twist(0.3, 0.0, 0.4), 0.9)
    assert body.yaw > 0.2 and body.y > 0.0
    assert driving(name, Twist(0.3, 0.0, -0.4), 0.9).yaw == pytest.approx(-body.yaw, abs=1e-9)


def test_limo_turns_round_its_rear_axle_in_ackermann_mode() -> None:
    """0.3 m/s at 0.3 rad/s is a radius of 1 m for the rear axle; the middle, 0.1 m ahead, runs on one of 1.005 m."""
    body = driving("limo-ackermann", Twist(0.3, 0.0, 0.3), 3.0)
    assert body.wz == pytest.approx(0.3, rel=0.01)  # the wheel angle is sent in whole mrad
    assert body.vx == pytest.approx(0.3)
    assert math.hypot(body.vx, body.vy) / body.wz == pytest.approx(1.005, rel=0.01)


def test_limo_turns_no_tighter_than_its_steering_stop() -> None:
    body = driving("limo-ackermann", Twist(0.2, 0.0, 3.0), 2.0)
    assert body.vx / body.wz == pytest.approx(TURNING_RADIUS, rel=0.01)


def test_limo_turns_on_the_spot_in_all_modes_but_ackermann() -> None:
    turn = Twist(0.0, 0.0, 0.5)
    assert driving("limo-ackermann", turn, 1.0).yaw == 0.0
    for name in ("limo-differential", "limo-tracked", "limo-mecanum", "jetbot-waveshare"):
        body = driving(name, turn, 1.0)
        assert body.yaw == pytest.approx(0.5, abs=0.03) and (body.x, body.y) == (0.0, 0.0)


def test_an_impossible_angle_is_kept_until_the_next_command() -> None:
    """The reason for our clamp: a yaw rate without speed leaves the wheels at their stop."""
    body = driving("limo-ackermann", Twist(0.0, 0.0, 0.5), 0.5)
    body.command(Twist(0.3))
    body.step(0.01)
    assert body.wz > 0.0, "it still steers to the left as it starts"
    drive(body, 1.0)
    assert body.wz == pytest.approx(0.0, abs=1e-9)


def test_only_mecanum_wheels_move_sideways() -> None:
    aside = Twist(0.0, 0.2, 0.0)
    assert driving("limo-mecanum", aside, 1.0).y == pytest.approx(0.2, abs=0.01)
    assert driving("limo-differential", aside, 1.0).pose == (0.0, 0.0, 0.0)
    assert driving("jetbot-waveshare", aside, 0.9).pose == (0.0, 0.0, 0.0)


def test_words_drive_at_full_power() -> None:
    assert driving("jetbot-dusty-ros1", WordCommand("forward"), 1.0).vx == pytest.approx(WORD_SPEED)
    left = driving("jetbot-dusty-ros1", WordCommand("left"), 1.0)
    assert left.wz == pytest.approx(2 * WORD_SPEED / WHEELS_APART) and left.vx == 0.0
    assert driving("jetbot-dusty-ros1", WordCommand("right"), 1.0).wz == pytest.approx(-left.wz)


@pytest.mark.parametrize("name", NAMES)
def test_one_command_drives_indefinitely_unless_the_base_has_a_watchdog(name: str) -> None:
    vehicle = VEHICLES[name]
    body = driving(name, WordCommand("forward") if vehicle.kind == "word" else Twist(0.2), 5.0)
    assert (body.vx == 0.0) == (vehicle.watchdog_s is not None)


def test_the_watchdog_counts_from_the_last_command() -> None:
    body = driving("jetbot-waveshare", Twist(0.3), 3.0, every=0.05)
    assert body.vx == pytest.approx(0.3)
    brake = 2 * VEHICLES["jetbot-waveshare"].ceiling.accel
    assert drive(body, 3.0) == pytest.approx(1.0 * 0.3 + 0.3**2 / (2 * brake), abs=0.01)


def test_a_stop_has_the_hand_computed_braking_distance() -> None:
    body = driving("limo-ackermann", Twist(0.3), 1.0)
    body.command(Twist(0.0))
    assert drive(body, 1.0) == pytest.approx(0.3**2 / (2 * 5.0), abs=0.003)
    assert body.vx == 0.0


def test_odometry_ignores_placing_and_counts_slipping_wheels() -> None:
    body = driving("limo-differential", Twist(0.3), 1.0)
    before = body.odometry()
    body.place(1.0, 2.0, 0.5)
    assert body.pose == (1.0, 2.0, 0.5)
    assert body.odometry() == before | {"v": 0.0, "w": 0.0}
    body.step(0.01)
    body.block((1.0, 2.0, 0.5))
    assert body.odometry()["x"] > before["x"]
    assert body.pose == (1.0, 2.0, 0.5) and body.vx == 0.0


@given(
    st.sampled_from(TWISTED),
    st.lists(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 3), min_size=1, max_size=5),
)
def test_any_command_keeps_the_body_within_its_physical_limits(
    name: str, commands: list[tuple[float, float, float]]
) -> None:
    """Also for NaN and infinity, which should never be sent."""
    body = SandboxBody(VEHICLES[name])
    ceiling = VEHICLES[name].ceiling
    for numbers in commands:
        body.command(Twist(*numbers))
        for _ in range(5):
            before = body.vx
            body.step(0.01)
            assert all(map(math.isfinite, (*body.pose, body.vx, body.vy, body.wz)))
            assert abs(body.vx) <= ceiling.speed + 1e-9
            assert abs(body.vx - before) <= 2 * ceiling.accel * 0.01 + 1e-9
