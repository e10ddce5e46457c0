"""Model of LIMO's driver: Twist -> serial frame -> motion, including its bugs. Used by the sandbox and the tests.

From agilexrobotics/limo_ros, limo_base/src/limo_driver.cpp and limo_driver.h, in three versions. In Ackermann mode the
driver computes a turning radius vx / wz, converts it to a wheel angle and discards wz. Its bugs:

- A standing Twist gives 0 / 0 = NaN. The value sent depends on the processor (0 on LIMO's ARM, as here).
- A yaw rate without speed has radius 0. The first version turned that into an inner wheel angle of 67 degrees to the
  wrong side; later ones use radius 0.096 m, an angle of 87 degrees. Neither is possible.
- The steering limit of 28 degrees is compared with radians in the first and last version, so nothing is clamped.
- The steering scale was 2.47 to the left and 1.64 to the right, and is 1.64 for both since 2021-12, while odometry
  still uses the old pair. Which one the base's firmware uses must be calibrated (yaw_gain).
- Speeds become whole mm/s and mrad/s in 16 bits: beyond 32.767 they wrap around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.robots.vehicles.base import Twist
from closedloop_plugin.robots.vehicles.convert import WHEELBASE
from closedloop_plugin.robots.vehicles.limo import ACKERMANN, INNER, MECANUM, TRACK


@dataclass(frozen=True)
class LimoDriverRelease:
    """One version of the driver. `stop`: the limit with which it compares the inner wheel angle (rad)."""

    stop: float
    left: float  # steering scale: wheel angle / sent value
    right: float
    radius_floor: bool  # radii below half the track are set to just above it


RELEASES = {
    "2021-09": LimoDriverRelease(28.0, 2.47, 1.64, radius_floor=False),
    "2021-12": LimoDriverRelease(0.48869, 1.64, 1.64, radius_floor=True),
    "2025-01": LimoDriverRelease(28.0, 1.64, 1.64, radius_floor=True),
}
NEWEST = RELEASES["2025-01"]


@dataclass(frozen=True)
class LimoSerialFrame:
    """A motion command on the serial line to the base."""

    speed: int  # mm/s
    yaw_rate: int  # mrad/s, left > 0
    lateral: int  # mm/s, left > 0
    steering: int  # mrad divided by the scale, left > 0


def driver_angle(twist: Twist, release: LimoDriverRelease = NEWEST) -> float:
    """The inner front wheel angle commanded by the driver, rad, left > 0; NaN for a standing Twist."""
    if twist.wz == 0.0:
        return math.nan if twist.vx == 0.0 else 0.0
    radius = twist.vx / twist.wz
    if release.radius_floor and abs(radius) < TRACK / 2:
        side = twist.wz if radius == 0.0 else radius
        radius = math.copysign(TRACK / 2 + 0.01, side)
    # Central (bicycle) angle atan(L / R); inner wheel: tan(inner) = 2 L sin(c) / (2 L cos(c) - W sin(c)), track W.
    central = math.copysign(math.pi / 2, twist.wz) if radius == 0.0 else math.atan(WHEELBASE / radius)
    sine, cosine = math.sin(abs(central)), math.cos(central)
    inner = math.atan(2 * WHEELBASE * sine / (2 * WHEELBASE * cosine - TRACK * sine))
    return min(max(math.copysign(inner, inner * central), -release.stop), release.stop)


def frame(twist: Twist, mode: int, release: LimoDriverRelease = NEWEST) -> LimoSerialFrame:
    """The frame that the driver sends to the base in this mode."""
    if mode == ACKERMANN:
        angle = driver_angle(twist, release)
        return LimoSerialFrame(
            int16(twist.vx * 1000), 0, 0, int16(angle / (release.left if angle > 0 else release.right) * 1000)
        )
    lateral = twist.vy if mode == MECANUM else 0.0
    return LimoSerialFrame(int16(twist.vx * 1000), int16(twist.wz * 1000), int16(lateral * 1000), 0)


def driven(sent: LimoSerialFrame, mode: int, base: LimoDriverRelease = NEWEST) -> Twist:
    """The steady velocity of a LIMO for a frame. `base`: the release whose steering scale its firmware uses.

    It is the velocity of the middle of the rear axle, or of the vehicle in modes without steering.
    """
    vx = sent.speed / 1000
    if mode != ACKERMANN:
        return Twist(vx, sent.lateral / 1000, sent.yaw_rate / 1000)
    angle = sent.steering / 1000 * (base.left if sent.steering > 0 else base.right)
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
