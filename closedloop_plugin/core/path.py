"""RoutePath: a route as a polyline with arc length, lateral offset and curvature. numpy only."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.state import RouteCommand


class RoutePath:
    """A polyline in the map frame, resampled at `step` metres. s: metres from the start; d: metres to the LEFT."""

    def __init__(self, points: Sequence[Sequence[float]] | np.ndarray, step: float = 0.5) -> None:
        raw = np.asarray(points, dtype=float)[:, :2]
        if len(raw) < 2:
            raise ValueError("a path needs two points")
        keep = np.r_[True, np.hypot(*np.diff(raw, axis=0).T) > 1e-6]
        raw = raw[keep]
        along = np.r_[0.0, np.cumsum(np.hypot(*np.diff(raw, axis=0).T))]
        self.length = float(along[-1])
        self.s = np.linspace(0.0, self.length, max(2, math.ceil(self.length / step) + 1))
        self.x, self.y = (np.interp(self.s, along, raw[:, i]) for i in (0, 1))
        self.xy = np.column_stack([self.x, self.y])
        d = np.gradient(self.xy, self.s, axis=0)
        self.yaw = np.unwrap(np.arctan2(d[:, 1], d[:, 0]))
        self.curvature = np.gradient(self.yaw, self.s)  # kappa = d yaw / d s, 1/m, left > 0
        # For `pose`: plain numbers, since numpy takes ten times as long for a single one.
        self._stations = self.s.tolist()
        self._poses = list(zip(*(column.tolist() for column in (self.x, self.y, self.yaw)), strict=True))
        # For `locate`: start a, vector b and |b|^2 of each segment.
        self._ax, self._ay, self._bx, self._by = self.x[:-1], self.y[:-1], np.diff(self.x), np.diff(self.y)
        self._bb = self._bx * self._bx + self._by * self._by

    def pose(self, s: float, d: float = 0.0) -> tuple[float, float, float]:
        """(x, y, yaw) at arc length s and offset d to the left; beyond its ends the path is extended straight."""
        inside = min(max(s, 0.0), self.length)
        i = bisect_right(self._stations, inside) - 1
        start = self._stations[i]
        x, y, yaw = self._poses[i]
        if inside != start:  # with the arithmetic of numpy.interp
            step, past = self._stations[i + 1] - start, inside - start
            x1, y1, yaw1 = self._poses[i + 1]
            x, y, yaw = (x1 - x) / step * past + x, (y1 - y) / step * past + y, (yaw1 - yaw) / step * past + yaw
        over = s - inside
        return x + over * math.cos(yaw) - d * math.sin(yaw), y + over * math.sin(yaw) + d * math.cos(yaw), wrap(yaw)

    def locate(self, x: float, y: float, near: float | None = None, reach: float = 30.0) -> tuple[float, float]:
        """(s, d) of the closest point of the path.

        With `near`, only points within `reach` metres of arc length from it are considered (for paths that cross
        themselves). Beyond its ends the path is extended straight, as in `pose`: s < 0 or s > length.
        """
        lo, hi = self._window(near, reach)
        t, gap = self._feet(x, y, lo, hi)
        i = int(gap.argmin())
        return self._station(x, y, lo + i, float(t[i]), float(gap[i]))

    def locate_all(
        self, points: Sequence[tuple[float, float]], near: float | None = None, reach: float = 30.0
    ) -> list[tuple[float, float]]:
        """(s, d) of each point, as by `locate`; faster for several points."""
        if not points:
            return []
        lo, hi = self._window(near, reach)
        xy = np.array(points)
        t, gap = self._feet(xy[:, :1], xy[:, 1:], lo, hi)
        index = gap.argmin(1)
        row = np.arange(len(index))
        found = zip(points, index.tolist(), t[row, index].tolist(), gap[row, index].tolist(), strict=True)
        return [self._station(x, y, lo + i, t, gap) for (x, y), i, t, gap in found]

    def _window(self, near: float | None, reach: float) -> tuple[int, int]:
        """First and last + 1 of the segments within `reach` metres of `near`."""
        last = len(self._bb)
        if near is None:
            return 0, last
        lo = min(bisect_left(self._stations, near - reach), last - 1)
        return lo, min(max(bisect_left(self._stations, near + reach), lo + 1), last)

    def _feet(self, x: Any, y: Any, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        """Foot on each segment, as its share t of the segment, and squared distance to it, m2: (hi - lo,) for one
        point, (N, hi - lo) for N points with x and y of shape (N, 1)."""
        ax, ay, bx, by = self._ax[lo:hi], self._ay[lo:hi], self._bx[lo:hi], self._by[lo:hi]
        # Foot of the point p on a segment a + t b: t = (p - a).b / |b|^2, clipped to [0, 1] except at the two ends.
        along = ((x - ax) * bx + (y - ay) * by) / self._bb[lo:hi]
        t = np.minimum(np.maximum(along, 0.0), 1.0)
        if lo == 0:
            t[..., 0] = np.minimum(along[..., 0], t[..., 0])
        if hi == len(self._bb):
            t[..., -1] = np.maximum(along[..., -1], t[..., -1])
        gx, gy = x - (ax + t * bx), y - (ay + t * by)
        return t, gx * gx + gy * gy

    def _station(self, x: float, y: float, i: int, t: float, gap: float) -> tuple[float, float]:
        """(s, d) of a point with its foot at t on segment i, `gap` m2 away."""
        s = self._stations[i] + t * (self._stations[i + 1] - self._stations[i])
        ax, ay, _ = self._poses[i]
        side = float(self._bx[i]) * (y - ay) - float(self._by[i]) * (x - ax)  # b x (p - a): positive to the left
        return s, math.copysign(math.sqrt(gap), side)

    def bend(self, s: float, ahead: float) -> float:
        """Change of direction over the next `ahead` metres, radians, left > 0."""
        a, b = np.interp([s, min(s + ahead, self.length)], self.s, self.yaw)
        return float(b - a)


def commands(
    path: RoutePath, junctions: Sequence[tuple[float, float]], changes: Sequence[tuple[float, float, int]] = ()
) -> Callable[[float], RouteCommand]:
    """A function from arc length to RouteCommand.

    `junctions`: (from, to) in m; `changes`: (from, to, +1 left | -1 right). A command is given from 15 m before the
    place, as a navigation system does.
    """
    turns = []
    for start, end in junctions:
        bend = path.bend(start, end - start)
        turn = RouteCommand.LEFT if bend > 0 else RouteCommand.RIGHT
        turns.append((start - 15.0, end, RouteCommand.STRAIGHT if abs(bend) < math.radians(30) else turn))
    turns += [
        (a - 15.0, b, RouteCommand.CHANGE_LEFT if side > 0 else RouteCommand.CHANGE_RIGHT) for a, b, side in changes
    ]

    def at(s: float) -> RouteCommand:
        return next((command for a, b, command in turns if a <= s < b), RouteCommand.FOLLOW)

    return at
