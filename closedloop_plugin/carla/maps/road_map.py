"""RoadMap of a route in a server's town: traced lanes, a stop line per signal, speed limit, and the file for Scenic."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import LOCATIONS, Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.opendrive import keep
from closedloop_plugin.maps.plan import TOWN_LIMIT, eased
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.lanes import DRIVABLE, Key, LaneNetwork, RoadSign, TownLane, parse_town
from closedloop_plugin.maps.towns.route_trace import CHANGE_COST, RouteLeg, candidates, cheapest, foot, yaw_of_route
from closedloop_plugin.maps.towns.town_road import AROUND, ORDER, SIGN_NEAR, road_of, yaw_at

KMH = 1 / 3.6  # m/s

# Arriving lane -> metres along it to the stop line, and connecting lanes that are controlled.
Held = dict[Key, tuple[float, set[Key]]]


def carla_road(route: Route, town_map: Any, folder: Path) -> RoadMap:
    """The route traced in the town of a `carla.Map`; the roads around it are written to `folder`, for Scenic.

    `facts["start_z"]` is the road's height at the route's start, m. `sha256` is that of the whole town's OpenDRIVE.
    """
    name = str(town_map.name).rsplit("/", 1)[-1]
    data = town_map.to_opendrive().encode()
    longest = float(np.hypot(*np.diff(np.array(route.points), axis=0).T).max())
    around = cut_out(data, np.array(route.points), AROUND + longest, name)
    town = parse_town(around, name)
    ways = trace(route, town, name)
    points, changes = line(town, ways)
    path = RoutePath(points)
    lanes = [key for way in ways for key in way.lanes]
    given = [one.params for one in route.played] or [route.params]
    places = [t[:2] for t in (route.trigger, *route.triggers)]
    places += [params[location][:2] for params in given for location in LOCATIONS if location in params]
    part = cut_out(around, np.vstack([path.xy, places]))
    file = keep(part, folder, f"{name}-{hashlib.sha256(part).hexdigest()[:16]}.xodr")
    road = road_of(route, town, path, lanes, file=file, sha256=hashlib.sha256(data).hexdigest())
    first = ways[0].segments[0]
    return replace(
        road,
        changes=tuple(
            (path.locate(*map(float, a[:2]))[0], path.locate(*map(float, b[:2]))[0], side) for a, b, side in changes
        ),
        stop_lines=stop_lines(town, path, set(lanes)),
        speed_limit=speed_limit(town, town.lanes[first.lane], first.start) or TOWN_LIMIT,
        facts=road.facts | {"start_z": round(float(points[0, 2]), 3)},
    )


def stop_lines(town: LaneNetwork, path: RoutePath, driven: set[Key]) -> tuple[StopLine, ...]:
    """One stop line per light or sign and controlled road, across all lanes of that road to which it applies.

    Its id is the signal's in the OpenDRIVE file, by which CARLA finds the light.
    """
    held: dict[tuple[str, str, int], Held] = {}
    for lane in town.drivable():
        for sign in town.signs.get(lane.key[0], []):
            if sign.control in ORDER and sign.holds(lane) and _covers(lane, town, sign):
                for arriving, s, onto in _approaches(town, sign, lane):
                    group = held.setdefault((sign.control, sign.id, arriving[0]), {})
                    group.setdefault(arriving, (s, set()))[1].update(onto)
    out, taken = [], set()
    for (control, id_, _), group in sorted(held.items()):
        lanes_held = control, frozenset(group)
        # A sign on a post and the same one painted on the road apply to the same lanes and give one line, as do two
        # heads of a light over the same lanes.
        if lanes_held in taken:
            continue
        taken.add(lanes_held)
        x, y, yaw, width = _across(town, group)
        if np.hypot(*(path.xy - (x, y)).T).min() > AROUND:
            continue
        s, off = path.locate(x, y)
        own = any(key in driven and (not onto or onto & driven) for key, (_, onto) in group.items())
        own = own and abs(off) < width and 0.5 < s < path.length - 0.5
        out.append(
            StopLine(id=id_, x=x, y=y, yaw=yaw, width=width, control=control, on_route=own, route_s=s if own else None)
        )
    return tuple(out)


def _covers(lane: TownLane, town: LaneNetwork, sign: RoadSign) -> bool:
    """If the lane's section contains the sign's place; the last section includes the road's end."""
    last = lane.key[1] == town.sections[lane.key[0]] - 1
    along = sign.s - lane.start_s
    return 0.0 <= along < lane.road_m[-1] or (last and 0.0 <= along <= lane.road_m[-1] + 1e-3)


