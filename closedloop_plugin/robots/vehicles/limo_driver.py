"""What LIMO's own driver does with a Twist, its quirks included: the sandbox drives by it, the tests fear it.

Read off agilexrobotics/limo_ros, limo_base/src/limo_driver.cpp and limo_driver.h, three states of its history. In
Ackermann mode it takes vx / wz for a turning radius, makes a wheel angle of it and forgets wz. Its quirks:

- A standing Twist is 0 / 0: no number. What is sent then is left to the processor (0 on LIMO's ARM, as here).
- A yaw rate without speed has radius 0. The first state turned that into an inner wheel at 67 degrees to the wrong
  side; later ones put the radius at 0.096 m and the wheel at 87 degrees. Neither is an angle that a wheel has.
- The stop at 28 degrees is compared with radians in the first and the last state: there, nothing is ever clamped.
- The steering scale was 2.47 to the left and 1.64 to the right, and is 1.64 for both since 2021-12, while odometry
  still multiplies by the old pair. Which one the base means is for calibration to find out (yaw_gain).
- Speeds become whole mm/s and mrad/s in 16 bits: beyond 32.767 they wrap round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.robots.vehicles.base import Twist
from closedloop_plugin.robots.vehicles.convert import WHEELBASE
from closedloop_plugin.robots.vehicles.limo import ACKERMANN, INNER, MECANUM, TRACK


@dataclass(frozen=True)
class LimoDriverRelease:
    """One state of the driver. `stop`: what it compares the inner wheel's radians with."""

    stop: float
    left: float  # steering scale, rad of the wheel in one rad that is sent
    right: float
    radius_floor: bool  # radii below half a track are put just above it


RELEASES = {
    "2021-09": LimoDriverRelease(28.0, 2.47, 1.64, radius_floor=False),
    "2021-12": LimoDriverRelease(0.48869, 1.64, 1.64, radius_floor=True),
    "2025-01": LimoDriverRelease(28.0, 1.64, 1.64, radius_floor=True),
}
NEWEST = RELEASES["2025-01"]


@dataclass(frozen=True)
class LimoSerialFrame:
    """What goes over the serial line to the base."""

    speed: int  # mm/s
    yaw_rate: int  # mrad/s, left > 0
    lateral: int  # mm/s, left > 0
    steering: int  # mrad over the scale, left > 0


def driver_angle(twist: Twist, release: LimoDriverRelease = NEWEST) -> float:
    """The angle that the driver asks of the inner front wheel, rad, left > 0; NaN for a standing Twist."""
    if twist.wz == 0.0:
        return math.nan if twist.vx == 0.0 else 0.0
    radius = twist.vx / twist.wz
    if release.radius_floor and abs(radius) < TRACK / 2:
        side = twist.wz if radius == 0.0 else radius
        radius = math.copysign(TRACK / 2 + 0.01, side)
    central = math.copysign(math.pi / 2, twist.wz) if radius == 0.0 else math.atan(WHEELBASE / radius)
    sine, cosine = math.sin(abs(central)), math.cos(central)
    inner = math.atan(2 * WHEELBASE * sine / (2 * WHEELBASE * cosine - TRACK * sine))
    return min(max(math.copysign(inner, inner * central), -release.stop), release.stop)


def frame(twist: Twist, mode: int, release: LimoDriverRelease = NEWEST) -> LimoSerialFrame:
    """What the driver sends to the base in this mode."""
    if mode == ACKERMANN:
        angle = driver_angle(twist, release)
        return LimoSerialFrame(
            int16(twist.vx * 1000), 0, 0, int16(angle / (release.left if angle > 0 else release.right) * 1000)
        )
    lateral = twist.vy if mode == MECANUM else 0.0
    return LimoSerialFrame(int16(twist.vx * 1000), int16(twist.wz * 1000), int16(lateral * 1000), 0)


def driven(sent: LimoSerialFrame, mode: int, base: LimoDriverRelease = NEWEST) -> Twist:
    """How a LIMO moves then, once at speed. `base`: whose steering scale its firmware has; the wheel ends at its stop.

    The pose that this moves is that of the middle of the rear axle, or of the vehicle where no wheel steers.
    """
    vx = sent.speed / 1000
    if mode != ACKERMANN:
        return Twist(vx, sent.lateral / 1000, sent.yaw_rate / 1000)
    angle = sent.steering / 1000 * (base.left if sent.steering > 0 else base.right)
    inner = min(abs(angle), INNER)
    bend = 1.0 / (WHEELBASE / math.tan(inner) + TRACK / 2) if inner > 0.0 else 0.0
    return Twist(vx, 0.0, vx * math.copysign(bend, angle))


def int16(value: float) -> int:
    """A C++ double put into 16 bits by a 64-bit ARM: towards zero, no number to 0, cut to 32 bits and then wrapped."""
    if math.isnan(value):
        return 0
    whole = int(min(max(value, -(2.0**31)), 2.0**31 - 1))
    return (whole + 0x8000) % 0x10000 - 0x8000
