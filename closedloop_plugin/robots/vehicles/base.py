"""Describes a vehicle: limits, calibration, ROS topics, and the conversion from a Control to an actuation.

Robot frame (ROS, REP 103): x forward, y left, yaw counter-clockwise; metres, seconds, radians. A Control's steer is
CARLA's, right > 0; the sign changes only in convert.py.
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


@dataclass(frozen=True, kw_only=True)
class Vehicle:
    """One vehicle type. `limits`: used for driving; `ceiling`: the manufacturer's limits, which no file may exceed."""

    name: str
    platform: str  # selects the driver model in drivers.py
    limits: VehicleLimits
    ceiling: VehicleLimits
    calibration: VehicleCalibration
    convert: Callable[[Control, VehicleLimits, VehicleCalibration], Actuation]
    topics: RosTopics
    mode: int | None  # required in the vehicle's status before it is driven
    watchdog_s: float | None  # after which the base stops by itself; None: never, so that a relay is required
    wheelbase: float  # m; for a vehicle with one axle, that of the bicycle model
    track: float  # m between left and right wheels
    radius: float  # m, of a circle that covers the vehicle
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
