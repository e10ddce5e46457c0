"""A route's points -> what it drives of carla.Map's lanes: the cheapest chain of ways from point to point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.carla.maps.lanes import CarlaLanes
from closedloop_plugin.carla.maps.search import Search, Stretch, Way
from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.plan import eased
from closedloop_plugin.maps.trace import ASKEW, Spot, foot
from lmms_eval_ad2.errors import Ad2Error

DENSE = 10.0  # m: points nearer than this say the lane's direction, and where lanes change, whatever the marks say
CHANGE_M = 20.0  # m along the road in which a lane change happens, where there is room


def trace(route: Route, lanes: CarlaLanes) -> list[Way]:
    """One Way between each two points, the cheapest in sum (dynamic programming over the lanes at each point)."""
    p = np.array(route.points)
    options = [_spots(p, k, lanes, route) for k in range(len(p))]
    best: list[dict[int, tuple[float, int, Way | None]]] = [{i: (o.off**2, -1, None) for i, o in enumerate(options[0])}]
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
    before: dict[int, tuple[float, int, Way | None]],
    options: list[list[Spot]],
    chord: float,
    limit: float,
) -> dict[int, tuple[float, int, Way | None]]:
    """For each spot of a point its cheapest way: (cost from the route's start, spot of the point before, way)."""
    here: dict[int, tuple[float, int, Way | None]] = {}
    for j, spot in enumerate(options[1]):
        search = Search(lanes, (spot.lane, spot.s), strict=chord > DENSE)
        for i, (cost, _, _) in before.items():
            way = search.way((options[0][i].lane, options[0][i].s), limit)
            if way is None:
                continue
            total = cost + spot.off**2 + 0.5 * abs(way.length - chord) + way.extra
            if j not in here or total < here[j][0]:
                here[j] = (total, i, way)
    return here


def _spots(p: np.ndarray, k: int, lanes: CarlaLanes, route: Route) -> list[Spot]:
    steps = [p[i + 1] - p[i] for i in (k - 1, k) if 0 <= i < len(p) - 1]
    step = min(steps, key=lambda v: float(np.hypot(*v)))
    said = float(np.hypot(*step)) <= DENSE  # else the direction between points is no lane's
    yaw = math.atan2(step[1], step[0])
    x, y = p[k]
    spots = []
    for key in lanes.near(x, y):
        s, off, heading = foot(lanes[key].lane, p[k])
        if not said or abs(wrap(heading - yaw)) < ASKEW:
            spots.append(Spot(key, s, off))
    if not spots:
        raise Ad2Error(
            f"{lanes.name}: route {route.id}: its point {k} ({x:.1f}, {y:.1f}) lies on no lane; "
            f"the route is of {route.town}: load that town"
        )
    return spots


@dataclass(frozen=True)
class Line:
    """What is driven: its points with their heights (N, 3), and (from, to, side) of its lane changes, also points."""

    points: np.ndarray
    changes: tuple[tuple[np.ndarray, np.ndarray, int], ...]


def line(lanes: CarlaLanes, ways: list[Way]) -> Line:
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
    return Line(np.vstack(out), tuple(changes))


def _runs(way: Way) -> list[tuple[int, list[Stretch]]]:
    """The stretches between lane changes, each run with the side of the change that it begins with."""
    runs: list[tuple[int, list[Stretch]]] = []
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
