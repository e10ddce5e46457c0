"""Gap acceptance: crossing or joining a stream of vehicles that do not brake for the ego.

The driver knows where the vehicles of a stream are and when the next ones come (GroundTruth.streams). The ego waits
some metres before the stream, so that it crosses it at speed, and starts when a speed profile is free of contact.
Route frame: s in m along the route; m/s, m/s2, s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, VehicleStream
from closedloop_plugin.driver.agents.planning.manoeuvre import EGO_LENGTH, EGO_WIDTH

RUN_UP_M = 10.0  # before the stream, where the ego waits
REACH_M = 60.0  # a conflict farther ahead does not matter yet
FULL = 3.6  # m/s2, acceleration through a gap
HELD = (-5.0, -2.5, -1.0, 0.0, 1.0, 2.0)  # m/s2 before it
SECONDS = tuple(0.25 * (i + 1) for i in range(12))  # for which they are held
SIDEWAYS = 5.0  # m/s2, lateral acceleration through a gap
MARGINS_M = (0.8, 0.3, 0.1)  # clearance, tried in this order
HORIZON_S, STEP_S = 7.0, 0.125
TIMES = np.arange(1, round(HORIZON_S / STEP_S) + 1) * STEP_S
CAR = (4.8, 1.95)  # length and width of a vehicle that is not in the scene yet
Offset = Callable[[np.ndarray], np.ndarray]


@dataclass
class GapMemory:
    """plan: the profile that is being followed: acceleration held, until time_s, and the speed reached afterwards.
    lines: of the streams, by name."""

    plan: tuple[float, float, float] | None = None
    lines: dict[str, RoutePath] = field(default_factory=dict)

    def line(self, stream: VehicleStream) -> RoutePath:
        if stream.name not in self.lines:
            self.lines[stream.name] = RoutePath(stream.points)
        return self.lines[stream.name]


def stream_poses(stream: VehicleStream, line: RoutePath) -> np.ndarray:
    """(3, A, T) of x, y, yaw at TIMES of its cars and the coming ones; far away while not in the scene."""
    s = np.array([*stream.cars, *stream.coming])[:, None] + stream.speed * TIMES
    inside = np.clip(s, 0.0, line.length)
    yaw = np.interp(inside, line.s, line.yaw)
    x = np.interp(inside, line.s, line.x) + (s - inside) * np.cos(yaw)
    y = np.interp(inside, line.s, line.y) + (s - inside) * np.sin(yaw)
    away = (s < stream.source) | (s > stream.sink + 1.0)
    return np.stack([np.where(away, 1e7, x), np.where(away, 1e7, y), yaw])


def belongs(actor: Actor, stream: VehicleStream, line: RoutePath) -> bool:
    """Whether an actor is one of the stream's cars."""
    return any(math.dist(line.pose(s)[:2], (actor.x, actor.y)) < 1.5 for s in stream.cars)


def is_leader(pose: tuple[float, float, float], path: RoutePath, s: float, d: float) -> bool:
    """Whether a vehicle at this pose (x, y, yaw) drives ahead in the ego's lane; the ego is at (s, d)."""
    at, aside = path.locate(pose[0], pose[1])
    return at > s + 2.0 and abs(aside - d) < 1.3 and math.cos(pose[2] - path.pose(at)[2]) > 0.9


def touches(
    path: RoutePath, places: np.ndarray, offset: Offset, cars: np.ndarray, body: tuple[float, float], margin: float
) -> np.ndarray:
    """Whether the ego at places (R, T) touches one of the cars (3, A, T) at the same time, (R,): separating axis test.

    body: length and width of the cars; margin: clearance, m.
    """
    d = offset(places)
    slope = np.arctan((offset(places + 0.5) - d) / 0.5)
    inside = np.clip(places, 0.0, path.length)
    along = np.interp(inside, path.s, path.yaw)
    x = np.interp(inside, path.s, path.x) + (places - inside) * np.cos(along) - d * np.sin(along)
    y = np.interp(inside, path.s, path.y) + (places - inside) * np.sin(along) + d * np.cos(along)
    yaw = (along + slope)[:, None]
    dx, dy, turned = cars[0] - x[:, None], cars[1] - y[:, None], cars[2] - yaw
    c, k = np.abs(np.cos(turned)), np.abs(np.sin(turned))
    (l1, w1), (l2, w2) = (EGO_LENGTH / 2 + margin, EGO_WIDTH / 2 + margin), (body[0] / 2, body[1] / 2)
    hit = np.abs(dx * np.cos(yaw) + dy * np.sin(yaw)) < l1 + l2 * c + w2 * k
    hit &= np.abs(dy * np.cos(yaw) - dx * np.sin(yaw)) < w1 + l2 * k + w2 * c
    hit &= np.abs(dx * np.cos(cars[2]) + dy * np.sin(cars[2])) < l2 + l1 * c + w1 * k
    hit &= np.abs(dy * np.cos(cars[2]) - dx * np.sin(cars[2])) < w2 + l1 * k + w1 * c
    return np.asarray(hit.any((1, 2)))


