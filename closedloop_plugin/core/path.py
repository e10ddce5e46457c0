"""RoutePath: a route as a polyline with arc length, lateral offset and curvature. numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
        self.xy = np.column_stack([np.interp(self.s, along, raw[:, i]) for i in (0, 1)])
        d = np.gradient(self.xy, self.s, axis=0)
        self.yaw = np.unwrap(np.arctan2(d[:, 1], d[:, 0]))
        self.curvature = np.gradient(self.yaw, self.s)  # kappa = d yaw / d s, 1/m, left > 0
        # For `locate`: start a, vector b and |b|^2 of each segment.
        (self._ax, self._ay), (self._bx, self._by) = self.xy[:-1].T.copy(), np.diff(self.xy, axis=0).T.copy()
        self._bb = self._bx * self._bx + self._by * self._by

    def pose(self, s: float, d: float = 0.0) -> tuple[float, float, float]:
        """(x, y, yaw) at arc length s and offset d to the left; beyond its ends the path is extended straight."""
        i = min(max(s, 0.0), self.length)
        x, y = (float(np.interp(i, self.s, self.xy[:, k])) for k in (0, 1))
        yaw = float(np.interp(i, self.s, self.yaw))
        over = s - i
        return x + over * math.cos(yaw) - d * math.sin(yaw), y + over * math.sin(yaw) + d * math.cos(yaw), wrap(yaw)

    def locate(self, x: float, y: float, near: float | None = None, reach: float = 30.0) -> tuple[float, float]:
        """(s, d) of the closest point of the path.

        With `near`, only points within `reach` metres of arc length from it are considered (for paths that cross
        themselves). Beyond its ends the path is extended straight, as in `pose`: s < 0 or s > length.
        """
        lo, hi = 0, len(self._bb)
        if near is not None:
            first, last = self.s.searchsorted((near - reach, near + reach))
            lo = min(int(first), hi - 1)
            hi = min(max(int(last), lo + 1), hi)
        ax, ay, bx, by = self._ax[lo:hi], self._ay[lo:hi], self._bx[lo:hi], self._by[lo:hi]
        # Foot of the point p on a segment a + t b: t = (p - a).b / |b|^2, clipped to [0, 1] except at the two ends.
        along = ((x - ax) * bx + (y - ay) * by) / self._bb[lo:hi]
        t = np.minimum(np.maximum(along, 0.0), 1.0)
        if lo == 0 and along[0] < 0.0:
            t[0] = along[0]
        if hi == len(self._bb) and along[-1] > 1.0:
            t[-1] = along[-1]
        gx, gy = x - (ax + t * bx), y - (ay + t * by)
        gap = gx * gx + gy * gy
        i = int(gap.argmin())
        s = float(self.s[lo + i] + t[i] * (self.s[lo + i + 1] - self.s[lo + i]))
        side = bx[i] * (y - ay[i]) - by[i] * (x - ax[i])  # b x (p - a): positive to the left
        return s, math.copysign(math.sqrt(float(gap[i])), side)

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
        turn = (
            RouteCommand.STRAIGHT
            if abs(bend) < math.radians(30)
            else RouteCommand.LEFT
            if bend > 0
            else RouteCommand.RIGHT
        )
        turns.append((start - 15.0, end, turn))
    turns += [
        (a - 15.0, b, RouteCommand.CHANGE_LEFT if side > 0 else RouteCommand.CHANGE_RIGHT) for a, b, side in changes
    ]

    def at(s: float) -> RouteCommand:
        return next((command for a, b, command in turns if a <= s < b), RouteCommand.FOLLOW)

    return at
