"""Models of the platforms' drivers: actuation -> target velocity of a simulated vehicle."""

from __future__ import annotations

from closedloop_plugin.robots.vehicles import limo_driver
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, Vehicle, WordCommand
from closedloop_plugin.robots.vehicles.jetbot import TOP_SPEED, WHEELS_APART, WORD_SPEED, WORD_YAW_RATE

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
        return limo_driver.driven(limo_driver.frame(actuation, mode), mode)
    if vehicle.platform == "jetbot_wheels":
        return wheels(actuation)
    return board(actuation)


def board(twist: Twist) -> Twist:
    """jetbot_pro: speed and yaw rate are sent to its board as whole mm/s and mrad/s in 16 bits. (It also sends vx as
    vy, which a board with two wheels ignores.)"""
    return Twist(limo_driver.int16(twist.vx * 1000) / 1000, 0.0, limo_driver.int16(twist.wz * 1000) / 1000)


def wheels(twist: Twist) -> Twist:
    """dusty-nv ROS 2: each wheel is limited to the top speed separately, so that a Twist that is too fast for one wheel
    is driven with less curvature."""
    # Differential drive: v_left, v_right = vx -+ wz * d / 2, with d the distance between the wheels.
    half = WHEELS_APART / 2
    left, right = (min(max(twist.vx + side * half * twist.wz, -TOP_SPEED), TOP_SPEED) for side in (-1, 1))
    return Twist((left + right) / 2, 0.0, (right - left) / WHEELS_APART)
