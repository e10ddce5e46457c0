"""trace: the lanes of a town along a route, by the cheapest path through the lane graph."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.spatial import cKDTree

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.builders.chains import RouteKeypoint, directions, is_sparse
from closedloop_plugin.maps.towns.lanes import Key, LaneNetwork, TownLane
from lmms_eval_ad2.core.errors import Ad2Error

NEAR = 2.5  # m from the centre of a lane at most
ASKEW = math.radians(70)  # angle between route and lane at most
CHANGE_COST = 6.0  # cost of a lane change, as m of detour


@dataclass(frozen=True)
class LanePosition:
    """A place on a lane: metres along it, and the distance of the route's point from its centre."""

    lane: Key
    s: float
    off: float


@dataclass(frozen=True)
class RouteLeg:
    """From one route point to the next: length in m, lanes, and +1 (left) or -1 (right) for a lane change."""

    length: float
    lanes: tuple[Key, ...]
    change: int = 0
    extra: float = 0.0  # cost of its lane changes beyond the length, m


Leg = TypeVar("Leg", bound=RouteLeg)
Options = list[list[LanePosition]]  # for each route point, the lanes on which it may lie


def trace(route: Route, town: LaneNetwork, file: object) -> tuple[list[LanePosition], list[RouteLeg]]:
    """One LanePosition per route point and one RouteLeg between consecutive ones. Raises Ad2Error."""
    p = np.array(route.points)
    # Between keypoints even the shorter step may run around a corner.
    sparse = is_sparse(route)
    yaws = (
        directions([RouteKeypoint(*place) for place in route.points])
        if sparse
        else [yaw_of_route(p, k) for k in range(len(p))]
    )
    options = candidates(route, town, file, yaws)

    def legs(k: int, chord: float, starts: Iterable[int]) -> Iterator[tuple[int, int, RouteLeg]]:
        for i in starts:
            reach = _reach(town, options[k - 1][i], 1.6 * chord + 15.0)
            for j, spot in enumerate(options[k]):
                leg = _leg(town, options[k - 1][i], spot, reach)
                if leg is not None:
                    yield i, j, leg

    return cheapest(route, options, legs, file)


def cheapest(
    route: Route,
    options: Options,
    legs: Callable[[int, float, Iterable[int]], Iterable[tuple[int, int, Leg]]],
    file: object,
) -> tuple[list[LanePosition], list[Leg]]:
    """Viterbi search over the candidate lanes of each point, with cost: sum of off^2 (m^2) + |leg - chord| / 2 (m) +
    the legs' `extra`.

    `legs(k, chord, starts)`: (i, j, leg) from the candidates `starts` of point k - 1 to those of point k, which is
    `chord` metres away. Raises Ad2Error if there is none.
    """
    p = np.array(route.points)
    best: list[dict[int, tuple[float, int, Leg | None]]] = [{i: (o.off**2, -1, None) for i, o in enumerate(options[0])}]
    for k in range(1, len(p)):
        chord = float(np.hypot(*(p[k] - p[k - 1])))
        here: dict[int, tuple[float, int, Leg | None]] = {}
        for i, j, leg in legs(k, chord, best[-1]):
            cost = best[-1][i][0] + options[k][j].off ** 2 + 0.5 * abs(leg.length - chord) + leg.extra
            if j not in here or cost < here[j][0]:
                here[j] = (cost, i, leg)
        if not here:
            x, y = p[k]
            raise Ad2Error(f"{file}: route {route.id}: no lane leads on to its point {k} ({x:.1f}, {y:.1f})")
        best.append(here)
    i = min(best[-1], key=lambda j: best[-1][j][0])
    spots: list[LanePosition] = []
    chosen: list[Leg] = []
    for k in range(len(best) - 1, -1, -1):
        spots.append(options[k][i])
        _, i, last = best[k][i]
        if last is not None:
            chosen.append(last)
    return spots[::-1], chosen[::-1]


