"""junction_shares: how much of a route must be driven to pass its first junction, for Bench2Drive's Traffic_Signs.

The official ability script counts the waypoints of the route up to and including the first one in a junction, adds
MARGIN and divides by all. A record passes if more than this share of its route was completed; the share may exceed 1.
The waypoints are those of CARLA's GlobalRoutePlanner, here from an OpenDRIVE file and without CARLA.

The script traces every pair of neighbouring route points with this planner (agents.navigation, hop 1 m) and joins the
traces. Their number of waypoints is no length in metres: the trace of a pair begins at the waypoint nearest to its
first point and ends at the first waypoint less than 2 m from its second point, so points 2 m apart give one or two
waypoints, depending on where the planner's waypoints lie.

Waypoints of a lane, as the planner has them: its start; every HOP metres of road (along the reference line, as CARLA's
`next`) while more than HOP from the start of its successor; that start, which is already on the successor. A lane not
longer than HOP has one waypoint between, HOP metres on.

CARLA finds a point's place on a lane with chords: a straight lane is one, otherwise a new one begins at the first of
its 1 m steps that turns by more than CHORD_TURN. Its metres, seen from above, are taken for metres of road, so in a
bend the place may be 0.5 m off.

Which lanes lie between two points is decided by `trace`. The planner searches its own shortest way, which differs in
rare cases where lanes overlap or run side by side. The height of a route point is taken from its lane.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.opendrive_file import map_bytes
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.lanes import Key, LaneNetwork, TownLane, parse_town
from closedloop_plugin.maps.towns.route_trace import RouteLeg, trace
from lmms_eval_ad2.core.errors import Ad2Error

MARGIN = 8  # waypoints
AROUND = 60.0  # m from the routes within which roads are read: large towns have thousands of others


@dataclass(frozen=True)
class JunctionShares:
    """share: by route id. without_map: route ids by town without a map. unknown: route id -> why it has no share."""

    share: Mapping[str, float]
    without_map: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, str]


def junction_shares(routes: Sequence[Route], towns: Mapping[str, Path]) -> JunctionShares:
    """Shares of these routes. `towns`: OpenDRIVE files by town. Raises Ad2Error if a file cannot be read."""
    by_town: dict[str, list[Route]] = {}
    for route in routes:
        by_town.setdefault(route.town, []).append(route)
    share: dict[str, float] = {}
    unknown: dict[str, str] = {}
    for name, here in sorted(by_town.items()):
        if name in towns:
            _town_shares(here, towns[name], share, unknown)
    lacking = {name: tuple(r.id for r in here) for name, here in sorted(by_town.items()) if name not in towns}
    return JunctionShares(share, lacking, unknown)


def _town_shares(routes: Sequence[Route], file: Path, share: dict[str, float], unknown: dict[str, str]) -> None:
    points = np.array([point for route in routes for point in route.points])
    town = parse_town(cut_out(map_bytes(file), points, AROUND, name=file), file)
    for route in routes:
        try:
            found = first_junction_share(planner_waypoints(route, town, file))
        except Ad2Error as exc:
            unknown[route.id] = str(exc)
            continue
        if found is None:
            unknown[route.id] = f"{file}: route {route.id} crosses no junction; the official script stops there"
        else:
            share[route.id] = found


def first_junction_share(junction: np.ndarray) -> float | None:
    """Share for one route. `junction`: bool (N,), whether each waypoint is in one; None if none is."""
    if not junction.any():
        return None
    return (int(junction.argmax()) + 1 + MARGIN) / len(junction)


HOP = 1.0  # m between the planner's waypoints
ARRIVED = 2 * HOP  # m from the second point of a pair at which its trace ends
AFTER_CHANGE = 5  # waypoints that the planner skips on the new lane of a lane change
CHORD_STEP = 1.0  # m of road
CHORD_TURN = math.pi / 100  # rad
LONGEST_CHORD = 100.0  # m of road

Place = np.ndarray  # (3,), m; x and y in the map frame, z as in the file


@dataclass(frozen=True)
class PlannerLane:
    """A lane of the planner. xyz: its waypoints, (N, 3), m; junction: (N,), which of them are in a junction."""

    lane: TownLane
    xyz: np.ndarray
    junction: np.ndarray

    def nearest(self, place: Place, inner: bool = False) -> int:
        """Index of the waypoint nearest to a place. `inner`: neither the first nor the last one."""
        here = self.xyz[1:-1] if inner else self.xyz
        return int(np.linalg.norm(here - place, axis=1).argmin()) + inner

    @cached_property
    def chords(self) -> np.ndarray:
        """Road metres at which CARLA's chords of this lane begin, and its end, (M,)."""
        road = self.lane.road_m
        if self.lane.straight:
            return np.array([0.0, road[-1]])
        ahead = np.gradient(_at(self.lane, road), road, axis=0)
        ahead /= np.linalg.norm(ahead, axis=1)[:, None]
        steps = np.arange(0.0, road[-1], CHORD_STEP)
        directions = np.column_stack([np.interp(steps, road, ahead[:, i]) for i in range(3)])
        ends = [0]
        for i, direction in enumerate(directions):
            turn = math.acos(min(1.0, float(direction @ directions[ends[-1]])))
            if turn > CHORD_TURN or steps[i] - steps[ends[-1]] > LONGEST_CHORD:
                ends.append(i)
        return np.array([*steps[ends], road[-1]])

    def place(self, point: np.ndarray) -> Place:
        """Place on the lane of a point (2,), as CARLA's get_waypoint finds it."""
        ends = _at(self.lane, self.chords)[:, :2]
        a, ab = ends[:-1], np.diff(ends, axis=0)
        sizes = np.maximum(np.hypot(*ab.T), 1e-9)
        along = np.clip(((point - a) * ab).sum(1) / sizes, 0.0, sizes)
        i = int(np.hypot(*(a + (along / sizes)[:, None] * ab - point).T).argmin())
        return _at(self.lane, min(self.chords[i] + along[i], self.chords[i + 1]))


