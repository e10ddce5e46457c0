"""Gap acceptance: crossing or joining a stream of vehicles that do not brake for the ego.

The ego waits a few metres before the stream, so that it crosses the stream's lane at speed, and starts as soon as one
of many speed profiles stays free of contact. Route frame: s in m along the route; m/s, m/s2, s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from closedloop_plugin.agents.planning import forecast
from closedloop_plugin.agents.planning.manoeuvre import EGO_LENGTH, EGO_WIDTH, RouteActor
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.maps.base import RoadMap

RUN_UP_M = 7.0  # before the stream's lane, where the ego waits
REACH_M = 60.0  # before a junction, from where its streams matter
BEYOND_M = 10.0  # behind a junction; scenarios end their flows there
FULL = 3.5  # m/s2, acceleration through a gap
HELD = (-5.0, -2.5, -1.0, 0.0, 1.0, 2.0)  # m/s2 before it
SECONDS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # for which they are held
SIDEWAYS = 3.2  # m/s2, lateral acceleration through a gap
Discs = tuple[np.ndarray, np.ndarray]


@dataclass
class StreamMemory:
    """What the driver has seen of streams: lines of the map that vehicles took, and their smallest distance (m)."""

    lines: Mapping[str, RoutePath] | None = None
    taken: set[str] = field(default_factory=set)
    spacing: float = math.inf


def map_lines(road: RoadMap) -> dict[str, RoutePath]:
    """Lines of other traffic through the junction, by name."""
    found = {name: points for name, points in (road.facts.get("flows") or {}).items()}
    found |= {name: road.facts[name] for name in ("mainline", "bicycle") if road.facts.get(name) is not None}
    return {name: RoutePath(points) for name, points in found.items() if len(points) > 1}


def stream_poses(
    actors: Sequence[RouteActor], road: RoadMap, memory: StreamMemory
) -> tuple[list[int], np.ndarray]:
    """(index of the actor of each forecast, (3, H, T) of x, y, yaw) of vehicles on lines of the map.

    A vehicle that may be on several lines has several forecasts, unless one before it took one of them. The last one
    of a stream is followed by a forecast of one that has not appeared yet, at the smallest distance seen so far.
    """
    if memory.lines is None:
        memory.lines = map_lines(road)
    on: dict[int, list[tuple[str, float, float]]] = {}
    points = [(x.actor.x, x.actor.y) for x in actors]
    for name, line in memory.lines.items():
        for k, (s, d) in enumerate(line.locate_all(points) if points else ()):
            turn = actors[k].actor.yaw - line.pose(s)[2]
            if abs(d) < 1.2 and math.cos(turn) > 0.9 and 0.0 < s < line.length:
                on.setdefault(k, []).append((name, s, d))
    owners, parts = [], []
    for k, options in on.items():
        if len(options) == 1:
            memory.taken.add(options[0][0])
        known = [o for o in options if o[0] in memory.taken] or options
        for name, s, d in known:
            v = np.array([[actors[k].actor.speed]])
            line = memory.lines[name]
            behind = [s - p for j, more in on.items() if j != k for n, p, _ in more if n == name and p < s]
            nearest = min(behind, default=math.inf)
            memory.spacing = min(memory.spacing, nearest if nearest > 5.0 else math.inf)
            starts = [s] if nearest < 1.6 * memory.spacing or math.isinf(memory.spacing) else [s, s - memory.spacing]
            for start in starts:
                owners.append(k)
                parts.append(forecast.along_path(line, np.array([[start]]), np.array([[d]]), v, np.zeros((1, 1))))
    return owners, np.concatenate(parts, axis=1) if parts else np.zeros((3, 0, len(forecast.TIMES)))


def near_junction(road: RoadMap, s: float) -> float | None:
    """s at which the streams of the junction ahead no longer matter; None: there is no junction ahead."""
    for start, end in road.junctions:
        if start - REACH_M < s < end + BEYOND_M:
            return end + BEYOND_M
    return None


def conflict_place(
    path: RoutePath, s: float, until: float, offset: Callable[[np.ndarray], np.ndarray], others: Discs
) -> float:
    """The first place of the ego's centre at which it would be touched if it stood there; inf: there is none."""
    grid = np.arange(s, min(s + 45.0, until), 1.0)
    if not len(grid):
        return math.inf
    places = np.repeat(grid[:, None], len(forecast.TIMES), axis=1)
    times = forecast.contact_times(path, places, offset, (EGO_LENGTH, EGO_WIDTH), others, 0.3)
    hit = np.flatnonzero(np.isfinite(times))
    return float(grid[hit[0]]) if len(hit) else math.inf


def through_gap(
    path: RoutePath,
    s: float,
    speed: float,
    limit: float,
    until: float,
    offset: Callable[[np.ndarray], np.ndarray],
    others: Discs,
    margin: float,
) -> float | None:
    """Acceleration of the profile that gets farthest without contact before s = `until`; None: there is none.

    Profiles: each of HELD for each of SECONDS, then FULL; or FULL at once.
    """
    top = min(limit, bend_speed(path, s, s + 30.0))
    places, firsts = profiles(speed, top)
    places = np.where(s + places < until, s + places, 1e7)  # beyond: far away
    times = forecast.contact_times(path, places, offset, (EGO_LENGTH, EGO_WIDTH), others, margin)
    free = np.flatnonzero(np.isinf(times))
    if not len(free):
        return None
    best = free[np.argmax(places[free].clip(max=until).sum(axis=1))]
    return float(firsts[best])


def bend_speed(path: RoutePath, start: float, end: float) -> float:
    """Speed at which the sharpest bend between two places has the lateral acceleration SIDEWAYS: v^2 k = a."""
    at = np.arange(max(start, 0.0), min(end, path.length - 3.0), 1.5)
    if not len(at):
        return math.inf
    before, after = np.interp([at, at + 3.0], path.s, path.yaw)
    bend = float(np.abs(after - before).max()) / 3.0
    return math.sqrt(SIDEWAYS / bend) if bend > 1e-3 else math.inf


def profiles(speed: float, top: float) -> tuple[np.ndarray, np.ndarray]:
    """(metres travelled at forecast.TIMES (R, T), first accelerations (R,)) of the profiles."""
    firsts = np.array([FULL] + [a for a in HELD for _ in SECONDS])
    until = np.array([0.0] + [t for _ in HELD for t in SECONDS])
    step = forecast.STEP_S / 2
    times = np.arange(2 * len(forecast.TIMES)) * step
    v = np.full(len(firsts), speed)
    out = np.zeros((len(firsts), 2 * len(forecast.TIMES)))
    way = np.zeros(len(firsts))
    for i, t in enumerate(times):
        a = np.where(t < until - 1e-6, firsts, FULL)
        after = np.clip(v + a * step, 0.0, np.maximum(top, v))
        way = way + (v + after) / 2 * step
        v = after
        out[:, i] = way
    return out[:, 1::2], firsts
