"""A pinhole camera on the ego car (world metres to pixels), and geometry of solids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 960, 540  # pixels of a finished picture
FOCAL = 720.0  # pixels: a horizontal field of view of 67 degrees
HORIZON = 236.0  # the row at which the flat ground vanishes
EYE = 1.5  # metres above the ground
NEAR = 0.7  # metres: near plane, nearer points are clipped

Point3 = tuple[float, float, float]
Point2 = tuple[float, float]

# Yaw of the six cameras in degrees, clockwise from above, in the order of nuScenes releases.
SIX_VIEWS: dict[str, float] = {
    "CAM_FRONT": 0.0, "CAM_FRONT_LEFT": -55.0, "CAM_FRONT_RIGHT": 55.0,
    "CAM_BACK": 180.0, "CAM_BACK_LEFT": -115.0, "CAM_BACK_RIGHT": 115.0,
}  # fmt: skip


@dataclass(frozen=True)
class Camera:
    """A camera at the ego car's origin, EYE above the ground, turned by `yaw` degrees."""

    yaw: float = 0.0

    def turn(self, p: Point3) -> Point3:
        """World to camera frame: x right, y up, z along the view."""
        a = math.radians(self.yaw)
        c, s = math.cos(a), math.sin(a)
        return (p[0] * c - p[2] * s, p[1] - EYE, p[0] * s + p[2] * c)

    def depth(self, x: float, z: float) -> float:
        return self.turn((x, 0.0, z))[2]

    def polygon(self, points: Sequence[Point3]) -> list[Point2]:
        """Pixels of a polygon, clipped at the near plane; empty if all of it is behind."""
        clipped = _clip([self.turn(p) for p in points])
        # Pinhole: u = c_u + f x / z, v = c_v - f y / z (image v down, camera y up).
        return [(WIDTH / 2 + FOCAL * x / z, HORIZON - FOCAL * y / z) for x, y, z in clipped]

    def pixel(self, p: Point3) -> Point2 | None:
        """Pixel of a point, None behind the near plane."""
        x, y, z = self.turn(p)
        return None if z < NEAR else (WIDTH / 2 + FOCAL * x / z, HORIZON - FOCAL * y / z)


def _clip(points: list[Point3]) -> list[Point3]:
    """Sutherland-Hodgman clipping at z = NEAR."""
    if all(p[2] >= NEAR for p in points):
        return points
    kept: list[Point3] = []
    for a, b in zip(points, points[1:] + points[:1], strict=True):
        if a[2] >= NEAR:
            kept.append(a)
        if (a[2] >= NEAR) != (b[2] >= NEAR):
            t = (NEAR - a[2]) / (b[2] - a[2])
            kept.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), NEAR))
    return kept


@dataclass(frozen=True)
class Placed:
    """A local frame on the road: along (forwards), across (to its right), up; origin at its centre."""

    x: float
    z: float
    heading: float = 0.0

    def at(self, along: float, across: float, up: float) -> Point3:
        a = math.radians(self.heading)
        c, s = math.cos(a), math.sin(a)
        return (self.x + along * s + across * c, up, self.z + along * c - across * s)


def inside(quad: Sequence[Point3], u0: float, u1: float, v0: float, v1: float) -> list[Point3]:
    """The part of a quad (left-bottom, right-bottom, right-top, left-top) between fractions u (across) and v (up)."""

    def mix(u: float, v: float) -> Point3:
        low = [p + (q - p) * u for p, q in zip(quad[0], quad[1], strict=True)]
        high = [p + (q - p) * u for p, q in zip(quad[3], quad[2], strict=True)]
        x, y, z = (p + (q - p) * v for p, q in zip(low, high, strict=True))
        return (x, y, z)

    return [mix(u0, v0), mix(u1, v0), mix(u1, v1), mix(u0, v1)]


def normal(points: Sequence[Point3]) -> Point3:
    """Unit normal by the right-hand rule; (0, 1, 0) for a degenerate polygon."""
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = points[0], points[1], points[2]
    u, v = (bx - ax, by - ay, bz - az), (cx - ax, cy - ay, cz - az)
    n = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    size = math.sqrt(sum(k * k for k in n))
    return (n[0] / size, n[1] / size, n[2] / size) if size else (0.0, 1.0, 0.0)


def centre(points: Sequence[Point3]) -> Point3:
    n = len(points)
    return (sum(p[0] for p in points) / n, sum(p[1] for p in points) / n, sum(p[2] for p in points) / n)
