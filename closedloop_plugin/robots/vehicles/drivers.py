"""What each platform's own driver makes of an actuation: the velocity that a simulated vehicle then heads for."""

from __future__ import annotations

from closedloop_plugin.robots.vehicles import limo_driver
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, Vehicle, WordCommand
from closedloop_plugin.robots.vehicles.jetbot import TOP_SPEED, WHEELS_APART, WORD_SPEED, WORD_YAW_RATE

_STILL = Twist(0.0)
# scripts/jetbot_motors.py of dusty-nv's branch melodic: both wheels at the same power, forward or back.
_WORDS = {
    "forward": Twist(WORD_SPEED),
    "backward": Twist(-WORD_SPEED),
    "left": Twist(0.0, 0.0, WORD_YAW_RATE),
    "right": Twist(0.0, 0.0, -WORD_YAW_RATE),
}


def driven(vehicle: Vehicle, actuation: Actuation) -> Twist:
    """Velocity in the robot frame, once at speed. A message of the wrong kind never reaches a driver's topic."""
    if isinstance(actuation, WordCommand):
        return _WORDS.get(actuation.text.lower(), _STILL)
    if vehicle.platform == "limo":
        mode = vehicle.mode or 0
        return limo_driver.driven(limo_driver.frame(actuation, mode), mode)
    if vehicle.platform == "jetbot_wheels":
        return wheels(actuation)
    return board(actuation)


def board(twist: Twist) -> Twist:
    """jetbot_pro: speed and yaw rate go to its board as whole mm/s and mrad/s, in 16 bits. (It sends vx for vy as
    well, which a board with two wheels has no use for.)"""
    return Twist(limo_driver.int16(twist.vx * 1000) / 1000, 0.0, limo_driver.int16(twist.wz * 1000) / 1000)


def wheels(twist: Twist) -> Twist:
    """dusty-nv ROS 2: each wheel is cut at the top speed by itself, so that a Twist too fast for one of them is driven
    straighter than it says."""
    half = WHEELS_APART / 2
    left, right = (min(max(twist.vx + side * half * twist.wz, -TOP_SPEED), TOP_SPEED) for side in (-1, 1))
    return Twist((left + right) / 2, 0.0, (right - left) / WHEELS_APART)
