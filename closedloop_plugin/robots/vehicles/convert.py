"""Converts a Control to a velocity or word: one pure function per kind of base. Units as in base.py.

Speed. Throttle is a share of the cruising speed, limits.speed: these bases control their speed themselves and each
motion starts from standstill, so that throttle cannot set an acceleration. A brake of BRAKE or more overrides the
throttle and means standing still, because these bases stop within centimetres. Zero throttle means standing still too
(a car would keep rolling): an uninterpretable reply becomes zero throttle and must not move the vehicle.

Steer. The wheel angle of a bicycle model, where steer = 1 is calibration.steer_limit_deg to the right:

    curvature = -tan(steer * limit) / wheelbase    1/m, left > 0
    yaw rate  = speed * curvature                  rad/s, left > 0

The same steer drives the same arc on every platform whose wheels can follow it, and a standing vehicle never turns.
The clamp slows excess speed as a whole, which keeps the arc.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.state import Control
from closedloop_plugin.robots.vehicles.base import Twist, VehicleCalibration, VehicleLimits, WordCommand

# m. LIMO's wheelbase (agilexrobotics/limo_ros, limo_driver.h: wheelbase_), also used for the bicycle model of the other
# robots of its size. At scale 14 it is 2.8 m, the wheelbase of the car in the embedded world.
WHEELBASE = 0.2
BRAKE = 0.05  # less is ignored, as in the published post-processing (profile bench2advlm)
HALF_LOCK = 0.5  # |steer| from which a turning word is nearer than going straight


def speed(control: Control, limits: VehicleLimits) -> float:
    """Forward speed, m/s; see the module docstring."""
    return 0.0 if control.brake >= BRAKE else control.throttle * limits.speed


def curvature(steer: float, calibration: VehicleCalibration, wheelbase: float = WHEELBASE) -> float:
    """Curvature for `steer` (right > 0): 1/m, left > 0."""
    wheel = min(max(steer + calibration.steer_offset, -1.0), 1.0) * math.radians(calibration.steer_limit_deg)
    return -math.tan(wheel) / wheelbase


def differential(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> Twist:
    """For a base with independent speed and yaw rate: differential, tracked, and Mecanum (without lateral motion)."""
    v = speed(control, limits)
    turn = v * curvature(control.steer, calibration)
    return Twist(v * calibration.speed_gain, 0.0, turn * calibration.yaw_gain)


def ackermann(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> Twist:
    """For a base that steers by the quotient wz / vx of a Twist, as LIMO's driver does: wz = vx tan(wheel) / wheelbase.

    The curvature is limited to 1 / turning_radius. yaw_gain scales the curvature, which corrects the steering scale
    (it differs between releases of the driver); speed_gain does not change the arc.
    """
    limit = 1.0 / limits.turning_radius
    k = curvature(control.steer, calibration) * calibration.yaw_gain
    v = speed(control, limits) * calibration.speed_gain
    return Twist(v, 0.0, v * min(max(k, -limit), limit))


def words(control: Control, limits: VehicleLimits, calibration: VehicleCalibration) -> WordCommand:
    """For a base with full speed only (dusty-nv, ROS 1): forward below HALF_LOCK, else a turn.

    Left and right turn on the spot for calibration.turn_s, so that curvature is not reproduced.
    """
    if speed(control, limits) <= 0.0:
        return WordCommand("stop")
    steer = control.steer + calibration.steer_offset
    return WordCommand("forward" if abs(steer) < HALF_LOCK else "right" if steer > 0 else "left")