def _approaches(town: LaneNetwork, sign: RoadSign, lane: TownLane) -> Iterator[tuple[Key, float, set[Key]]]:
    """(lane, s, connecting lanes) of its stop lines; before the junction if the sign is in one, as in CARLA."""
    if lane.junction >= 0:
        seen, queue = set(), [(lane, lane.key)]
        while queue:
            here, way = queue.pop()
            for before in (town.lanes[key] for key in here.before):
                if before.junction < 0:
                    yield before.key, before.length, {way}
                elif before.key not in seen:
                    seen.add(before.key)
                    queue.append((before, before.key))
        return
    s = _along(lane, sign)
    ends = any(town.lanes[key].junction >= 0 for key in lane.after)
    yield lane.key, lane.length if ends and lane.length - s < SIGN_NEAR else min(s, lane.length), set()


def _along(lane: TownLane, sign: RoadSign) -> float:
    """Metres of road from the lane's start to a sign of its road, in its direction."""
    return sign.s - lane.start_s if lane.forward else lane.start_s + float(lane.road_m[-1]) - sign.s


def _across(town: LaneNetwork, group: Held) -> tuple[float, float, float, float]:
    """x, y, yaw, width of the stop line across the lanes."""
    middles, edges, yaws = [], [], []
    for key, (s, _) in sorted(group.items()):
        lane = town.lanes[key]
        i = len(lane.s) - 1 if s >= lane.length else int(np.searchsorted(lane.s, s, side="right")) - 1
        middles.append(lane.centre[i])
        edges += [lane.left[i], lane.right[i]]
        yaws.append(yaw_at(lane.centre, -1) if s >= lane.length else yaw_at(lane.centre[i:], 0))
    across = np.array(edges) @ np.array([-np.sin(yaws[0]), np.cos(yaws[0])])
    x, y = np.mean(middles, axis=0)
    return float(x), float(y), yaws[0], float(across.max() - across.min())


def speed_limit(town: LaneNetwork, lane: TownLane, s: float) -> float | None:
    """Speed limit in m/s at s metres along a lane: of the last sign passed on its road, else of the first one ahead.

    CARLA reads the sign's value as km/h regardless of the unit in the file (mph in RoadRunner's files).
    """
    signs = []
    for sign in town.signs.get(lane.key[0], []):
        if sign.control == "limit" and sign.value > 0 and sign.holds(lane):
            along = _along(lane, sign)
            signs.append((along > s, abs(along - s), sign.value))
    return min(signs)[2] * KMH if signs else None


# Tracing: route points matched to lanes, with as many lane changes between two points as it takes. Unlike in
# maps/towns/route_trace.py, points may be hundreds of metres apart, and lane changes then follow the markings.
DENSE_M = 10.0  # closer points define the lane's direction and lane changes, regardless of the markings
CHANGE_M = 20.0  # length of a lane change along the road, if there is room
AGAINST_MARKS = 30.0  # m: cost of a lane change that the markings forbid
GRID = 0.5  # m: resolution of positions after a lane change
SLIP = 0.5  # m by which a point may lie behind the current position: route points are inexact

Node = TypeVar("Node", bound=Hashable)
Place = tuple[Key, float]  # metres along a lane


class LaneSegment(NamedTuple):
    """A driven part of a lane. `change`: +1 or -1 if it is entered from the lane to its right or left."""

    lane: Key
    start: float
    end: float
    change: int = 0


@dataclass(frozen=True)
class LanePath(RouteLeg):
    """Path between two points of the route."""

    segments: tuple[LaneSegment, ...] = ()


def trace(route: Route, town: LaneNetwork, name: str) -> list[LanePath]:
    """One LanePath between successive points, of minimal total cost. Raises Ad2Error; `name`: of the town."""
    p = np.array(route.points)
    steps = np.hypot(*np.diff(p, axis=0).T)
    shorter = np.minimum(np.r_[np.inf, steps], np.r_[steps, np.inf])
    # Between far points the chord does not follow a lane.
    yaws = [yaw_of_route(p, k) if shorter[k] <= DENSE_M else None for k in range(len(p))]
    options = candidates(route, town, name, yaws)

    def legs(k: int, chord: float, starts: Iterable[int]) -> list[tuple[int, int, LanePath]]:
        found: list[tuple[int, int, LanePath]] = []
        for limit in (1.6 * chord + 15.0, math.inf):  # first paths near the chord's length, then any detour
            for j, spot in enumerate(options[k]):
                search = LaneSearch(town, (spot.lane, spot.s), strict=chord > DENSE_M)
                ways = ((i, search.way((options[k - 1][i].lane, options[k - 1][i].s), limit)) for i in starts)
                found += [(i, j, way) for i, way in ways if way is not None]
            if found:
                break
        return found

    return cheapest(route, options, legs, name)[1]


