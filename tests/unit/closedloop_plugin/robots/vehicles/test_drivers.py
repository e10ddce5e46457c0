"""The models of the manufacturers' drivers, against values computed from their sources."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.robots.vehicles.drivers import (
    ACKERMANN,
    DIFFERENTIAL,
    INNER,
    MECANUM,
    TOP_SPEED,
    LimoSerialFrame,
    driven,
    driver_angle,
    int16,
    limo_motion,
    serial_frame,
    wheels,
)
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from closedloop_plugin.robots.vehicles.vehicle import Twist, WordCommand


def test_the_wheel_angle_for_a_radius_of_one_metre() -> None:
    """Inner wheel: atan(0.2 / (1 - 0.086)) = 12.343 degrees to the side of the yaw rate; in reverse to the other."""
    assert math.degrees(driver_angle(Twist(0.3, 0.0, 0.3))) == pytest.approx(12.343, abs=1e-3)
    assert math.degrees(driver_angle(Twist(0.3, 0.0, -0.3))) == pytest.approx(-12.343, abs=1e-3)
    assert math.degrees(driver_angle(Twist(-0.3, 0.0, 0.3))) == pytest.approx(-12.343, abs=1e-3)
    assert driver_angle(Twist(0.3)) == 0.0


def test_yaw_without_speed_gives_an_impossible_angle() -> None:
    """Radius 0 becomes 0.096 m: atan(0.2 / 0.010) = 87.1."""
    assert math.degrees(driver_angle(Twist(0.0, 0.0, 1.0))) == pytest.approx(87.14, abs=0.01)
    assert math.degrees(driver_angle(Twist(0.0, 0.0, -1.0))) == pytest.approx(-87.14, abs=0.01)


def test_the_wheel_angle_of_a_zero_twist_is_nan() -> None:
    assert math.isnan(driver_angle(Twist(0.0)))
    assert serial_frame(Twist(0.0), ACKERMANN) == LimoSerialFrame(0, 0, 0, 0)


def test_serial_frames_of_the_modes() -> None:
    """12.343 degrees is 0.21542 rad: divided by 1.64 it is 131 mrad."""
    turn = Twist(0.3, 0.1, 0.3)
    assert serial_frame(turn, DIFFERENTIAL) == LimoSerialFrame(300, 300, 0, 0)
    assert serial_frame(turn, MECANUM) == LimoSerialFrame(300, 300, 100, 0)
    assert serial_frame(turn, ACKERMANN) == LimoSerialFrame(300, 0, 0, 131)


def test_the_wheel_angle_is_limited_by_its_stop() -> None:
    """An extreme frame gives the tightest circle, 0.4621 m."""
    wild = limo_motion(serial_frame(Twist(0.02, 0.0, 1.0), ACKERMANN), ACKERMANN)
    assert wild.vx / wild.wz == pytest.approx(0.46215, abs=1e-5)
    assert limo_motion(LimoSerialFrame(300, 0, 0, int(INNER / 1.64 * 1000)), ACKERMANN).wz == pytest.approx(
        0.3 / 0.4621, abs=0.003
    )
    assert limo_motion(LimoSerialFrame(300, 0, 0, 0), ACKERMANN) == Twist(0.3)


def test_int16_wraps_round() -> None:
    assert [int16(v) for v in (1.9, -1.9, 32767.0, 32768.0, math.nan, math.inf)] == [1, -1, 32767, -32768, 0, -1]
    assert serial_frame(Twist(40.0), DIFFERENTIAL).speed == -25536


def test_a_wheel_at_its_top_speed_straightens_the_path() -> None:
    """The right wheel needs 0.6 + 0.0508 x 2.5 = 0.727 m/s and reaches 0.632."""
    assert pytest.approx(0.6317, abs=1e-4) == TOP_SPEED
    assert wheels(Twist(0.4, 0.0, 1.4)) == Twist(pytest.approx(0.4), 0.0, pytest.approx(1.4))
    cut = wheels(Twist(0.6, 0.0, 2.5))
    assert cut.vx == pytest.approx((0.473 + 0.6317) / 2, abs=1e-4)
    assert cut.wz == pytest.approx((0.6317 - 0.473) / 0.1016, abs=1e-3)


def test_motion_of_word_commands_and_of_the_waveshare_board() -> None:
    """Full power is PWM 115 of 255: 0.2849 m/s, and 2 x 0.2849 / 0.1016 = 5.608 rad/s on the spot."""
    jetbot = VEHICLES["jetbot-dusty-ros1"]
    assert driven(jetbot, WordCommand("forward")).vx == pytest.approx(0.2849, abs=1e-4)
    assert driven(jetbot, WordCommand("Left")).wz == pytest.approx(5.608, abs=1e-3)
    assert driven(jetbot, WordCommand("right")).wz == pytest.approx(-5.608, abs=1e-3)
    assert driven(jetbot, WordCommand("stop")) == driven(jetbot, WordCommand("dance")) == Twist(0.0)
    assert driven(VEHICLES["jetbot-waveshare"], Twist(0.30049, 0.2, -0.5004)) == Twist(0.3, 0.0, -0.5)
