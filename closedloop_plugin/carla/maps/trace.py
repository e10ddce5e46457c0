"""Map matching of a route's points to the lanes of a carla.Map: the cheapest chain of lane paths between them."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from closedloop_plugin.carla.maps.lanes import CarlaLanes
from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.plan import eased
from closedloop_plugin.maps.towns.lanes import Key
from closedloop_plugin.maps.towns.route_trace import ASKEW, CHANGE_COST, LanePosition, foot
from lmms_eval_ad2.core.errors import Ad2Error

DENSE_M = 10.0  # closer points define the lane's direction and lane changes, regardless of the markings
CHANGE_M = 20.0  # length of a lane change along the road, if there is room


def trace(route: Route, lanes: CarlaLanes) -> list[CarlaLanePath]:
    """One CarlaLanePath between successive points, of minimal total cost (dynamic programming over lanes per point)."""
    p = np.array(route.points)
    options = [_candidates(p, k, lanes, route) for k in range(len(p))]
    best: list[dict[int, tuple[float, int, CarlaLanePath | None]]] = [
        {i: (o.off**2, -1, None) for i, o in enumerate(options[0])}
    ]
    for k in range(1, len(p)):
        chord = float(np.hypot(*(p[k] - p[k - 1])))
        here = {}
        for limit in (1.6 * chord + 15.0, math.inf):  # first paths near the chord's length, then any detour
            here = _reached(lanes, best[-1], options[k - 1 : k + 1], chord, limit)
            if here:
                break
        if not here:
            x, y = p[k]
            raise Ad2Error(f"{lanes.name}: route {route.id}: no lane leads on to its point {k} ({x:.1f}, {y:.1f})")
        best.append(here)
    ways, i = [], min(best[-1], key=lambda j: best[-1][j][0])
    for row in reversed(best):
        _, i, way = row[i]
        if way is not None:
            ways.append(way)
    return ways[::-1]


def _reached(
    lanes: CarlaLanes,
    before: dict[int, tuple[float, int, CarlaLanePath | None]],
    options: list[list[LanePosition]],
    chord: float,
    limit: float,
) -> dict[int, tuple[float, int, CarlaLanePath | None]]:
    """Cheapest path to each candidate: (cost from the route's start, index of the previous candidate, path)."""
    here: dict[int, tuple[float, int, CarlaLanePath | None]] = {}
    for j, spot in enumerate(options[1]):
        search = CarlaLaneSearch(lanes, (spot.lane, spot.s), strict=chord > DENSE_M)
        for i, (cost, _, _) in before.items():
            way = search.way((options[0][i].lane, options[0][i].s), limit)
            if way is None:
                continue
            total = cost + spot.off**2 + 0.5 * abs(way.length - chord) + way.extra
            if j not in here or total < here[j][0]:
                here[j] = (total, i, way)
    return here


def _candidates(p: np.ndarray, k: int, lanes: CarlaLanes, route: Route) -> list[LanePosition]:
    steps = [p[i + 1] - p[i] for i in (k - 1, k) if 0 <= i < len(p) - 1]
    step = min(steps, key=lambda v: float(np.hypot(*v)))
    direction_known = float(np.hypot(*step)) <= DENSE_M  # else the chord does not follow a lane
    yaw = math.atan2(step[1], step[0])
    x, y = p[k]
    spots = []
    for key in lanes.near(x, y):
        s, off, heading = foot(lanes[key].lane, p[k])
        if not direction_known or abs(wrap(heading - yaw)) < ASKEW:
            spots.append(LanePosition(key, s, off))
    if not spots:
        raise Ad2Error(
            f"{lanes.name}: route {route.id}: its point {k} ({x:.1f}, {y:.1f}) lies on no lane; "
            f"the route is of {route.town}: load that town"
        )
    return spots


@dataclass(frozen=True)
class CarlaRouteLine:
    """A driven line: points with heights (N, 3), and lane changes as (first point, last point, side)."""

    points: np.ndarray
    changes: tuple[tuple[np.ndarray, np.ndarray, int], ...]


def line(lanes: CarlaLanes, ways: list[CarlaLanePath]) -> CarlaRouteLine:
    """Line along the lanes' centres. A lane change takes CHANGE_M, or less up to the route's next point."""
    out: list[np.ndarray] = []
    changes: list[tuple[np.ndarray, np.ndarray, int]] = []
    for way in ways:
        for side, run in _runs(way):
            points = np.vstack([lanes[x.lane].part(x.start, max(x.start, x.end)) for x in run])
            if side:
                across = _ease_in(points, out[-1][-1])
                changes.append((out[-1][-1], points[across], side))
            out.append(points)
    return CarlaRouteLine(np.vstack(out), tuple(changes))


def _runs(way: CarlaLanePath) -> list[tuple[int, list[CarlaLaneSegment]]]:
    """Segments grouped between lane changes; each group with the side of the change at its start."""
    runs: list[tuple[int, list[CarlaLaneSegment]]] = []
    for segment in way.segments:
        if segment.change or not runs:
            runs.append((segment.change, []))
        runs[-1][1].append(segment)
    return runs


def _ease_in(points: np.ndarray, start: np.ndarray) -> int:
    """Bend the beginning of a line, in place, so that it leads from `start`. Returns the number of points changed."""
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points[:, :2], axis=0).T))]
    room = max(min(CHANGE_M, float(s[-1])), 1e-6)
    points += (1.0 - eased(s / room))[:, None] * (start - points[0])
    return min(int(np.searchsorted(s, room)), len(points) - 1)


