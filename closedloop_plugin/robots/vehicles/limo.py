"""LIMO (AgileX), ROS 1: four drive modes behind one /cmd_vel. The mode is set on the vehicle with two pins.

Figures: agilexrobotics/limo_ros, limo_base/include/limo_driver.h (wheelbase 0.2 m, track 0.172 m, inner wheel 28
degrees, modes 0 four-wheel differential and tracked, 1 Ackermann, 2 Mecanum); limo_bringup/param (0.5 to 0.6 m/s,
1.0 rad/s, 2.5 m/s2); the maker's manual (1 m/s without load, 322 x 220 mm; its turning radius of 0.4 m needs more
than the driver's 28 degrees). The node has no time-out.
"""

from __future__ import annotations

import math
from dataclasses import replace

from closedloop_plugin.robots.vehicles.base import RosTopics, Vehicle, VehicleCalibration, VehicleLimits
from closedloop_plugin.robots.vehicles.convert import WHEELBASE, ackermann, differential

TRACK = 0.172  # m
INNER = math.radians(28)  # rad, at the inner front wheel's stop
# m, 0.462, of the middle of the rear axle: R = wheelbase / tan(inner) + track / 2. Bicycle wheel angle 23.4 degrees.
TURNING_RADIUS = WHEELBASE / math.tan(INNER) + TRACK / 2
DIFFERENTIAL, ACKERMANN, MECANUM = 0, 1, 2
SCALE = 14.0  # wheelbase 0.2 m -> 2.8 m

_CEILING = VehicleLimits(speed=1.0, yaw_rate=1.0, accel=2.5)
# 0.4 m/s is 20 km/h at full size. With the profile's throttle limit of 0.75 it is 0.3 m/s, or 4.2 m/s at full size,
# below the profile's 5 m/s.
_LIMITS = replace(_CEILING, speed=0.4)
_TOPICS = RosTopics(
    cmd="/cmd_vel",
    camera="/camera/rgb/image_raw/compressed",
    camera_type="compressed",
    odom="/odom",
    status="/limo_status",
    status_type="limo_base/LimoStatus",
)
_DIFFERENTIAL = Vehicle(
    name="limo-differential",
    platform="limo",
    limits=_LIMITS,
    ceiling=_CEILING,
    calibration=VehicleCalibration(),
    convert=differential,
    topics=_TOPICS,
    mode=DIFFERENTIAL,
    watchdog_s=None,
    wheelbase=WHEELBASE,
    track=TRACK,
    radius=math.hypot(0.322, 0.220) / 2,
    scale=SCALE,
    ros=1,
)
LIMOS = (
    _DIFFERENTIAL,
    replace(
        _DIFFERENTIAL,
        name="limo-ackermann",
        convert=ackermann,
        limits=replace(_LIMITS, turning_radius=TURNING_RADIUS),
        ceiling=replace(_CEILING, turning_radius=TURNING_RADIUS),
        mode=ACKERMANN,
    ),
    replace(_DIFFERENTIAL, name="limo-tracked"),  # tracks slip sideways: measure its yaw_gain
    replace(_DIFFERENTIAL, name="limo-mecanum", mode=MECANUM),
)
