"""What a vehicle is to us: its limits, its calibration, its topics, and one function from a Control to an actuation.

Robot frame (ROS, REP 103): x forward, y left, yaw counter-clockwise; metres, seconds, radians. A Control's steer is
CARLA's, right > 0: the sign changes in convert.py and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from closedloop_plugin.agents.tracking import MAX_WHEEL
from closedloop_plugin.core.state import Control
from closedloop_plugin.robots.onboard.clamp import clamp


@dataclass(frozen=True)
class Twist:
    """A velocity in the robot frame."""

    vx: float  # m/s, forward
    vy: float = 0.0  # m/s, left
    wz: float = 0.0  # rad/s, left

    def to_onboard(self) -> dict[str, Any]:
        return {"twist": asdict(self)}


@dataclass(frozen=True)
class WordCommand:
    """What a base obeys that knows no speeds: forward, left, right, backward, stop."""

    text: str

    def to_onboard(self) -> dict[str, Any]:
        return {"word": self.text}


Actuation = Twist | WordCommand


@dataclass(frozen=True)
class VehicleLimits:
    """What is never exceeded. `speed` is also what full throttle means."""

    speed: float  # m/s
    yaw_rate: float  # rad/s
    accel: float  # m/s2, of the base's own motor control; nobody here enforces it
    turning_radius: float = 0.0  # m, of the middle of the rear axle; 0: turns on the spot
    reverse: bool = False  # a Control has no reverse gear
    lateral: float = 0.0  # m/s to either side; a Control asks for none


@dataclass(frozen=True)
class VehicleCalibration:
    """Measured on one vehicle, written into its YAML (docs/robots-vehicles.md says how)."""

    speed_gain: float = 1.0  # commanded / driven
    yaw_gain: float = 1.0  # likewise of the yaw rate; on an Ackermann vehicle of the curvature
    steer_offset: float = 0.0  # added to every steer, right > 0: against a vehicle that pulls to one side
    # Wheel angle of the bicycle that steer = 1 means. The default is that of the car which the interpreters have in
    # mind, so that the arc which they ask for is the arc that is driven.
    steer_limit_deg: float = math.degrees(MAX_WHEEL)
    turn_s: float = 0.1  # s that a turning Word may act


@dataclass(frozen=True)
class RosTopics:
    """ROS names; "" where the vehicle has none."""

    cmd: str
    camera: str
    camera_type: str = "raw"  # raw (sensor_msgs/Image) | compressed (sensor_msgs/CompressedImage)
    odom: str = ""
    status: str = ""
    status_type: str = ""


@dataclass(frozen=True)
class Vehicle:
    """One kind of vehicle. `limits`: what it drives with; `ceiling`: what its maker gives, which no file may exceed."""

    name: str
    platform: str  # whose driver listens: drivers.py knows what it does with an actuation
    limits: VehicleLimits
    ceiling: VehicleLimits
    calibration: VehicleCalibration
    convert: Callable[[Control, VehicleLimits, VehicleCalibration], Actuation]
    topics: RosTopics
    mode: int | None  # that the vehicle's status must show before it is driven
    watchdog_s: float | None  # after which the base stops by itself; None: it never does, so a relay is mandatory
    wheelbase: float  # m; a vehicle with one axle has that of the bicycle which a steer is meant for
    track: float  # m between left and right wheels
    radius: float  # m, of the circle that covers the vehicle
    scale: float  # a car's metres in one of the vehicle's
    ros: int  # 1 | 2
    kind: str = "twist"  # twist | word

    def actuation(self, control: Control) -> Actuation:
        """What to send for `control`, within the limits. ValueError where the control is not finite."""
        wanted = self.convert(control.checked(), self.limits, self.calibration)
        sent = clamp(wanted.to_onboard(), self.to_onboard())
        return WordCommand(sent["word"]) if self.kind == "word" else Twist(**sent["twist"])

    def motion_s(self, actuation: Actuation, longest: float = 0.5) -> float:
        """How long it may act. A base without speeds spins too fast for the whole of a motion."""
        turns = isinstance(actuation, WordCommand) and actuation.text in ("left", "right")
        return min(longest, self.calibration.turn_s) if turns else longest

    def to_onboard(self) -> dict[str, Any]:
        """JSON for the settings on board: all that its clamp, its mode check and its topics need."""
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
