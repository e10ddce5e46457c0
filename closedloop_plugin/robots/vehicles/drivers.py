"""Models of the platforms' drivers: actuation -> target velocity of a simulated vehicle.

LIMO: Twist -> serial frame -> motion, from agilexrobotics/limo_ros, limo_base/src/limo_driver.cpp and limo_driver.h,
as of 2025-01. In Ackermann mode the driver computes a turning radius vx / wz, converts it to a wheel angle and discards
wz. Its bugs are modelled too:

- A standing Twist gives 0 / 0 = NaN. The value sent depends on the processor (0 on LIMO's ARM, as here).
- A yaw rate without speed has radius 0, which becomes 0.096 m: an impossible angle of 87 degrees (in the first version
  67 degrees to the wrong side).
- The steering limit of 28 degrees is compared with radians, so nothing is clamped.
- The steering scale was 2.47 to the left and 1.64 to the right, and is 1.64 for both since 2021-12, while odometry
  still uses the old pair. Which one the base's firmware uses must be calibrated (yaw_gain).
- Speeds become whole mm/s and mrad/s in 16 bits: beyond 32.767 they wrap around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.robots.vehicles.vehicle import WHEELBASE, Actuation, Twist, Vehicle, WordCommand

# LIMO, agilexrobotics/limo_ros, limo_base/include/limo_driver.h.
TRACK = 0.172  # m
INNER = math.radians(28)  # rad, at the inner front wheel's stop
DIFFERENTIAL, ACKERMANN, MECANUM = 0, 1, 2
STEERING_SCALE = 1.64  # wheel angle / sent value

# JetBot, dusty-nv/jetbot_ros, jetbot_ros/motors.py and scripts/jetbot_motors.py.
WHEELS_APART = 0.1016  # m; that of jetbot_pro's board is not published
TOP_SPEED = 200 / 60 * math.pi * 0.060325  # m/s at 200 rpm, without load: 0.632
WORD_SPEED = TOP_SPEED * 115 / 255  # m/s. An estimate: the speed at that PWM is not published
WORD_YAW_RATE = 2 * WORD_SPEED / WHEELS_APART  # rad/s, one wheel forward and one back: 5.6

_STILL = Twist(0.0)
# scripts/jetbot_motors.py of dusty-nv's branch melodic: both wheels at the same power, forward or backward.
_WORDS = {
    "forward": Twist(WORD_SPEED),
    "backward": Twist(-WORD_SPEED),
    "left": Twist(0.0, 0.0, WORD_YAW_RATE),
    "right": Twist(0.0, 0.0, -WORD_YAW_RATE),
}


def driven(vehicle: Vehicle, actuation: Actuation) -> Twist:
    """Steady velocity in the robot frame. The kind of actuation is assumed to match the vehicle."""
    if isinstance(actuation, WordCommand):
        return _WORDS.get(actuation.text.lower(), _STILL)
    if vehicle.platform == "limo":
        mode = vehicle.mode or 0
        return limo_motion(serial_frame(actuation, mode), mode)
    if vehicle.platform == "jetbot_wheels":
        return wheels(actuation)
    return board(actuation)


def board(twist: Twist) -> Twist:
    """jetbot_pro: speed and yaw rate are sent to its board as whole mm/s and mrad/s in 16 bits. (It also sends vx as
    vy, which a board with two wheels ignores.)"""
    return Twist(int16(twist.vx * 1000) / 1000, 0.0, int16(twist.wz * 1000) / 1000)


def wheels(twist: Twist) -> Twist:
    """dusty-nv ROS 2: each wheel is limited to the top speed separately, so that a Twist that is too fast for one wheel
    is driven with less curvature."""
    # Differential drive: v_left, v_right = vx -+ wz * d / 2, with d the distance between the wheels.
    half = WHEELS_APART / 2
    left, right = (min(max(twist.vx + side * half * twist.wz, -TOP_SPEED), TOP_SPEED) for side in (-1, 1))
    return Twist((left + right) / 2, 0.0, (right - left) / WHEELS_APART)


@dataclass(frozen=True)
class LimoSerialFrame:
    """A motion command on the serial line to the base."""

    speed: int  # mm/s
    yaw_rate: int  # mrad/s, left > 0
    lateral: int  # mm/s, left > 0
    steering: int  # mrad divided by the scale, left > 0


def driver_angle(twist: Twist) -> float:
    """The inner front wheel angle commanded by the driver, rad, left > 0; NaN for a standing Twist."""
    if twist.wz == 0.0:
        return math.nan if twist.vx == 0.0 else 0.0
    radius = twist.vx / twist.wz
    if abs(radius) < TRACK / 2:
        side = twist.wz if radius == 0.0 else radius
        radius = math.copysign(TRACK / 2 + 0.01, side)
    # Central (bicycle) angle atan(L / R); inner wheel: tan(inner) = 2 L sin(c) / (2 L cos(c) - W sin(c)), track W.
    central = math.atan(WHEELBASE / radius)
    sine, cosine = math.sin(abs(central)), math.cos(central)
    inner = math.atan(2 * WHEELBASE * sine / (2 * WHEELBASE * cosine - TRACK * sine))
    return math.copysign(inner, inner * central)


def serial_frame(twist: Twist, mode: int) -> LimoSerialFrame:
    """The frame that the driver sends to the base in this mode."""
    if mode == ACKERMANN:
        angle = driver_angle(twist)
        return LimoSerialFrame(int16(twist.vx * 1000), 0, 0, int16(angle / STEERING_SCALE * 1000))
    lateral = twist.vy if mode == MECANUM else 0.0
    return LimoSerialFrame(int16(twist.vx * 1000), int16(twist.wz * 1000), int16(lateral * 1000), 0)


def limo_motion(sent: LimoSerialFrame, mode: int) -> Twist:
    """The steady velocity of a LIMO for a frame.

    It is the velocity of the middle of the rear axle, or of the vehicle in modes without steering.
    """
    vx = sent.speed / 1000
    if mode != ACKERMANN:
        return Twist(vx, sent.lateral / 1000, sent.yaw_rate / 1000)
    angle = sent.steering / 1000 * STEERING_SCALE
    inner = min(abs(angle), INNER)
    # 1 / R of the rear axle middle, R = L / tan(inner) + W / 2; the wheel angle is limited by its stop INNER.
    bend = 1.0 / (WHEELBASE / math.tan(inner) + TRACK / 2) if inner > 0.0 else 0.0
    return Twist(vx, 0.0, vx * math.copysign(bend, angle))


def int16(value: float) -> int:
    """C++ double to int16 on 64-bit ARM: truncated, NaN to 0, saturated to 32 bits, then wrapped to 16."""
    if math.isnan(value):
        return 0
    whole = int(min(max(value, -(2.0**31)), 2.0**31 - 1))
    return (whole + 0x8000) % 0x10000 - 0x8000
