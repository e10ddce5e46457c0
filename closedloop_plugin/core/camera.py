"""Camera: mounting and image size of a camera on the ego vehicle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Camera:
    """A pinhole camera on the ego, in CARLA's conventions.

    Position: metres forward, RIGHT and up from the ego's centre on the ground. Yaw: degrees, clockwise. Field of view:
    horizontal, degrees.
    """

    name: str
    width: int
    height: int
    fov: float
    forward: float
    right: float
    up: float
    yaw: float = 0.0

    @property
    def sized_name(self) -> str:
        """Name and size, as in the identity of a run: "front 160x90"."""
        return f"{self.name} {self.width}x{self.height}"