def planner_waypoints(route: Route, town: LaneNetwork, file: object) -> np.ndarray:
    """Of each waypoint of the planner along the route, in order, whether it is in a junction: bool (N,).

    Raises Ad2Error if the route does not follow the town's lanes. `file`: named in the message.
    """
    _, legs = trace(route, town, file)
    planner = {key: planner_lane(town, town.lanes[key]) for leg in legs for key in leg.lanes}
    found: list[np.ndarray] = []
    for start, goal, leg in zip(route.points[:-1], route.points[1:], legs, strict=True):
        found += _between(planner, np.array(start), np.array(goal), leg)
    return np.concatenate(found)


def _between(planner: dict[Key, PlannerLane], start: np.ndarray, goal: np.ndarray, leg: RouteLeg) -> list[np.ndarray]:
    """Junction flags of the waypoints from one route point, (2,), to the next."""
    lanes = [planner[key] for key in leg.lanes]
    here = lanes[0].place(start)
    found: list[np.ndarray] = []
    if leg.change:
        new = lanes[-1]
        landed = min(new.nearest(here, inner=True) + AFTER_CHANGE, len(new.xyz) - 2)
        found = [np.array([lanes[0].lane.junction >= 0]), new.junction[landed : landed + 1]]
        here, lanes = new.xyz[landed], [new]
    for lane in lanes[:-1]:
        found.append(lane.junction[lane.nearest(here) :])
        here = lane.xyz[-1]
    last = lanes[-1]
    end = last.place(goal)
    first = last.nearest(here)
    if first > last.nearest(end):  # beyond the goal: the planner stops at once
        return [*found, last.junction[first : first + 1]]
    close = np.linalg.norm(last.xyz[first:] - np.array([*goal, end[2]]), axis=1) < ARRIVED
    return [*found, last.junction[first : first + int(close.argmax()) + 1 if close.any() else None]]


def planner_lane(town: LaneNetwork, lane: TownLane) -> PlannerLane:
    """The waypoints of a lane, see the module."""
    after = town.lanes[lane.after[-1]] if lane.after else None
    begin, end = _at(lane, 0.0), _at(after, 0.0) if after else _at(lane, lane.road_m[-1])
    path = _at(lane, np.arange(1, int(lane.road_m[-1] / HOP) + 1) * HOP)
    inside = [lane.junction >= 0] * len(path)
    if math.dist(begin, end) > HOP:
        near = np.linalg.norm(path - end, axis=1) <= HOP
        path = path[: int(near.argmax())] if near.any() else path
    else:
        there, metres = _ahead(town, lane, HOP)
        path, inside = _at(there, metres)[None], [there.junction >= 0]
    flags = [lane.junction >= 0, *inside[: len(path)], (after or lane).junction >= 0]
    return PlannerLane(lane, np.vstack([begin, path, end]), np.array(flags))


def _ahead(town: LaneNetwork, lane: TownLane, metres: float) -> tuple[TownLane, float]:
    """The lane `metres` of road after a lane's start, by the first successors, and the metres from its start."""
    while metres > lane.road_m[-1] and lane.after:
        metres -= float(lane.road_m[-1])
        lane = town.lanes[lane.after[0]]
    return lane, metres


def _at(lane: TownLane, road_m: np.ndarray | float) -> np.ndarray:
    """Places on the lane's centre, (..., 3)."""
    columns = (lane.centre[:, 0], lane.centre[:, 1], lane.height)
    return np.stack([np.interp(road_m, lane.road_m, column) for column in columns], axis=-1)
