"""A pinhole camera in the map frame. No pitch, no roll: the horizon is the middle row, a ground row has one depth.

Pixels are continuous, as in CARLA's K: (0, 0) is the top left corner of the picture, the optical axis meets
(width / 2, height / 2). A point at `depth` metres along the axis, `right` metres beside it and `z` above the ground is
at u = width / 2 + focal * right / depth, v = height / 2 + focal * (up - z) / depth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.core.camera import Camera

NEAR = 0.15  # m: nothing nearer along the axis is drawn
FAR_PIXEL = 1.0e6  # coordinates beyond are cut: far outside any picture, still exact in OpenCV's fixed point


@dataclass(frozen=True)
class PinholeLens:
    """Where one camera is at one moment. Positions in the map frame, m."""

    width: int
    height: int
    focal: float  # pixels
    x: float
    y: float
    up: float
    ahead: tuple[float, float]  # unit vector of the optical axis
    right: tuple[float, float]  # unit vector to the right of the picture

    @property
    def half_angle(self) -> float:
        """Half the horizontal field of view, radians."""
        return math.atan2(self.width / 2, self.focal)

    def local(self, xy: np.ndarray) -> np.ndarray:
        """(..., 2) map points -> (..., 2): metres along the axis, metres to the right."""
        dx, dy = xy[..., 0] - self.x, xy[..., 1] - self.y
        out = np.empty((*dx.shape, 2))
        out[..., 0] = dx * self.ahead[0] + dy * self.ahead[1]
        out[..., 1] = dx * self.right[0] + dy * self.right[1]
        return out

    def pixels(self, local: np.ndarray, z: np.ndarray | float) -> np.ndarray:
        """(..., 2) of `local` with depth > 0, heights z -> (..., 2) u, v."""
        scale = self.focal / local[..., 0]
        out = np.empty((*scale.shape, 2))
        out[..., 0] = self.width / 2 + local[..., 1] * scale
        out[..., 1] = self.height / 2 + (self.up - z) * scale
        return np.minimum(np.maximum(out, -FAR_PIXEL), FAR_PIXEL)

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N, 3) map points -> pixels (N, 2) and depths (N,); pixels of points behind the camera mean nothing."""
        local = self.local(points[:, :2])
        depth = local[:, 0].copy()
        local[:, 0] = np.maximum(depth, 1e-6)
        return self.pixels(local, points[:, 2]), depth

    def project_point(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """One map point -> u, v, depth; plain floats, for there are many small things. u, v are 0 behind the camera."""
        dx, dy = x - self.x, y - self.y
        depth = dx * self.ahead[0] + dy * self.ahead[1]
        if depth < NEAR:
            return 0.0, 0.0, depth
        scale = self.focal / depth
        u = self.width / 2 + (dx * self.right[0] + dy * self.right[1]) * scale
        return u, self.height / 2 + (self.up - z) * scale, depth

    def in_view(self, local: np.ndarray, radius: np.ndarray | float, far: float) -> np.ndarray:
        """Which discs round (N, 2) local points reach into the picture's wedge, nearer than `far`."""
        c, s = math.cos(self.half_angle), math.sin(self.half_angle)
        outside = np.abs(local[..., 1]) * c - local[..., 0] * s  # distance beyond the wedge's side
        return (local[..., 0] > -radius) & (local[..., 0] - radius < far) & (outside < radius)


def lens_of(camera: Camera, x: float, y: float, yaw: float) -> PinholeLens:
    """The camera on an ego whose centre is at (x, y) with `yaw` (map frame)."""
    c, s = math.cos(yaw), math.sin(yaw)
    axis = yaw - math.radians(camera.yaw)  # the camera's yaw is clockwise
    ca, sa = math.cos(axis), math.sin(axis)
    return PinholeLens(
        width=camera.width,
        height=camera.height,
        focal=camera.width / 2 / math.tan(math.radians(camera.fov) / 2),
        x=x + camera.forward * c + camera.right * s,
        y=y + camera.forward * s - camera.right * c,
        up=max(camera.up, 0.05),
        ahead=(ca, sa),
        right=(sa, -ca),
    )


def clip_near(local: np.ndarray, z: np.ndarray, near: float = NEAR) -> tuple[np.ndarray, np.ndarray]:
    """A closed polygon (N, 2) of `local` with heights (N,), cut at depth `near`; may come back empty.

    A polygon that is not convex gets edges along the cut, which fill correctly (even-odd).
    """
    inside = local[:, 0] >= near
    if inside.all():
        return local, z
    if not inside.any():
        return local[:0], z[:0]
    points = np.column_stack([local, z])
    after = np.roll(points, -1, axis=0)
    crosses = inside != np.roll(inside, -1)
    span = np.where(crosses, after[:, 0] - points[:, 0], 1.0)
    cut = points + ((near - points[:, 0]) / span)[:, None] * (after - points)
    both = np.stack([points, cut], axis=1).reshape(-1, 3)
    keep = np.stack([inside, crosses], axis=1).reshape(-1)
    kept = both[keep]
    return kept[:, :2], kept[:, 2]
