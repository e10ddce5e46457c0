"""Whether routes to be driven are among those that a model was trained on, by geometry and by id.

same_geometry   the same place (`common_share`): more than half of the shorter route lies within 1 m of the other, in
                the same direction. A route that is part of a longer one is therefore the same, the opposite direction
                of a street or a neighbouring lane (3.5 m away) is not, and two routes that only cross or share a piece
                are not.
same_shape      the same shape and scenario elsewhere, on maps that are built from the route: the routes are laid over
                each other at the places of their scenarios, and more than 90 % of the shorter one lies within 1 m of
                the other. If the scenario has the same type and parameters too, the world that is built is the same,
                wherever it is and however it is turned.
same_id         the same id, without regard to case, in a route file of the same name or the same town (or not known)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from closedloop_plugin.core.routes import Pose, Route
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingCard, TrainingSet, cards_of, trained_text

SAME_ID, SAME_GEOMETRY, SAME_SHAPE = KINDS = ("same_id", "same_geometry", "same_shape")
TOWN = "town"  # of TrainedRoute.map: the town's own map
EXAMPLES = 3
NamedRoute = tuple[str, TrainedRoute]  # name of its training set
WITHIN = 1.0  # m
SHARE = 0.5  # of the shorter route: above it two routes in one place are the same
SHAPE_SHARE = 0.9  # likewise for two places: two straight approaches to different turns are no congruent routes
STEP = 1.0  # m between the compared points
SAME_DIRECTION = math.cos(math.radians(45.0))
WINDOW = 5.0  # m before and after the trigger, over which the path's heading there is taken
TOLERANCE = 1e-3  # of numbers among the parameters, relative
MOST_PAIRS = 1 << 20  # of a point and a segment that are compared at once: about 60 MB


@dataclass(frozen=True)
class RouteLeak:
    """A route that a model was trained on. `trained`: its id in the training set `set`; `share`: of its length."""

    route: str
    kind: str
    set: str
    trained: str
    share: float = 1.0

    def text(self) -> str:
        share = "" if self.kind == SAME_ID else f", {100 * self.share:.0f} % of the shorter one"
        return one_line(f"{self.kind}: {self.route} is in {self.set} as {self.trained}{share}")


class TrainedRoutes:
    """Index of the routes of training sets."""

    def __init__(self, sets: Iterable[TrainingSet]) -> None:
        self._by_id: dict[str, list[NamedRoute]] = defaultdict(list)
        self._by_town: dict[str, list[tuple[RoutePolyline, NamedRoute]]] = defaultdict(list)
        self._by_scenario: dict[str, list[NamedRoute]] = defaultdict(list)
        for named in ((one.name, route) for one in sets for route in one.routes):
            route = named[1]
            self._by_id[route.id.casefold()].append(named)
            if (shape := RoutePolyline.of(route.points)) is not None:
                self._by_town[town_name(route.town)].append((shape, named))
                self._by_scenario[route.scenario].append(named)

    def leak(self, route: TrainedRoute) -> RouteLeak | None:
        """The trained route that is the same as `route`, by place, else by shape, else by id; None if there is none."""
        shape = RoutePolyline.of(route.points)
        if shape is not None:
            shares = ((common_share(shape, other), named) for other, named in self._in_town(route.town))
            if found := _best(route, SAME_GEOMETRY, SHARE, shares):
                return found
            if route.map != TOWN and route.scenario:
                alike = (named for named in self._by_scenario.get(route.scenario, ()) if named[1].map != TOWN)
                shares = ((same_shape(route, named[1]), named) for named in alike)
                if found := _best(route, SAME_SHAPE, SHAPE_SHARE, shares):
                    return found
        for name, other in self._by_id.get(route.id.casefold(), ()):
            if _same_list(route, other):
                return RouteLeak(route.id, SAME_ID, name, other.id)
        return None

    def _in_town(self, town: str) -> Iterator[tuple[RoutePolyline, NamedRoute]]:
        """The routes of this town and of unknown ones; all, if this one is unknown."""
        name = town_name(town)
        for other, routes in self._by_town.items():
            if not name or other in (name, ""):
                yield from routes


def _best(
    route: TrainedRoute, kind: str, least: float, shares: Iterable[tuple[float, NamedRoute]]
) -> RouteLeak | None:  # fmt: skip
    """The leak with the largest share above `least`."""
    share, (name, other) = max(shares, key=lambda pair: pair[0], default=(0.0, ("", route)))
    return RouteLeak(route.id, kind, name, other.id, round(share, 3)) if share > least else None


def town_name(town: str) -> str:
    """A town's name for comparisons: CARLA's Town01_Opt has the roads of Town01."""
    return town.casefold().removesuffix("_opt")


def _same_list(a: TrainedRoute, b: TrainedRoute) -> bool:
    """Whether equal ids mean the same route: an id is unique only within its file."""
    return any(not x or not y or x == y for x, y in ((a.suite, b.suite), (town_name(a.town), town_name(b.town))))


@dataclass(frozen=True)
class RouteContamination:
    """The result of a comparison of n routes. `leaks`: of those that were trained on, in their order; `cards`: of the
    models. Routes of several files may have equal ids."""

    n: int
    leaks: Sequence[RouteLeak]
    cards: tuple[TrainingCard, ...] = ()

    @property
    def kinds(self) -> Counter[str]:
        return Counter(leak.kind for leak in self.leaks)

    def text(self) -> str:
        return trained_text(self.kinds, self.n, "routes")

    def examples(self) -> list[str]:
        """The first leaks of each kind, one line each."""
        shown: Counter[str] = Counter()
        found = []
        for leak in self.leaks:
            shown[leak.kind] += 1
            found += [leak.text()] if shown[leak.kind] <= EXAMPLES else []
        return sorted(found)

    def line(self) -> str:
        """Counts and the first examples in one line."""
        named = "; ".join(self.examples()[:EXAMPLES])
        return self.text() + (f", e.g. {named}" if named else "")

    def of(self, ids: Sequence[str]) -> RouteContamination:
        """The part that concerns these routes, all of one file."""
        part = set(ids)
        return RouteContamination(len(ids), tuple(leak for leak in self.leaks if leak.route in part), self.cards)

    def to_dict(self) -> dict[str, Any]:
        """For run.json; the routes of one file."""
        routes = {leak.route: {"kind": leak.kind, "set": leak.set, "trained": leak.trained} for leak in self.leaks}
        return {"named": True, "cards": [card.about() for card in self.cards], "routes": routes}


def of_models(
    model_args: Iterable[str], routes: Iterable[Route], *, asked: Sequence[str], maps: Callable[[Route], str],
    strict: bool = False,
) -> RouteContamination | None:  # fmt: skip
    """Compare routes with what the models of these arguments name in ad2_training.json; None if none names anything.

    asked: ids of the routes that are to be driven, of all those compared; maps: "corridor" or "town", for each route.
    Raises DataError for a malformed card and, if `strict`, Ad2Error for a leak among the asked routes.
    """
    cards = [card for args in model_args for card in cards_of(args)]
    if not cards:
        return None
    found = contamination(cards, (trained_route(route, maps(route)) for route in routes))
    part = found.of(asked)
    if strict and part.leaks:
        raise Ad2Error(f"--config strict_contamination=true: {part.line()}; nothing was driven")
    return found


def contamination(cards: Sequence[TrainingCard], routes: Iterable[TrainedRoute]) -> RouteContamination:
    """Compare routes with the training sets of models."""
    index = TrainedRoutes(one for card in cards for one in card.sets)
    wanted = list(routes)
    leaks = tuple(leak for route in wanted if (leak := index.leak(route)) is not None)
    return RouteContamination(len(wanted), leaks, tuple(cards))


def trained_route(route: Route, map_source: str = "") -> TrainedRoute:
    """A route as in a training set. map_source: "corridor", "town", or "" if unknown."""
    points = tuple((x, y) for x, y in rounded(route.points))
    return TrainedRoute(
        id=route.id,
        suite=route.suite,
        town=route.town,
        map=map_source,
        scenario=route.scenario,
        trigger=tuple(round(value, 4) for value in route.trigger),  # type: ignore[arg-type]
        params=dict(route.params),
        sha256=geometry_sha256(points),
        points=points,
    )


def geometry_sha256(points: Iterable[Sequence[float]]) -> str:
    """Hash of a route's points, rounded to 0.1 m."""
    return hashlib.sha256(json.dumps(rounded(points)).encode()).hexdigest()


def rounded(points: Iterable[Sequence[float]]) -> list[list[float]]:
    """(x, y) of each point, rounded to 0.1 m; -0.0 as 0.0."""
    return [[round(x, 1) + 0.0, round(y, 1) + 0.0] for x, y in (p[:2] for p in points)]


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
    if not a.scenario or a.scenario != b.scenario or a.params.keys() != b.params.keys():
        return 0.0
    path, other_path = RoutePolyline.of(a.points), RoutePolyline.of(b.points)
    if path is None or other_path is None or a.trigger is None or b.trigger is None:
        return 0.0
    best = 0.0
    # The heading of the trigger may be written less exactly than the path, whose own heading is the second attempt.
    near = path.pose_near(*a.trigger[:2]), other_path.pose_near(*b.trigger[:2])
    for one, other in ((a.trigger, b.trigger), near):
        if all(_same_value(a.params[key], b.params[key], one, other) for key in a.params):
            best = max(best, common_share(path.in_frame(one), other_path.in_frame(other)))
    return best


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
