"""Axis conversions between the map frame, CARLA and Scenic.

map     right-handed, x east, y north, yaw radians counter-clockwise from +x   (the frame of this package)
CARLA   left-handed, y to the south, yaw degrees clockwise from +x             (route files, result files, carla)
Scenic  axes of the map frame, heading radians counter-clockwise from +y              (Scenic programs)
"""

from __future__ import annotations

import math


def from_carla(x: float, y: float, yaw_deg: float = 0.0) -> tuple[float, float, float]:
    """CARLA (m, m, degrees) -> map (m, m, radians)."""
    return x, -y, wrap(-math.radians(yaw_deg))


def to_carla(x: float, y: float, yaw: float = 0.0) -> tuple[float, float, float]:
    """Map (m, m, radians) -> CARLA (m, m, degrees)."""
    return x, -y, -math.degrees(wrap(yaw))


def scenic_heading(yaw: float) -> float:
    """Map yaw -> Scenic heading, radians."""
    return wrap(yaw - math.pi / 2)


def yaw_of_heading(heading: float) -> float:
    """Scenic heading -> map yaw, radians."""
    return wrap(heading + math.pi / 2)


def wrap(angle: float) -> float:
    """`angle` in (-pi, pi]."""
    wrapped = math.remainder(angle, math.tau)
    return math.pi if wrapped == -math.pi else wrapped


def to_ego(x: float, y: float, ego_x: float, ego_y: float, ego_yaw: float) -> tuple[float, float]:
    """A map point in the ego's frame: metres forward, metres to the left."""
    # Rotation by -yaw: (forward, left) = R(-yaw) (p - p_ego).
    dx, dy = x - ego_x, y - ego_y
    c, s = math.cos(ego_yaw), math.sin(ego_yaw)
    return dx * c + dy * s, -dx * s + dy * c