def line(town: LaneNetwork, ways: list[LanePath]) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, int]]]:
    """Points with heights (N, 3) along the lanes' centres, and lane changes: (first point, last point, side).

    A lane change takes CHANGE_M, or less up to the route's next point.
    """
    out: list[np.ndarray] = []
    changes: list[tuple[np.ndarray, np.ndarray, int]] = []
    for way in ways:
        runs: list[list[LaneSegment]] = []  # between lane changes
        for segment in way.segments:
            if segment.change or not runs:
                runs.append([])
            runs[-1].append(segment)
        for run in runs:
            points = np.vstack([town.lanes[x.lane].part3(x.start, max(x.start, x.end)) for x in run])
            if side := run[0].change:
                across = _ease_in(points, out[-1][-1])
                changes.append((out[-1][-1], points[across], side))
            out.append(points)
    return np.vstack(out), changes


def _ease_in(points: np.ndarray, start: np.ndarray) -> int:
    """Bend the beginning of a line, in place, so that it leads from `start`. Returns the number of points changed."""
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points[:, :2], axis=0).T))]
    room = max(min(CHANGE_M, float(s[-1])), 1e-6)
    points += (1.0 - eased(s / room))[:, None] * (start - points[0])
    return min(int(np.searchsorted(s, room)), len(points) - 1)


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


class LaneSearch:
    """A* over positions on lanes to one position; edges follow a lane or change to a neighbouring one.

    `strict`: lane changes only where the markings permit them.
    """

    def __init__(self, town: LaneNetwork, goal: Place, strict: bool) -> None:
        self.town, self.goal, self.strict = town, goal, strict
        self._goal_xy = self.xy(goal)

    def ahead(self, place: Place) -> float:
        return float(math.dist(self.xy(place), self._goal_xy))

    def edges(self, place: Place) -> list[tuple[float, Place]]:
        key, s = place
        lane = self.town.lanes[key]
        out: list[tuple[float, Place]] = []
        if key == self.goal[0] and s <= self.goal[1] + SLIP:
            out.append((abs(self.goal[1] - s), self.goal))
        for following in (self.town.lanes[k] for k in lane.after):
            if following.kind in DRIVABLE:
                # Consecutive lanes are a little apart; with the gap the straight distance stays a lower bound.
                gap = math.dist(lane.centre[-1], following.centre[0])
                out.append((lane.length - s + gap, (following.key, 0.0)))
        for left in (True, False):
            out += self._changes(place, left)
        return out

    def _changes(self, place: Place, left: bool) -> list[tuple[float, Place]]:
        key, s = place
        beside = self.town.beside(self.town.lanes[key], left)
        if beside is None:
            return []
        where = {}
        if (first := self.town.lanes[key].permitted(s, left)) is not None:
            where[first] = CHANGE_COST
        if not self.strict:
            where.setdefault(s, CHANGE_COST + AGAINST_MARKS)
        out = []
        for at, cost in where.items():
            there, off, _ = foot(beside, np.array(self.xy((key, at))))
            # On a grid, so that changes to and fro between two lanes reach known positions and the search ends.
            there = min(round(there / GRID) * GRID, beside.length)
            out.append((at - s + cost + off, (beside.key, there)))
        return out

    def xy(self, place: Place) -> tuple[float, float]:
        lane = self.town.lanes[place[0]]
        x, y = (np.interp(place[1], lane.s, lane.centre[:, i]) for i in (0, 1))
        return float(x), float(y)

    def way(self, start: Place, limit: float = math.inf) -> LanePath | None:
        """The path from a place, of cost at most `limit`, or None."""
        if start[0] == self.goal[0] and self.goal[1] >= start[1] - SLIP:
            segments = (LaneSegment(start[0], start[1], self.goal[1]),)
            return LanePath(self.goal[1] - start[1], (start[0],), segments=segments)
        found = a_star(start, self.goal, self.edges, self.ahead, limit)
        if found is None:
            return None
        cost, places = found
        out: list[LaneSegment] = []
        change = 0
        for (key, s), (following, t) in itertools.pairwise(places):
            if following == key:
                out.append(LaneSegment(key, s, t, change))
                continue
            lane, side = self.town.lanes[key], 0
            end = lane.length
            if following not in lane.after:
                side = 1 if (left := self.town.beside(lane, True)) is not None and left.key == following else -1
                end = foot(lane, np.array(self.xy((following, t))))[0]
            out.append(LaneSegment(key, s, max(end, s), change))
            change = side
        length = sum(x.end - x.start for x in out)
        return LanePath(length, tuple(x.lane for x in out), extra=max(0.0, cost - length), segments=tuple(out))
