"""From pedals and wheel to a velocity: one pure function for each way of moving. Units as in base.py.

Speed. A throttle is a share of the cruising speed, limits.speed. These bases hold a commanded speed by themselves and
each motion starts from standstill, so a throttle has no acceleration to set; what is left of it is how fast the half
second is to be driven. Any brake from BRAKE on wins over the throttle and stands still: a brake has nothing else to
say to a base that stops within centimetres, and of two contradicting pedals the safe one counts. No throttle stands
still too (a car would roll on): an answer that nobody could read becomes no pedal, and must not move anything.

Steer. It is the wheel angle of a bicycle, steer = 1 being calibration.steer_limit_deg to the right, so

    curvature = -tan(steer * limit) / wheelbase    1/m, left > 0
    yaw rate  = speed * curvature                  rad/s, left > 0

on every platform alike: the same steer drives the same arc wherever the wheels can follow it, and a standing vehicle
never turns. What is too fast is slowed by the clamp as a whole, which keeps the arc.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.state import Control
from closedloop_plugin.robots.vehicles.base import Twist, VehicleCalibration, VehicleLimits, WordCommand

# m. LIMO's (agilexrobotics/limo_ros, limo_driver.h: wheelbase_), and that of the bicycle which a steer means on the
# other robots of its size. At scale 14 it is a car of 2.8 m, that of the embedded world.
WHEELBASE = 0.2
BRAKE = 0.05  # a lighter brake is none: the published post-processing (profile bench2advlm) drops it as well
HALF_LOCK = 0.5  # steer from which on a turning word is nearer to what is meant than going straight


def speed(control: Control, limits: VehicleLimits) -> float:
    """m/s, forward; see the head of this file."""
    return 0.0 if control.brake >= BRAKE else control.throttle * limits.speed


def curvature(steer: float, calibration: VehicleCalibration, wheelbase: float = WHEELBASE) -> float:
    """1/m, left > 0, of the path that `steer` (right > 0) means."""
    wheel = min(max(steer + calibration.steer_offset, -1.0), 1.0) * math.radians(calibration.steer_limit_deg)
    return -math.tan(wheel) / wheelbase


def differential(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> Twist:
    """For a base that takes speed and yaw rate apart: differential, tracked, and Mecanum, of which a car's control
    never uses the third freedom. The gains are independent of each other."""
    v = speed(control, limits)
    turn = v * curvature(control.steer, calibration)
    return Twist(v * calibration.speed_gain, 0.0, turn * calibration.yaw_gain)


def ackermann(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> Twist:
    """For a base that steers by the quotient of a Twist, as LIMO's driver does: wz = vx tan(wheel) / wheelbase.

    A steer beyond the turning radius gives the tightest arc there is. yaw_gain corrects the quotient and so the
    steering scale, which differs between releases of the driver; speed_gain leaves the arc alone.
    """
    tightest = 1.0 / limits.turning_radius
    bend = curvature(control.steer, calibration) * calibration.yaw_gain
    v = speed(control, limits) * calibration.speed_gain
    return Twist(v, 0.0, v * min(max(bend, -tightest), tightest))


def words(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> WordCommand:
    """For a base that knows full speed or nothing (dusty-nv, ROS 1): the nearest of straight on and full lock.

    It keeps no curvature: left and right turn on the spot, for calibration.turn_s, and the next motion goes on.
    """
    if speed(control, limits) <= 0.0:
        return WordCommand("stop")
    steer = control.steer + calibration.steer_offset
    return WordCommand("forward" if abs(steer) < HALF_LOCK else "right" if steer > 0 else "left")