def candidates(route: Route, town: LaneNetwork, file: object, yaws: Sequence[float | None]) -> Options:
    """Lanes within NEAR metres of each route point, within ASKEW of its direction unless that is None."""
    lanes = town.drivable()
    where = np.concatenate([np.full(len(lane.centre), i) for i, lane in enumerate(lanes)])
    tree = cKDTree(np.vstack([lane.centre for lane in lanes]))
    out = []
    for k, (point, yaw) in enumerate(zip(np.array(route.points), yaws, strict=True)):
        spots = []
        for i in sorted(set(where[tree.query_ball_point(point, NEAR + 0.5)].tolist())):
            s, off, heading = foot(lanes[i], point)
            if off <= NEAR and (yaw is None or abs(wrap(heading - yaw)) < ASKEW):
                spots.append(LanePosition(lanes[i].key, s, off))
        if not spots:
            raise Ad2Error(
                f"{file}: route {route.id}: its point {k} ({point[0]:.1f}, {point[1]:.1f}) lies on no lane; "
                f"the route is of {route.town}: use the map of that town"
            )
        out.append(spots)
    return out


def yaw_of_route(p: np.ndarray, k: int) -> float:
    """Direction of the route at a point: of its shorter step, since the longer may be a gap around a corner."""
    steps = [p[i + 1] - p[i] for i in (k - 1, k) if 0 <= i < len(p) - 1]
    step = min(steps, key=lambda v: float(np.hypot(*v)))
    return math.atan2(step[1], step[0])


def foot(lane: TownLane, point: np.ndarray) -> tuple[float, float, float]:
    """(s, distance, yaw) of the nearest point on the lane's centre."""
    a, ab = lane.centre[:-1], np.diff(lane.centre, axis=0)
    t = np.clip(((point - a) * ab).sum(1) / np.maximum((ab * ab).sum(1), 1e-12), 0, 1)
    gap = np.hypot(*(a + t[:, None] * ab - point).T)
    i = int(gap.argmin())
    return float(lane.s[i] + t[i] * (lane.s[i + 1] - lane.s[i])), float(gap[i]), math.atan2(ab[i, 1], ab[i, 0])


def _reach(town: LaneNetwork, spot: LanePosition, limit: float) -> dict[Key, tuple[float, tuple[Key, ...]]]:
    """Lanes that begin within `limit` metres ahead -> (metres to their start, lanes up to it inclusive); Dijkstra."""
    first = town.lanes[spot.lane]
    queue: list[tuple[float, Key, tuple[Key, ...]]] = [(first.length - spot.s, k, (spot.lane, k)) for k in first.after]
    heapq.heapify(queue)
    found: dict[Key, tuple[float, tuple[Key, ...]]] = {}
    while queue:
        distance, key, way = heapq.heappop(queue)
        if key in found or distance > limit:
            continue
        found[key] = (distance, way)
        lane = town.lanes[key]
        for k in lane.after:
            heapq.heappush(queue, (distance + lane.length, k, (*way, k)))
    return found


def _leg(
    town: LaneNetwork, a: LanePosition, b: LanePosition, reach: dict[Key, tuple[float, tuple[Key, ...]]]
) -> RouteLeg | None:
    if a.lane == b.lane and b.s >= a.s - 0.5:
        return RouteLeg(b.s - a.s, (a.lane,))
    if b.lane in reach:
        distance, way = reach[b.lane]
        return RouteLeg(distance + b.s, way)
    for left, side in ((True, 1), (False, -1)):
        for start, before in [(a.lane, a.s), *((k, -d) for k, (d, _) in reach.items())]:
            beside = town.beside(town.lanes[start], left)
            if beside is not None and beside.key == b.lane and b.s >= before - 0.5:
                return RouteLeg(b.s - before, (a.lane, b.lane), side, CHANGE_COST)
    return None
