"""Whether two routes are the same road, by geometry: the same place, or the same shape with the same scenario.

Same place (`common_share`): more than half of the shorter route lies within 1 m of the other, in the same direction.
A route that is part of a longer one is therefore the same, the opposite direction of a street or a neighbouring lane
(3.5 m away) is not, and two routes that only cross or share a piece are not.

Same shape (`same_shape`), for maps that are built from the route: the routes are laid over each other at the places of
their scenarios, and more than 90 % of the shorter one lies within 1 m of the other. If the scenario has the same type
and parameters too, the world that is built is the same, wherever it is and however it is turned.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from closedloop_plugin.core.routes import Pose
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage.training_card import TrainedRoute

WITHIN = 1.0  # m
SHARE = 0.5  # of the shorter route: above it two routes in one place are the same
SHAPE_SHARE = 0.9  # likewise for two places: two straight approaches to different turns are no congruent routes
STEP = 1.0  # m between the compared points
SAME_DIRECTION = math.cos(math.radians(45.0))
WINDOW = 5.0  # m before and after the trigger, over which the path's heading there is taken
TOLERANCE = 1e-3  # of numbers among the parameters, relative
MOST_PAIRS = 1 << 20  # of a point and a segment that are compared at once: about 60 MB


@dataclass(frozen=True, eq=False)
class RoutePolyline:
    """A polyline of at least two points in the map frame, m."""

    points: np.ndarray  # (N, 2)

    @classmethod
    def of(cls, points: Sequence[Sequence[float]]) -> RoutePolyline | None:
        """The shape without repeated points; None if fewer than two are left."""
        xy = np.asarray(points, dtype=float).reshape(-1, 2)
        keep = np.r_[True, np.hypot(*np.diff(xy, axis=0).T) > 1e-6] if len(xy) else np.zeros(0, dtype=bool)
        return cls(xy[keep]) if keep.sum() > 1 else None

    @cached_property
    def stations(self) -> np.ndarray:
        """Arc length of each point, (N,), m."""
        return np.r_[0.0, np.cumsum(np.hypot(*np.diff(self.points, axis=0).T))]

    @property
    def length(self) -> float:
        return float(self.stations[-1])

    @cached_property
    def box(self) -> tuple[float, float, float, float]:
        """x and y, smallest and largest."""
        (x0, y0), (x1, y1) = self.points.min(axis=0), self.points.max(axis=0)
        return float(x0), float(y0), float(x1), float(y1)

    @cached_property
    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Points every STEP metres in the middle of their steps, (M, 2), and the directions there as unit vectors."""
        n = max(2, math.ceil(self.length / STEP))
        s = (np.arange(n) + 0.5) * (self.length / n)
        segment = np.clip(np.searchsorted(self.stations, s, side="right") - 1, 0, len(self.points) - 2)
        xy = np.column_stack([np.interp(s, self.stations, self.points[:, i]) for i in (0, 1)])
        return xy, self.directions[segment]

    @cached_property
    def directions(self) -> np.ndarray:
        """Unit vector of each segment, (N - 1, 2)."""
        vectors = np.diff(self.points, axis=0)
        return vectors / np.hypot(*vectors.T)[:, None]

    def in_frame(self, pose: Pose) -> RoutePolyline:
        """The shape in the frame of a pose: x forward, y to the left."""
        return RoutePolyline(_in_frame(self.points, pose))

    def pose_near(self, x: float, y: float) -> Pose:
        """(x, y) with the heading of the polyline at its closest point."""
        a, vectors = self.points[:-1], np.diff(self.points, axis=0)
        t = np.clip(((np.array([x, y]) - a) * vectors).sum(1) / (vectors * vectors).sum(1), 0.0, 1.0)
        i = int(np.hypot(*(np.array([x, y]) - a - t[:, None] * vectors).T).argmin())
        s = self.stations[i] + t[i] * (self.stations[i + 1] - self.stations[i])
        ends = np.clip([s - WINDOW, s + WINDOW], 0.0, self.length)
        dx, dy = (np.diff(np.interp(ends, self.stations, self.points[:, k]))[0] for k in (0, 1))
        return x, y, math.atan2(dy, dx)


