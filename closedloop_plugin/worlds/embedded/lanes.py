"""Where background traffic may go: chains of lanes beside the ego's route, and pavements. Built once an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.path import Path
from closedloop_plugin.core.state import Surface
from closedloop_plugin.worlds.bridge.ground import Ground
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import Stage

NEAR_M = 120.0  # of the route: lanes farther off are left empty
OWN_LANE = 0.6  # share of a lane width beside the path that still is the ego's own
JUNCTION_CLEAR_M = 20.0  # of a junction of the route: nobody drives through
SHORTEST_M = 30.0
EDGE_M = 0.75  # beyond a lane's right edge: where one cycles, and cars in the lane get past
EGO_CLEAR_M = 5.0  # of the ego's path: cyclists stay farther off
SAME_LANE_M = 2.4  # a rail may keep to one side, or come over the middle line


def ways(network: Any, stage: Stage, rails: Sequence[Rail] = ()) -> list[Path]:
    """Lines to drive, in traffic direction: none leads through a junction of the route, along the ego's lane, or
    along a rail of the scenario's own actors."""
    busy = _route_junctions(network, stage)
    free = [lane for lane in network.lanes if _usable(lane, stage, busy)]
    starts = [lane for lane in free if lane._predecessor not in free]
    lent = [np.array([rail.path.pose(s, rail.d)[:2] for s in _ahead(rail)]) for rail in rails]
    found = []
    for first in starts:
        chain, lane = [], first
        while lane is not None and lane in free and lane not in chain:
            chain.append(lane)
            lane = lane._successor
        if _ends_in(chain[-1], busy):
            continue  # it would have to vanish at the stop line
        way = Path(np.vstack([_line(lane) for lane in chain]), step=1.0)
        if way.length >= SHORTEST_M and not any(_shares(way, line) for line in lent):
            found.append(way)
    return found


def pavements(network: Any, stage: Stage) -> list[Path]:
    """Lines to walk near the route, both ways."""
    found = []
    for walk in network.sidewalks:
        line = _line(walk)
        if _distance(line, stage.road.path) > 25.0:
            continue
        way = Path(line, step=1.0)
        if way.length >= 15.0:
            found += [way, Path(line[::-1], step=1.0)]
    return found


def edges(found: Sequence[Path], stage: Stage, ground: Ground) -> list[tuple[Path, float]]:
    """Where one may cycle: (way, metres to its left, negative) on the shoulder along the whole way, far from the ego's
    path."""
    aside = -(0.5 * stage.road.lane_width + EDGE_M)
    return [(way, aside) for way in found if all(_beside(way, s, aside, stage, ground) for s in _every(way))]


def _every(way: Path) -> np.ndarray:
    return np.arange(0.0, way.length, 10.0)


def _beside(way: Path, s: float, aside: float, stage: Stage, ground: Ground) -> bool:
    x, y, yaw = way.pose(s, aside)
    gaps = np.hypot(*(stage.road.path.xy[::4] - (x, y)).T)
    return float(gaps.min()) > EGO_CLEAR_M and ground.surface(x, y, yaw) is Surface.SHOULDER


def _usable(lane: Any, stage: Stage, busy: list[Any]) -> bool:
    line = _line(lane)
    if any(_crosses(lane, junction) for junction in busy):
        return False
    path = stage.road.path
    if _distance(line, path) > NEAR_M:
        return False
    own = OWN_LANE * stage.road.lane_width
    for x, y in line[::3]:
        s, d = path.locate(float(x), float(y))
        if abs(d) < own and 0.0 < s < path.length:
            return False
    return True


def _route_junctions(network: Any, stage: Stage) -> list[Any]:
    """The intersections that the route runs through, or nearly."""
    import shapely

    line = shapely.LineString(stage.road.path.xy)
    return [i for i in network.intersections if i.polygon.distance(line) < JUNCTION_CLEAR_M]


def _crosses(lane: Any, junction: Any) -> bool:
    return any(lane is m.connectingLane for m in junction.maneuvers)


def _ends_in(lane: Any, busy: list[Any]) -> bool:
    return any(lane is m.startLane for junction in busy for m in junction.maneuvers)


def _ahead(rail: Rail) -> np.ndarray:
    """Places along a rail from where it is to its end, 5 m apart."""
    return np.arange(rail.s, rail.path.length, 5.0) if rail.direction > 0 else np.arange(rail.s, 0.0, -5.0)


def _shares(way: Path, line: np.ndarray) -> bool:
    """A rail (its points) runs in this way's lane for 15 m or more."""
    if not len(line):
        return False
    gaps = np.sqrt(((line[:, None, :] - way.xy[None, ::2, :]) ** 2).sum(-1)).min(axis=1)
    return int((gaps < SAME_LANE_M).sum()) >= 3


def _distance(line: np.ndarray, path: Path) -> float:
    """Smallest distance between a polyline's points and the path, m, to within a few metres."""
    gaps = line[:: max(1, len(line) // 20), None, :] - path.xy[None, ::8, :]
    return float(np.sqrt((gaps**2).sum(-1)).min())


def _line(element: Any) -> np.ndarray:
    """The middle line, 2 m apart: Scenic's own may have two points on a kilometre of straight road."""
    return Path([tuple(p)[:2] for p in element.centerline.points], step=2.0).xy
