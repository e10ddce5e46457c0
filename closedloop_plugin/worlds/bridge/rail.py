"""Rail: exact motion along a path at a given speed, for actors of a scenario. Does not need Scenic.

A program gives an actor `with rail Rail(...)`, or sets `self.rail` in a behaviour; the world moves the actor along it
at every tick and ignores its pedals. Changes of `speed`, `d` or `path` take effect at the next tick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.scenarios.known_words import finite

_TRACKS: WeakKeyDictionary[RoutePath, PathInterpolator] = WeakKeyDictionary()


class PathInterpolator:
    """Scalar version of RoutePath.pose and, near a known s, RoutePath.locate: faster for single points."""

    def __init__(self, path: RoutePath) -> None:
        self.length = path.length
        self._step = path.length / (len(path.s) - 1)
        self._rows = list(zip(*(column.tolist() for column in (path.xy[:, 0], path.xy[:, 1], path.yaw)), strict=True))

    @classmethod
    def of(cls, path: RoutePath) -> PathInterpolator:
        """The interpolator of a path, cached for the path's lifetime."""
        if path not in _TRACKS:
            _TRACKS[path] = cls(path)
        return _TRACKS[path]

    def pose(self, s: float, d: float = 0.0) -> tuple[float, float, float]:
        """(x, y, yaw) at s m along and d m to the left; extrapolated straight beyond the ends."""
        inside = min(max(s, 0.0), self.length)
        at = inside / self._step
        i = min(int(at), len(self._rows) - 2)
        t = at - i
        (x0, y0, a0), (x1, y1, a1) = self._rows[i], self._rows[i + 1]
        yaw = a0 + t * (a1 - a0)
        c, n, over = math.cos(yaw), math.sin(yaw), s - inside
        return x0 + t * (x1 - x0) + over * c - d * n, y0 + t * (y1 - y0) + over * n + d * c, wrap(yaw)

    def foot(self, x: float, y: float, s: float) -> tuple[float, float]:
        """(s, d) of a point, by projecting onto the tangent repeatedly from s.

        Exact on a straight; converges where the radius of the bend is larger than the offset.
        """
        for _ in range(4):
            px, py, yaw = self.pose(s)
            c, n = math.cos(yaw), math.sin(yaw)
            along, d = (x - px) * c + (y - py) * n, (y - py) * c - (x - px) * n
            s += along
            if abs(along) < 0.05:
                break
        return s, d


@dataclass(slots=True)
class Rail:
    """A position on a path and the motion along it. Metres, m/s, m/s2.

    path: the line. s, d: metres along it and to its LEFT. direction: +1 with the path, -1 against it (the actor then
    faces against the path; `d` stays to the path's left). speed: target speed, reached with `accel` or `brake`. now:
    current speed. d_wanted: target offset, reached with at most `sideways` m/s. gap: distance kept at a standstill to
    any body ahead on the line, the ego included (None: bodies are ignored). lights: stop for red and yellow signals on
    the line. stop_s: stop there, whatever `speed` is.
    """

    path: RoutePath
    s: float
    d: float = 0.0
    speed: float = 0.0
    direction: int = 1
    accel: float = 2.5
    brake: float = 6.0
    gap: float | None = None
    lights: bool = False
    stop_s: float | None = None
    d_wanted: float | None = None
    sideways: float = 1.2
    now: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, RoutePath):
            raise TypeError(f"path of a rail: expected a Path, found {self.path!r}")
        for name in ("s", "d", "speed", "accel", "brake", "sideways"):
            value = finite(f"{name} of a rail", getattr(self, name))
            if value < 0 and name not in ("s", "d"):
                raise ValueError(f"{name} of a rail: expected a number of 0 or more, found {value:g}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("speed", "d_wanted", "stop_s") and value is not None:  # those that behaviours change
            finite(f"{name} of a rail", value)
        object.__setattr__(self, name, value)

    def advance(self, dt: float, allowed: float = math.inf) -> None:
        """One step of dt s. `allowed`: highest acceleration that traffic ahead permits, m/s2."""
        speed = self.speed if self.now is None else self.now
        change = min(max(self.speed - speed, -self.brake * dt), self.accel * dt)
        if self.stop_s is not None:
            left = (self.stop_s - self.s) * self.direction
            allowed = min(allowed, _stopping_acceleration(left, speed, self.brake, dt))
        speed = max(0.0, speed + min(change, allowed * dt))
        self.s += self.direction * speed * dt
        if self.d_wanted is not None:
            step = min(self.sideways, 0.3 * speed + 0.05) * dt
            self.d += min(max(self.d_wanted - self.d, -step), step)
        self.now = speed

    def pose(self) -> tuple[float, float, float]:
        """(x, y, yaw) in the map frame."""
        x, y, yaw = PathInterpolator.of(self.path).pose(self.s, self.d)
        return (x, y, yaw) if self.direction > 0 else (x, y, wrap(yaw + math.pi))


def _stopping_acceleration(left: float, speed: float, brake: float, dt: float) -> float:
    """Acceleration that stops within `left` metres; inf while 40 % of `brake` is enough and it is 3 m or more away."""
    if left <= 0.05:
        return -brake
    needed = speed * speed / (2 * left)  # v^2 / (2 s)
    # Over the last metres v is proportional to the distance: no overshoot.
    ease = (left / 1.5 - speed) / max(dt, 1e-3) if left < 3.0 else math.inf
    return min(ease, -needed) if needed > 0.4 * brake or left < 3.0 else math.inf
