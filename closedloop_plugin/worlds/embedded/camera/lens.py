"""PinholeLens: projection of map points to pixels, without pitch and roll.

The horizon is therefore the middle row, and all ground points of a row have the same depth. Pixels are continuous, as
in CARLA's K matrix: (0, 0) is the top left corner of the picture, the optical axis meets (width / 2, height / 2). A
point `depth` m along the axis, `right` m to its right and `z` m above the ground is at

    u = width / 2 + focal * right / depth,    v = height / 2 + focal * (up - z) / depth    (pixels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.core.camera import Camera

NEAR = 0.15  # m: near plane, nothing closer along the axis is drawn
FAR_PIXEL = 1.0e6  # coordinates are clipped here: outside any picture, and exact in OpenCV's fixed point


@dataclass(frozen=True)
class PinholeLens:
    """Intrinsics and pose of one camera at one moment. Positions in the map frame, m."""

    width: int
    height: int
    focal: float  # pixels
    x: float
    y: float
    up: float  # height above the ground
    ahead: tuple[float, float]  # unit vector of the optical axis
    right: tuple[float, float]  # unit vector to the right of the picture

    @property
    def half_angle(self) -> float:
        """Half the horizontal field of view, radians."""
        return math.atan2(self.width / 2, self.focal)

    def local(self, xy: np.ndarray) -> np.ndarray:
        """(..., 2) map points -> (..., 2) camera frame: m along the axis (depth), m to the right."""
        dx, dy = xy[..., 0] - self.x, xy[..., 1] - self.y
        out = np.empty((*dx.shape, 2))
        out[..., 0] = dx * self.ahead[0] + dy * self.ahead[1]
        out[..., 1] = dx * self.right[0] + dy * self.right[1]
        return out

    def pixels(self, local: np.ndarray, z: np.ndarray | float) -> np.ndarray:
        """Camera-frame points (..., 2) with depth > 0 and heights z (m) -> (..., 2) pixels u, v."""
        # u = W / 2 + f right / depth; v = H / 2 + f (up - z) / depth
        scale = self.focal / local[..., 0]
        out = np.empty((*scale.shape, 2))
        out[..., 0] = self.width / 2 + local[..., 1] * scale
        out[..., 1] = self.height / 2 + (self.up - z) * scale
        return np.minimum(np.maximum(out, -FAR_PIXEL), FAR_PIXEL)

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N, 3) map points -> pixels (N, 2) and depths (N,); pixels of points behind the camera are meaningless."""
        local = self.local(points[:, :2])
        depth = local[:, 0].copy()
        local[:, 0] = np.maximum(depth, 1e-6)
        return self.pixels(local, points[:, 2]), depth

    def project_point(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """One map point -> u, v, depth, as `project` but without arrays. u, v are 0 behind the near plane."""
        dx, dy = x - self.x, y - self.y
        depth = dx * self.ahead[0] + dy * self.ahead[1]
        if depth < NEAR:
            return 0.0, 0.0, depth
        scale = self.focal / depth
        u = self.width / 2 + (dx * self.right[0] + dy * self.right[1]) * scale
        return u, self.height / 2 + (self.up - z) * scale, depth

    def project_each(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(N, 3) map points -> u, v, depth, (N,) each, as `project_point`.

        u, v are meaningless behind the near plane.
        """
        dx, dy = points[:, 0] - self.x, points[:, 1] - self.y
        depth = dx * self.ahead[0] + dy * self.ahead[1]
        scale = self.focal / np.where(depth < NEAR, 1.0, depth)
        u = self.width / 2 + (dx * self.right[0] + dy * self.right[1]) * scale
        return u, self.height / 2 + (self.up - points[:, 2]) * scale, depth

    def in_view(self, local: np.ndarray, radius: np.ndarray | float, far: float) -> np.ndarray:
        """(N,) whether discs around camera-frame points (N, 2) intersect the field of view, nearer than `far` m."""
        c, s = math.cos(self.half_angle), math.sin(self.half_angle)
        outside = np.abs(local[..., 1]) * c - local[..., 0] * s  # m beyond the edge of the field of view
        return (local[..., 0] > -radius) & (local[..., 0] - radius < far) & (outside < radius)


def lens_of(camera: Camera, x: float, y: float, yaw: float) -> PinholeLens:
    """The camera on an ego whose centre is at (x, y) with `yaw` (map frame)."""
    c, s = math.cos(yaw), math.sin(yaw)
    axis = yaw - math.radians(camera.yaw)  # the camera's yaw is clockwise
    ca, sa = math.cos(axis), math.sin(axis)
    # Map frame: ahead of the ego is (c, s), to its right (s, -c). focal = W / (2 tan(fov / 2)), horizontal fov.
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
    """Clip a closed camera-frame polygon (N, 2) with heights (N,) at depth `near`; the result may be empty.

    A concave polygon gets extra edges along the near plane, which even-odd filling handles.
    """
    depth = local[:, 0]
    inside = depth >= near
    kept = int(np.count_nonzero(inside))
    if kept == len(local):
        return local, z
    if not kept:
        return local[:0], z[:0]
    points = np.empty((len(local) + 1, 3))  # closed: the last is the first
    points[:-1, :2], points[:-1, 2] = local, z
    points[-1] = points[0]
    step = points[1:] - points[:-1]
    crosses = inside != np.append(inside[1:], inside[0])
    both = np.empty((len(local), 2, 3))  # each point, then the crossing after it
    both[:, 0] = points[:-1]
    both[:, 1] = points[:-1] + ((near - depth) / np.where(crosses, step[:, 0], 1.0))[:, None] * step
    found = both[np.stack([inside, crosses], axis=1)]
    return found[:, :2], found[:, 2]
