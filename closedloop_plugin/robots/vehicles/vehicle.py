"""Describes a vehicle: limits, calibration, ROS topics, and the conversion from a Control to an actuation.

Robot frame (ROS, REP 103): x forward, y left, yaw counter-clockwise; metres, seconds, radians. A Control's steer is
CARLA's, right > 0; the sign changes only in the conversions: pure functions, one per kind of base.

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
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from closedloop_plugin.core.state import Control
from closedloop_plugin.driver.agents.tracking import MAX_WHEEL
from closedloop_plugin.robots.onboard.clamp import clamp


@dataclass(frozen=True)
class Twist:
    """A velocity in the robot frame."""

    vx: float  # m/s, forward
    vy: float = 0.0  # m/s, left
    wz: float = 0.0  # rad/s, left

    def to_onboard(self) -> dict[str, Any]:
        return {"twist": {"vx": self.vx, "vy": self.vy, "wz": self.wz}}


@dataclass(frozen=True)
class WordCommand:
    """A command for a base without speed control: forward, left, right, backward, stop."""

    text: str

    def to_onboard(self) -> dict[str, Any]:
        return {"word": self.text}


Actuation = Twist | WordCommand


@dataclass(frozen=True)
class VehicleLimits:
    """Limits that are never exceeded. Full throttle means `speed`."""

    speed: float  # m/s
    yaw_rate: float  # rad/s
    accel: float  # m/s2, of the base's own motor control; not enforced here
    turning_radius: float = 0.0  # m, of the middle of the rear axle; 0: can turn on the spot
    reverse: bool = False  # whether reversing is allowed; a Control has no reverse gear
    lateral: float = 0.0  # m/s to either side; unused by a Control


@dataclass(frozen=True)
class VehicleCalibration:
    """Measured on one vehicle and written into its YAML (see docs/robots-vehicles.md)."""

    speed_gain: float = 1.0  # commanded speed / driven speed
    yaw_gain: float = 1.0  # the same for the yaw rate, or the curvature of an Ackermann vehicle
    steer_offset: float = 0.0  # added to every steer, right > 0; corrects a vehicle that pulls to one side
    # Wheel angle of the bicycle model for steer = 1. The default is the interpreters' car, so that the arc they request
    # is the arc that is driven.
    steer_limit_deg: float = math.degrees(MAX_WHEEL)
    turn_s: float = 0.1  # s, duration of a turning WordCommand


@dataclass(frozen=True)
class RosTopics:
    """ROS topic names; "" if the vehicle has none."""

    cmd: str
    camera: str
    camera_type: str = "raw"  # raw (sensor_msgs/Image) | compressed (sensor_msgs/CompressedImage)
    odom: str = ""
    status: str = ""
    status_type: str = ""


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


ControlConversion = Callable[[Control, VehicleLimits, VehicleCalibration], Actuation]
# By the name in vehicles.yaml.
CONVERSIONS: dict[str, ControlConversion] = {"differential": differential, "ackermann": ackermann, "words": words}


@dataclass(frozen=True, kw_only=True)
class Vehicle:
    """One vehicle type. `limits`: used for driving; `ceiling`: the manufacturer's limits, which no file may exceed."""

    name: str
    platform: str  # selects the driver model in drivers.py
    limits: VehicleLimits
    ceiling: VehicleLimits
    calibration: VehicleCalibration
    convert: ControlConversion
    topics: RosTopics
    mode: int | None  # required in the vehicle's status before it is driven
    watchdog_s: float | None  # after which the base stops by itself; None: never, so that a relay is required
    wheelbase: float  # m; for a vehicle with one axle, that of the bicycle model
    track: float  # m between left and right wheels
    scale: float  # full-size metres per metre of the vehicle
    ros: int  # 1 | 2
    kind: str = "twist"  # twist | word

    def actuation(self, control: Control) -> Actuation:
        """The actuation for `control`, within the limits. ValueError if the control is not finite."""
        wanted = self.convert(control.checked(), self.limits, self.calibration)
        sent = clamp(wanted.to_onboard(), self._onboard)
        return WordCommand(sent["word"]) if self.kind == "word" else Twist(**sent["twist"])

    def motion_s(self, actuation: Actuation, longest: float = 0.5) -> float:
        """Duration of a motion, s. Shorter for turning words: a base without speed control spins too fast."""
        turns = isinstance(actuation, WordCommand) and actuation.text in ("left", "right")
        return min(longest, self.calibration.turn_s) if turns else longest

    def to_onboard(self) -> dict[str, Any]:
        """The vehicle as JSON for the on-board settings: for clamp, mode check and topics."""
        return deepcopy(self._onboard)

    @cached_property
    def _onboard(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "platform": self.platform,
            "kind": self.kind,
            "limits": asdict(self.limits),
            "mode": self.mode,
            "watchdog_s": self.watchdog_s,
            "topics": {key: value or None for key, value in asdict(self.topics).items()},
            "ros": self.ros,
        }
