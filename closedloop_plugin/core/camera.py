"""The camera of the ego vehicle: where it is mounted and what it sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Camera:
    """A pinhole camera on the ego, CARLA's conventions: metres forward, RIGHT, up from the ego's centre on the ground;
    yaw in degrees clockwise, horizontal field of view in degrees."""

    name: str
    width: int
    height: int
    fov: float
    forward: float
    right: float
    up: float
    yaw: float = 0.0