@dataclass(frozen=True)
class GapSearch:
    """Where a profile is searched: the ego, its highest speed (`top`), the place from which on contacts no longer count
    (`until`), the cars of the stream, poses (3, A, T) and size, and their speed (`pace`)."""

    path: RoutePath
    offset: Offset
    s: float
    speed: float
    top: float
    until: float
    cars: np.ndarray
    body: tuple[float, float]
    pace: float

    def best(self, options: np.ndarray, across: float, margins: tuple[float, ...] = MARGINS_M) -> int | None:
        """Row of `options` (R, 3: acceleration held, seconds, speed afterwards) without contact that gets farthest.

        At the horizon it has to be beyond the conflict, which ends at s = `across`, or as fast as the stream.
        """
        ways, last = profiles(self.speed, options)
        places = self.s + ways
        inside = np.where(places < self.until, places, 1e7)  # beyond: far away
        enough = np.flatnonzero((places[:, -1] > min(across, self.until)) | (last > self.pace - 0.3))
        for margin in margins if len(enough) else ():
            free = enough[~touches(self.path, inside[enough], self.offset, self.cars, self.body, margin)]
            if len(free):
                return int(free[places[free].clip(max=self.until).sum(axis=1).argmax()])
        return None

    def options(self) -> np.ndarray:
        """The profiles: each of HELD for each of SECONDS, or nothing, then FULL up to the highest speed or the
        stream's."""
        held = [(FULL, 0.0), *((a, t) for a in HELD for t in SECONDS)]
        return np.array([(a, t, v) for v in {self.top, min(self.pace, self.top)} for a, t in held])


def conflict(search: GapSearch, cars: np.ndarray) -> tuple[float, float] | None:
    """First and last place of the ego's centre at which it would be touched if it stood there; None: there is none."""
    grid = np.arange(search.s, min(search.s + REACH_M, search.until), 1.0)
    if not len(grid):
        return None
    places = np.repeat(grid[:, None], len(TIMES), axis=1)
    hit = grid[touches(search.path, places, search.offset, cars, search.body, MARGINS_M[-1])]
    return (float(hit[0]), float(hit[-1])) if len(hit) else None


def through_gap(search: GapSearch, across: float, memory: GapMemory, time_s: float) -> float | None:
    """Acceleration of a profile that leads through a gap; None: there is none. across: the end of the conflict.

    That of the decision before is kept while it is free.
    """
    if memory.plan is not None:
        held, end, after = memory.plan
        if search.best(np.array([(held, max(end - time_s, 0.0), after)]), across, margins=(0.0,)) is None:
            memory.plan = None
    if memory.plan is None:
        options = search.options()
        best = search.best(options, across)
        if best is None:
            return None
        held, seconds, after = options[best].tolist()
        memory.plan = held, time_s + seconds, after
    held, end, after = memory.plan
    return held if end > time_s + 0.01 else min(FULL, 3.0 * (after - search.speed))


def bend_speed(path: RoutePath, start: float, end: float) -> float:
    """Speed at which the sharpest bend between two places has the lateral acceleration SIDEWAYS: v^2 k = a."""
    at = np.arange(max(start, 0.0), min(end, path.length - 3.0), 1.5)
    if not len(at):
        return math.inf
    before, after = np.interp([at, at + 3.0], path.s, path.yaw)
    bend = float(np.abs(after - before).max()) / 3.0
    return math.sqrt(SIDEWAYS / bend) if bend > 1e-3 else math.inf


def profiles(speed: float, options: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(metres travelled at TIMES (R, T), speed at the end (R,)) of profiles, see GapSearch.best."""
    firsts, seconds, top = options.T
    held = np.clip((seconds[:, None] - (TIMES - STEP_S)) / STEP_S, 0.0, 1.0)  # share of each step
    change = (held * firsts[:, None] + (1 - held) * FULL) * STEP_S
    v = np.full(len(options), speed)
    speeds = [v]
    for step in change.T:
        v = np.clip(v + step, 0.0, np.maximum(top, v))
        speeds.append(v)
    at = np.array(speeds).T
    return np.add.accumulate((at[:, :-1] + at[:, 1:]) / 2 * STEP_S, axis=1), at[:, -1]
