"""Conversion of poses, velocities and actor snapshots between the map frame and CARLA's.

Map frame: right-handed, x east, y north, yaw counter-clockwise in rad. CARLA's (Unreal): left-handed, y south, yaw
clockwise in degrees. So y and yaw change sign (core/frames.py); z (up) is the same.
"""

from __future__ import annotations

import math
from typing import Any

import carla

from closedloop_plugin.core.frames import from_carla, to_carla
from closedloop_plugin.worlds.bodies.body import SimulatedBody

HIDDEN_Z = -200.0  # m: height of actors that are removed from the scene


def transform(x: float, y: float, z: float, yaw: float, pitch_deg: float = 0.0) -> Any:
    """carla.Transform of a pose in the map frame (m, m, m, radians)."""
    cx, cy, cyaw = to_carla(x, y, yaw)
    return carla.Transform(carla.Location(cx, cy, z), carla.Rotation(pitch=pitch_deg, yaw=cyaw, roll=0.0))


def vector(x: float, y: float) -> Any:
    """carla.Vector3D of a velocity in the map frame."""
    cx, cy, _ = to_carla(x, y)
    return carla.Vector3D(cx, cy, 0.0)


def read(body: SimulatedBody, snapshot: Any, offset: float) -> None:
    """Set the body's motion from an actor's snapshot. `offset`: its box's centre ahead of the actor's origin, m."""
    m = body.motion
    pose, velocity, acceleration, angular = (
        snapshot.get_transform(),
        snapshot.get_velocity(),
        snapshot.get_acceleration(),
        snapshot.get_angular_velocity(),
    )
    x, y, m.yaw = from_carla(pose.location.x, pose.location.y, pose.rotation.yaw)
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    m.x, m.y = x + offset * c, y + offset * s
    m.vx, m.vy, _ = from_carla(velocity.x, velocity.y)
    m.ax, m.ay, _ = from_carla(acceleration.x, acceleration.y)
    m.v = m.vx * c + m.vy * s
    m.yaw_rate = -math.radians(angular.z)  # CARLA: degrees per second, clockwise
