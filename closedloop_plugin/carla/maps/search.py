"""Ways over carla.Map's lanes: A* from place to place, along lanes and across from one to the next."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from closedloop_plugin.carla.maps.lanes import CarlaLanes
from closedloop_plugin.maps.lanes import Key
from closedloop_plugin.maps.trace import CHANGE_COST, foot

AGAINST_MARKS = 30.0  # m of detour that a change is worth where the marks forbid it
GRID = 0.5  # m
SLIP = 0.5  # m that a point may lie before where one is already: the files' points are no lane's own

Node = TypeVar("Node", bound=Hashable)
Place = tuple[Key, float]  # metres along a lane


@dataclass(frozen=True)
class Stretch:
    """A part of a lane that is driven; `change`: +1 or -1 where it is come to from the lane at its right or left."""

    lane: Key
    start: float
    end: float
    change: int = 0


@dataclass(frozen=True)
class Way:
    """From one point of the route to the next. `extra`: what its lane changes cost beyond its length, m."""

    stretches: tuple[Stretch, ...]
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


class Search:
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

    def way(self, start: Place, limit: float = math.inf) -> Way | None:
        if start[0] == self.goal[0] and self.goal[1] >= start[1] - SLIP:
            return Way((Stretch(start[0], start[1], self.goal[1]),), self.goal[1] - start[1])
        found = a_star(start, self.goal, self.edges, self.ahead, limit)
        return None if found is None else self._told(*found)

    def _told(self, cost: float, places: list[Place]) -> Way:
        """The places on the way as stretches of lanes."""
        out: list[Stretch] = []
        change = 0
        for (key, s), (following, t) in itertools.pairwise(places):
            if following == key:
                out.append(Stretch(key, s, t, change))
                continue
            side = 0
            end = self.lanes[key].lane.length
            if following not in self.lanes.after[key]:
                side = 1 if self.lanes.beside(key, True) == following else -1
                end = foot(self.lanes[key].lane, np.array(self.xy((following, t))))[0]
            out.append(Stretch(key, s, max(end, s), change))
            change = side
        length = sum(x.end - x.start for x in out)
        return Way(tuple(out), length, max(0.0, cost - length))