def common_share(a: RoutePolyline, b: RoutePolyline) -> float:
    """Share of the shorter route's length, 0..1, that lies within WITHIN of the other, in the same direction."""
    ax0, ay0, ax1, ay1 = a.box
    bx0, by0, bx1, by1 = b.box
    if ax0 > bx1 + WITHIN or bx0 > ax1 + WITHIN or ay0 > by1 + WITHIN or by0 > ay1 + WITHIN:
        return 0.0
    short, long = (a, b) if a.length <= b.length else (b, a)
    xy, direction = short.samples
    step = max(1, MOST_PAIRS // len(long.directions))
    parts = [_near(xy[i : i + step], direction[i : i + step], long) for i in range(0, len(xy), step)]
    return float(np.concatenate(parts).mean())


def _near(xy: np.ndarray, direction: np.ndarray, line: RoutePolyline) -> np.ndarray:
    """Whether each point (M, 2) lies within WITHIN of a polyline that has its direction (M, 2) there: (M,)."""
    start, vectors = line.points[:-1], np.diff(line.points, axis=0)
    # Foot of each sample p on each segment a + t v: t = (p - a).v / |v|^2, clipped to [0, 1]. Shapes (M, N).
    ahead = xy @ vectors.T - (start * vectors).sum(1)
    t = np.clip(ahead / (vectors * vectors).sum(1), 0.0, 1.0)
    gap = np.hypot(xy[:, :1] - start[:, 0] - t * vectors[:, 0], xy[:, 1:] - start[:, 1] - t * vectors[:, 1])
    near = (gap <= WITHIN) & (direction @ line.directions.T >= SAME_DIRECTION)
    return np.asarray(near.any(axis=1))


def same_shape(a: TrainedRoute, b: TrainedRoute) -> float:
    """Share as of `common_share` with the scenarios laid over each other; 0 if these differ in type or parameters."""
    if a.trigger is None or b.trigger is None or not a.scenario or a.scenario != b.scenario:
        return 0.0
    if not _same_keys(a, b):
        return 0.0
    shapes = RoutePolyline.of(a.points), RoutePolyline.of(b.points)
    if shapes[0] is None or shapes[1] is None:
        return 0.0
    best = 0.0
    # The heading of the trigger may be written less exactly than the path, whose own heading is the second attempt.
    near = (shapes[0].pose_near(*a.trigger[:2]), shapes[1].pose_near(*b.trigger[:2]))
    for one, other in ((a.trigger, b.trigger), near):
        if all(_same_value(a.params[key], b.params[key], one, other) for key in a.params):
            best = max(best, common_share(shapes[0].in_frame(one), shapes[1].in_frame(other)))
    return best


def geometry_sha256(points: Iterable[Sequence[float]]) -> str:
    """Hash of a route's points, rounded to 0.1 m."""
    return hashlib.sha256(json.dumps(rounded(points)).encode()).hexdigest()


def rounded(points: Iterable[Sequence[float]]) -> list[list[float]]:
    """(x, y) of each point, rounded to 0.1 m; -0.0 as 0.0."""
    return [[round(x, 1) + 0.0, round(y, 1) + 0.0] for x, y in (p[:2] for p in points)]


def _same_keys(a: TrainedRoute, b: TrainedRoute) -> bool:
    """Whether parameters have the same names, and those that are no poses the same values."""
    return a.params.keys() == b.params.keys() and all(
        _is_pose(value) or _same_value(value, b.params[key], (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        for key, value in a.params.items()
    )


def _same_value(a: Any, b: Any, frame_a: Pose, frame_b: Pose) -> bool:
    if _is_pose(a) and _is_pose(b):
        one, other = (_in_frame(np.array([pose[:2]]), frame)[0] for pose, frame in ((a, frame_a), (b, frame_b)))
        return math.dist(one, other) <= WITHIN
    if is_number(a) and is_number(b):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list) and len(a) == len(b):
        return all(_same_value(x, y, frame_a, frame_b) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _is_pose(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 3


def _in_frame(xy: np.ndarray, pose: Pose) -> np.ndarray:
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    return (xy - (x, y)) @ np.array([[cos, -sin], [sin, cos]])