# A* search over positions on lanes; edges follow a lane or change to a neighbouring one.
AGAINST_MARKS = 30.0  # m: cost of a lane change that the markings forbid
GRID = 0.5  # m: resolution of positions after a lane change
SLIP = 0.5  # m by which a point may lie behind the current position: route points are inexact

Node = TypeVar("Node", bound=Hashable)
Place = tuple[Key, float]  # metres along a lane


@dataclass(frozen=True)
class CarlaLaneSegment:
    """A driven part of a lane. `change`: +1 or -1 if it is entered from the lane to its right or left."""

    lane: Key
    start: float
    end: float
    change: int = 0


@dataclass(frozen=True)
class CarlaLanePath:
    """Path between two points of the route. `extra`: cost of its lane changes beyond the length, m."""

    segments: tuple[CarlaLaneSegment, ...]
    length: float
    extra: float = 0.0


def a_star(
    start: Node,
    goal: Node,
    edges: Callable[[Node], Iterable[tuple[float, Node]]],
    ahead: Callable[[Node], float],
    limit: float = math.inf,
) -> tuple[float, list[Node]] | None:
    """(cost, nodes) of the cheapest path of cost at most `limit`. `ahead`: lower bound of the remaining cost."""
    order = itertools.count()
    queue: list[tuple[float, int, float, Node, Node | None]] = [(ahead(start), next(order), 0.0, start, None)]
    predecessors: dict[Node, Node | None] = {}
    while queue:
        _, _, cost, node, before = heapq.heappop(queue)
        if node in predecessors:
            continue
        predecessors[node] = before
        if node == goal:
            back = [node]
            while (before := predecessors[back[-1]]) is not None:
                back.append(before)
            return cost, back[::-1]
        for step, following in edges(node):
            total = cost + step + ahead(following)
            if following not in predecessors and total <= limit:
                heapq.heappush(queue, (total, next(order), cost + step, following, node))
    return None


class CarlaLaneSearch:
    """Paths over the lanes to one position. `strict`: lane changes only where the markings permit them."""

    def __init__(self, lanes: CarlaLanes, goal: Place, strict: bool) -> None:
        self.lanes, self.goal, self.strict = lanes, goal, strict
        self._goal_xy = self.xy(goal)

    def ahead(self, place: Place) -> float:
        return float(math.dist(self.xy(place), self._goal_xy))

    def edges(self, place: Place) -> list[tuple[float, Place]]:
        key, s = place
        lane = self.lanes[key].lane
        out: list[tuple[float, Place]] = []
        if key == self.goal[0] and s <= self.goal[1] + SLIP:
            out.append((abs(self.goal[1] - s), self.goal))
        for k in self.lanes.after[key]:
            # Consecutive lanes are up to a centimetre apart; with the gap the straight distance stays a lower bound.
            gap = math.dist(lane.centre[-1], self.lanes[k].lane.centre[0])
            out.append((lane.length - s + gap, (k, 0.0)))
        for left in (True, False):
            out += self._changes(place, left)
        return out

    def _changes(self, place: Place, left: bool) -> list[tuple[float, Place]]:
        key, s = place
        beside = self.lanes.beside(key, left)
        if beside is None:
            return []
        where = {}
        if (first := self.lanes[key].permitted(s, left)) is not None:
            where[first] = CHANGE_COST
        if not self.strict:
            where.setdefault(s, CHANGE_COST + AGAINST_MARKS)
        out = []
        for at, cost in where.items():
            there, off, _ = foot(self.lanes[beside].lane, np.array(self.xy((key, at))))
            # On a grid, so that changes to and fro between two lanes reach known positions and the search ends.
            there = min(round(there / GRID) * GRID, self.lanes[beside].lane.length)
            out.append((at - s + cost + off, (beside, there)))
        return out

    def xy(self, place: Place) -> tuple[float, float]:
        lane = self.lanes[place[0]].lane
        x, y = (np.interp(place[1], lane.s, lane.centre[:, i]) for i in (0, 1))
        return float(x), float(y)

    def way(self, start: Place, limit: float = math.inf) -> CarlaLanePath | None:
        if start[0] == self.goal[0] and self.goal[1] >= start[1] - SLIP:
            return CarlaLanePath((CarlaLaneSegment(start[0], start[1], self.goal[1]),), self.goal[1] - start[1])
        found = a_star(start, self.goal, self.edges, self.ahead, limit)
        return None if found is None else self._path_of(*found)

    def _path_of(self, cost: float, places: list[Place]) -> CarlaLanePath:
        """The lane segments between the positions of a path."""
        out: list[CarlaLaneSegment] = []
        change = 0
        for (key, s), (following, t) in itertools.pairwise(places):
            if following == key:
                out.append(CarlaLaneSegment(key, s, t, change))
                continue
            side = 0
            end = self.lanes[key].lane.length
            if following not in self.lanes.after[key]:
                side = 1 if self.lanes.beside(key, True) == following else -1
                end = foot(self.lanes[key].lane, np.array(self.xy((following, t))))[0]
            out.append(CarlaLaneSegment(key, s, max(end, s), change))
            change = side
        length = sum(x.end - x.start for x in out)
        return CarlaLanePath(tuple(out), length, max(0.0, cost - length))
