"""JetBot: three different interfaces share this name.

waveshare/jetbot_pro (ROS 1): src/jetbot.cpp (cmd_vel, zeroed by the node after 1 s), config/diff (0.7 m/s, 2.5 rad/s,
1.2 m/s2, radius 0.12 m), launch/jetbot.launch (/odom_raw), launch/csi_camera.launch (640 x 480 at 20 frames/s). We
infer that the paper uses this kit.
dusty-nv/jetbot_ros, branch master (ROS 2): jetbot_ros/motors.py (wheels 0.1016 m apart, 60.3 mm, 200 rpm: 0.632 m/s;
no time-out), launch/jetbot_nvidia.launch.py. No odometry.
dusty-nv/jetbot_ros, branch melodic (ROS 1): scripts/jetbot_motors.py (words; full power is PWM 115 of 255; no
time-out). No odometry.
"""

from __future__ import annotations

import math
from dataclasses import replace

from closedloop_plugin.robots.vehicles.base import RosTopics, Vehicle, VehicleCalibration, VehicleLimits
from closedloop_plugin.robots.vehicles.convert import WHEELBASE, differential, words
from closedloop_plugin.robots.vehicles.limo import SCALE

WHEELS_APART = 0.1016  # m, dusty-nv's; that of jetbot_pro's board is not published
TOP_SPEED = 200 / 60 * math.pi * 0.060325  # m/s at 200 rpm, without load: 0.632
WORD_SPEED = TOP_SPEED * 115 / 255  # m/s. An estimate: the speed at that PWM is not published
WORD_YAW_RATE = 2 * WORD_SPEED / WHEELS_APART  # rad/s, one wheel forward and one back: 5.6

_PRO = VehicleLimits(speed=0.7, yaw_rate=2.5, accel=1.2)
_ROS2 = VehicleLimits(speed=TOP_SPEED, yaw_rate=2.5, accel=1.2)
_ROS1 = VehicleLimits(speed=WORD_SPEED, yaw_rate=WORD_YAW_RATE, accel=1.2)
_CRUISE = 0.4  # m/s, as LIMO's
_WAVESHARE = Vehicle(
    name="jetbot-waveshare",
    platform="jetbot_pro",
    limits=replace(_PRO, speed=_CRUISE),
    ceiling=_PRO,
    calibration=VehicleCalibration(),
    convert=differential,
    topics=RosTopics("/cmd_vel", "/csi_cam_0/image_raw", "raw", "/odom_raw"),
    mode=None,
    watchdog_s=1.0,
    wheelbase=WHEELBASE,
    track=WHEELS_APART,
    radius=0.12,
    scale=SCALE,
    ros=1,
)
JETBOTS = (
    _WAVESHARE,
    replace(
        _WAVESHARE,
        name="jetbot-dusty-ros1",
        platform="jetbot_words",
        kind="word",
        convert=words,
        limits=_ROS1,
        ceiling=_ROS1,
        topics=RosTopics("/jetbot_motors/cmd_str", "/jetbot_camera/raw"),
        watchdog_s=None,
    ),
    replace(
        _WAVESHARE,
        name="jetbot-dusty-ros2",
        platform="jetbot_wheels",
        limits=replace(_ROS2, speed=_CRUISE),
        ceiling=_ROS2,
        topics=RosTopics("/jetbot/cmd_vel", "/jetbot/camera/image_raw"),
        watchdog_s=None,
        ros=2,
    ),
)
