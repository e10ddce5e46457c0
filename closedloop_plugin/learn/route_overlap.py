"""Comparison of routes by geometry: the same stretch of a town, or the same shape anywhere."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.routes import Route

SAME_M = 0.5  # m: farthest distance of two congruent routes, and difference of their lengths and distances
SAME_VALUE = 0.5  # difference of two equal numbers of the scenario (m/s, km/h, degrees, m)
PLACE_M = 2.0  # m from a known route within which a route of the same town drives on it
SHARED_M = 20.0  # m driven on it, from which on a route lies on the known one
SAMPLES = 64  # points of a route for the comparison of shapes


@dataclass(frozen=True)
class RouteOverlap:
    """A known route that another one repeats. kind: "id" | "place" | "shape"; metres: shared stretch or distance."""

    route: str  # SUITE:ID of the known route
    kind: str
    metres: float


@dataclass
class KnownRoutes:
    """Routes with all that a comparison needs, computed once."""

    routes: list[Route] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lengths = np.array([route.length for route in self.routes])
        self.towns = np.array([route.town for route in self.routes])
        self.shapes = [sampled(route) for route in self.routes]
        boxes = np.array([_box(route) for route in self.routes]).reshape(-1, 2, 2)
        self.low, self.high = boxes[:, 0], boxes[:, 1]

    def close_to(self, route: Route) -> list[Route]:
        """Those of the same town whose surrounding box is within PLACE_M of that of `route`."""
        low, high = _box(route)
        apart = np.maximum(self.low - high, low - self.high).max(axis=1)
        return [self.routes[i] for i in np.flatnonzero((self.towns == route.town) & (apart <= PLACE_M))]

    @classmethod
    def of(cls, routes: Iterable[Route] | KnownRoutes) -> KnownRoutes:
        return routes if isinstance(routes, cls) else cls(list(routes))  # type: ignore[arg-type]


def geometry_sha256(route: Route) -> str:
    """Hash of the points, rounded to 0.1 m: equal for a copied route, whatever its id, town or scenario."""
    text = ";".join(f"{x:.1f},{y:.1f}" for x, y in np.round(np.array(route.points), 1) + 0.0)
    return hashlib.sha256(text.encode()).hexdigest()


def nearest_overlap(route: Route, others: Iterable[Route] | KnownRoutes) -> RouteOverlap | None:
    """The known route that `route` repeats most closely, or None.

    A route repeats another one
    - with the same id in the same town ("id"),
    - if both are in the same town and more than SHARED_M metres of it lie within PLACE_M of the other one ("place"),
    - if a rotation and translation lays it on the other one within SAME_M along its whole length, and their lengths
      differ by SAME_M at most ("shape"). All straight roads of one length are congruent, so a straight route (within
      SAME_M of its chord) repeats another one only if the scenario is the same, too: its type, the distance of the
      trigger point from the start, and all parameters within SAME_VALUE, words equal.
    """
    known = KnownRoutes.of(others)
    same = next((k for k in known.routes if k.id == route.id and k.town == route.town), None)
    if same is not None:
        return RouteOverlap(_name(same), "id", 0.0)
    return _on_place(route, known) or _of_shape(route, known)


def _on_place(route: Route, known: KnownRoutes) -> RouteOverlap | None:
    mine, found = _dense(route), []
    for other in known.close_to(route):
        gap = np.hypot(*(mine[:, None] - _dense(other)[None]).transpose(2, 0, 1)).min(1)
        found.append((route.length * float((gap < PLACE_M).mean()), _name(other)))
    metres, name = max(found, default=(0.0, ""))
    return RouteOverlap(name, "place", round(metres, 1)) if metres > SHARED_M else None


def _of_shape(route: Route, known: KnownRoutes) -> RouteOverlap | None:
    mine, best = sampled(route), None
    for i in np.flatnonzero(np.abs(known.lengths - route.length) <= SAME_M):
        other = known.routes[i]
        gap = farthest(mine, known.shapes[i])
        if gap <= SAME_M and (not is_straight(mine) or same_scenario(route, other)):
            best = min(best or (gap, _name(other)), (gap, _name(other)))
    return RouteOverlap(best[1], "shape", round(best[0], 2)) if best else None


def sampled(route: Route, number: int = SAMPLES) -> np.ndarray:
    """Points at equal distances along a route's polyline, (number, 2)."""
    points = np.array(route.points)
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    at = np.linspace(0.0, s[-1], number)
    return np.column_stack([np.interp(at, s, points[:, i]) for i in (0, 1)])


def farthest(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of two rows of points (N, 2) after the rotation and translation of least squares, m."""
    # Kabsch in two dimensions: with centred complex points p, q the rotation is the phase of sum(conj(p) q).
    p, q = (complex_of(points - points.mean(axis=0)) for points in (a, b))
    turn = np.sum(np.conj(p) * q)
    phase = turn / abs(turn) if abs(turn) > 1e-9 else 1.0
    return float(np.abs(p * phase - q).max())


def complex_of(points: np.ndarray) -> np.ndarray:
    return points[:, 0] + 1j * points[:, 1]


def is_straight(points: np.ndarray) -> bool:
    """Whether all points lie within SAME_M of the chord."""
    x, y = points[0]
    dx, dy = points[-1] - points[0]
    away = (points[:, 0] - x) * dy - (points[:, 1] - y) * dx
    return bool(np.abs(away).max() <= SAME_M * math.hypot(dx, dy))


def same_scenario(a: Route, b: Route) -> bool:
    """Whether type, trigger point and parameters of two straight routes agree."""
    return (
        a.scenario == b.scenario
        and a.params.keys() == b.params.keys()
        and _near(_local(a, a.trigger), _local(b, b.trigger))
        and all(_near(_value(a, name), _value(b, name)) for name in a.params)
    )


def _value(route: Route, name: str) -> Any:
    value = route.params[name]
    return _local(route, value) if isinstance(value, tuple) and len(value) == 3 else value


def _local(route: Route, pose: tuple[float, float, float]) -> tuple[float, float]:
    """A place in the frame of a straight route."""
    (x, y), (x1, y1) = route.points[0], route.points[-1]
    return to_ego(pose[0], pose[1], x, y, math.atan2(y1 - y, x1 - x))


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    first, second = np.atleast_1d(a), np.atleast_1d(b)
    return first.shape == second.shape and bool(np.abs(first - second).max() <= SAME_VALUE)


def _dense(route: Route) -> np.ndarray:
    return sampled(route, max(2, math.ceil(route.length)))


def _box(route: Route) -> np.ndarray:
    """Lowest and highest coordinates, (2, 2)."""
    points = np.array(route.points)
    return np.array([points.min(axis=0), points.max(axis=0)])


def _name(route: Route) -> str:
    return f"{route.suite}:{route.id}" if route.suite else route.id
