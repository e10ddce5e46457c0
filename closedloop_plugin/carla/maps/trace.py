"""A route's points -> what it drives of carla.Map's lanes: the cheapest chain of ways from point to point."""

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
from lmms_eval_ad2.errors import Ad2Error

DENSE = 10.0  # m: points nearer than this say the lane's direction, and where lanes change, whatever the marks say
CHANGE_M = 20.0  # m along the road in which a lane change happens, where there is room


def trace(route: Route, lanes: CarlaLanes) -> list[CarlaLanePath]:
    """One Way between each two points, the cheapest in sum (dynamic programming over the lanes at each point)."""
    p = np.array(route.points)
    options = [_spots(p, k, lanes, route) for k in range(len(p))]
    best: list[dict[int, tuple[float, int, CarlaLanePath | None]]] = [
        {i: (o.off**2, -1, None) for i, o in enumerate(options[0])}
    ]
    for k in range(1, len(p)):
        chord = float(np.hypot(*(p[k] - p[k - 1])))
        here = {}
        for limit in (1.6 * chord + 15.0, math.inf):  # first what the points suggest, then any way round
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
    """For each spot of a point its cheapest way: (cost from the route's start, spot of the point before, way)."""
    here: dict[int, tuple[float, int, CarlaLanePath | None]] = {}
    for j, spot in enumerate(options[1]):
        search = CarlaLaneSearch(lanes, (spot.lane, spot.s), strict=chord > DENSE)
        for i, (cost, _, _) in before.items():
            way = search.way((options[0][i].lane, options[0][i].s), limit)
            if way is None:
                continue
            total = cost + spot.off**2 + 0.5 * abs(way.length - chord) + way.extra
            if j not in here or total < here[j][0]:
                here[j] = (total, i, way)
    return here


def _spots(p: np.ndarray, k: int, lanes: CarlaLanes, route: Route) -> list[LanePosition]:
    steps = [p[i + 1] - p[i] for i in (k - 1, k) if 0 <= i < len(p) - 1]
    step = min(steps, key=lambda v: float(np.hypot(*v)))
    said = float(np.hypot(*step)) <= DENSE  # else the direction between points is no lane's
    yaw = math.atan2(step[1], step[0])
    x, y = p[k]
    spots = []
    for key in lanes.near(x, y):
        s, off, heading = foot(lanes[key].lane, p[k])
        if not said or abs(wrap(heading - yaw)) < ASKEW:
            spots.append(LanePosition(key, s, off))
    if not spots:
        raise Ad2Error(
            f"{lanes.name}: route {route.id}: its point {k} ({x:.1f}, {y:.1f}) lies on no lane; "
            f"the route is of {route.town}: load that town"
        )
    return spots


@dataclass(frozen=True)
class CarlaRouteLine:
    """What is driven: its points with their heights (N, 3), and (from, to, side) of its lane changes, also points."""

    points: np.ndarray
    changes: tuple[tuple[np.ndarray, np.ndarray, int], ...]


def line(lanes: CarlaLanes, ways: list[CarlaLanePath]) -> CarlaRouteLine:
    """The middle of the lanes; a lane change goes across within CHANGE_M, or up to the route's next point."""
    out: list[np.ndarray] = []
    changes: list[tuple[np.ndarray, np.ndarray, int]] = []
    for way in ways:
        for side, run in _runs(way):
            points = np.vstack([lanes[x.lane].part(x.start, max(x.start, x.end)) for x in run])
            if side:
                across = _bent(points, out[-1][-1])
                changes.append((out[-1][-1], points[across], side))
            out.append(points)
    return CarlaRouteLine(np.vstack(out), tuple(changes))


def _runs(way: CarlaLanePath) -> list[tuple[int, list[CarlaLaneSegment]]]:
    """The stretches between lane changes, each run with the side of the change that it begins with."""
    runs: list[tuple[int, list[CarlaLaneSegment]]] = []
    for stretch in way.stretches:
        if stretch.change or not runs:
            runs.append((stretch.change, []))
        runs[-1][1].append(stretch)
    return runs


def _bent(points: np.ndarray, start: np.ndarray) -> int:
    """Bends the run's beginning so that it comes from `start`, in place; how many points that takes."""
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points[:, :2], axis=0).T))]
    room = max(min(CHANGE_M, float(s[-1])), 1e-6)
    points += (1.0 - eased(s / room))[:, None] * (start - points[0])
    return min(int(np.searchsorted(s, room)), len(points) - 1)


# Ways over carla.Map's lanes: A* from place to place, along lanes and across from one to the next.
AGAINST_MARKS = 30.0  # m of detour that a change is worth where the marks forbid it
GRID = 0.5  # m
SLIP = 0.5  # m that a point may lie before where one is already: the files' points are no lane's own

Node = TypeVar("Node", bound=Hashable)
Place = tuple[Key, float]  # metres along a lane


@dataclass(frozen=True)
class CarlaLaneSegment:
    """A part of a lane that is driven; `change`: +1 or -1 where it is come to from the lane at its right or left."""

    lane: Key
    start: float
    end: float
    change: int = 0


@dataclass(frozen=True)
class CarlaLanePath:
    """From one point of the route to the next. `extra`: what its lane changes cost beyond its length, m."""

    stretches: tuple[CarlaLaneSegment, ...]
    length: float
    extra: float = 0.0


def a_star(
    start: Node,
    goal: Node,
    edges: Callable[[Node], Iterable[tuple[float, Node]]],
    ahead: Callable[[Node], float],
    limit: float = math.inf,
) -> tuple[float, list[Node]] | None:
    """(cost, nodes) of the cheapest way that costs at most `limit`. `ahead` never says more than is still to go."""
    order = itertools.count()
    queue: list[tuple[float, int, float, Node, Node | None]] = [(ahead(start), next(order), 0.0, start, None)]
    came: dict[Node, Node | None] = {}
    while queue:
        _, _, cost, node, before = heapq.heappop(queue)
        if node in came:
            continue
        came[node] = before
        if node == goal:
            back = [node]
            while (before := came[back[-1]]) is not None:
                back.append(before)
            return cost, back[::-1]
        for step, following in edges(node):
            total = cost + step + ahead(following)
            if following not in came and total <= limit:
                heapq.heappush(queue, (total, next(order), cost + step, following, node))
    return None


class CarlaLaneSearch:
    """Ways over the lanes to one place. `strict`: lanes change only where the marks permit it."""

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
            # A way that starts ends within a centimetre of here; the gap keeps the straight distance a lower bound.
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
            # On a grid: to and fro between two lanes must come to the same places again, or it never ends.
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
        return None if found is None else self._told(*found)

    def _told(self, cost: float, places: list[Place]) -> CarlaLanePath:
        """The places on the way as stretches of lanes."""
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
