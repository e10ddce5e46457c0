"""A route as a line to drive: arc length, lateral offset, curvature. numpy only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from closedloop_plugin.frames import wrap
from closedloop_plugin.state import Command


class Path:
    """A polyline in the map frame, resampled at `step` metres. s: metres from its start; d: metres to its LEFT."""

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
        self.curvature = np.gradient(self.yaw, self.s)  # 1/m, left > 0

    def pose(self, s: float, d: float = 0.0) -> tuple[float, float, float]:
        """(x, y, yaw) at s metres along and d metres to the left; beyond an end it goes straight on."""
        i = min(max(s, 0.0), self.length)
        x, y = (float(np.interp(i, self.s, self.xy[:, k])) for k in (0, 1))
        yaw = float(np.interp(i, self.s, self.yaw))
        over = s - i
        return x + over * math.cos(yaw) - d * math.sin(yaw), y + over * math.sin(yaw) + d * math.cos(yaw), wrap(yaw)

    def locate(self, x: float, y: float, near: float | None = None, reach: float = 30.0) -> tuple[float, float]:
        """(s, d) of the closest place; with `near`, only within `reach` metres along from there (loops, crossings).

        Before the start and beyond the end the line goes straight on, as in `pose`: s < 0 or s > length.
        """
        lo, hi = 0, len(self.s)
        if near is not None:
            lo = int(np.searchsorted(self.s, near - reach))
            hi = int(np.searchsorted(self.s, near + reach)) + 1
            lo, hi = min(lo, len(self.s) - 2), min(max(hi, lo + 2), len(self.s))
        a, b = self.xy[lo : hi - 1], self.xy[lo + 1 : hi]
        ab = b - a
        p = np.array([x, y])
        t = ((p - a) * ab).sum(1) / (ab * ab).sum(1)
        low, high = np.zeros(len(t)), np.ones(len(t))
        if lo == 0:
            low[0] = -np.inf
        if hi == len(self.s):
            high[-1] = np.inf
        t = np.clip(t, low, high)
        foot = a + t[:, None] * ab
        gap = ((p - foot) ** 2).sum(1)
        i = int(gap.argmin())
        s = float(self.s[lo + i] + t[i] * (self.s[lo + i + 1] - self.s[lo + i]))
        side = ab[i, 0] * (y - a[i, 1]) - ab[i, 1] * (x - a[i, 0])
        return s, math.copysign(math.sqrt(float(gap[i])), side)

    def bend(self, s: float, ahead: float) -> float:
        """Change of direction over the next `ahead` metres, radians, left > 0."""
        a, b = np.interp([s, min(s + ahead, self.length)], self.s, self.yaw)
        return float(b - a)


def commands(path: Path, junctions: Sequence[tuple[float, float]], changes: Sequence[tuple[float, float, int]] = ()):
    """A function s -> Command. `junctions`: (from, to) in m along; `changes`: (from, to, +1 left | -1 right).

    A command is given from 15 m before the place, as a navigator does.
    """
    turns = []
    for start, end in junctions:
        bend = path.bend(start, end - start)
        turn = Command.STRAIGHT if abs(bend) < math.radians(30) else Command.LEFT if bend > 0 else Command.RIGHT
        turns.append((start - 15.0, end, turn))
    turns += [(a - 15.0, b, Command.CHANGE_LEFT if side > 0 else Command.CHANGE_RIGHT) for a, b, side in changes]

    def at(s: float) -> Command:
        return next((what for a, b, what in turns if a <= s < b), Command.FOLLOW)

    return at
