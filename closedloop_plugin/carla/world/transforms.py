"""Places between our map frame and CARLA's, with the third dimension: bodies know where the middle of their box is."""

from __future__ import annotations

import math
from typing import Any

import carla

from closedloop_plugin.core.frames import from_carla, to_carla
from closedloop_plugin.worlds.bodies.body import SimulatedBody

ABYSS = -200.0  # m: where actors wait that are not on the stage


def transform(x: float, y: float, z: float, yaw: float, pitch_deg: float = 0.0) -> Any:
    """carla.Transform of a pose in the map frame (m, m, m, radians)."""
    cx, cy, cyaw = to_carla(x, y, yaw)
    return carla.Transform(carla.Location(cx, cy, z), carla.Rotation(pitch=pitch_deg, yaw=cyaw, roll=0.0))


def vector(x: float, y: float) -> Any:
    """carla.Vector3D of a velocity in the map frame."""
    cx, cy, _ = to_carla(x, y)
    return carla.Vector3D(cx, cy, 0.0)


def read(body: SimulatedBody, seen: Any, offset: float) -> None:
    """The body's motion from an actor's snapshot. `offset`: its box's middle before the actor's origin, m."""
    m = body.motion
    where, speed, gain, turn = (
        seen.get_transform(),
        seen.get_velocity(),
        seen.get_acceleration(),
        seen.get_angular_velocity(),
    )
    x, y, m.yaw = from_carla(where.location.x, where.location.y, where.rotation.yaw)
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    m.x, m.y = x + offset * c, y + offset * s
    m.vx, m.vy, _ = from_carla(speed.x, speed.y)
    m.ax, m.ay, _ = from_carla(gain.x, gain.y)
    m.v = m.vx * c + m.vy * s
    m.yaw_rate = -math.radians(turn.z)
