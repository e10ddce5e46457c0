"""Surface under a point of a Scenic road network, and the path straight ahead through it, for users' programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import DrivingSurface

# m between the end of a lane and the beginning of the next. Scenic links the lanes of a junction whose file lists lane
# links of both directions back into it; in Town01, 02 and 10HD, linked lanes are at most 0.22 m apart.
JOINT_M = 2.0
ON_ROUTE_M = 12.0  # within this distance the route defines the legal direction, beyond it the ego's heading


class NetworkGround:
    """Surfaces of one Scenic network, in spatial indexes. Map frame."""

    def __init__(self, network: Any) -> None:
        self._lanes = list(network.lanes)
        self._lane_tree = shapely.STRtree([_shape(lane) for lane in self._lanes])
        beside = (*network.shoulders, *(group._bikeLane for group in network.laneGroups))
        self._beside_tree = shapely.STRtree([_shape(e) for e in beside if e is not None])
        self._junction_tree = shapely.STRtree([_shape(e) for e in network.intersections])
        self._paths: dict[int, RoutePath] = {}

    def surface(self, x: float, y: float, way: float) -> DrivingSurface:
        """Surface at (x, y). `way`: legal direction of travel there, rad; a lane against it is ONCOMING."""
        point = shapely.Point(x, y)
        lanes = self._lane_tree.query(point, predicate="intersects")
        if len(self._junction_tree.query(point, predicate="intersects")):
            return DrivingSurface.LANE
        if len(lanes):
            along = any(math.cos(self.direction(int(i), x, y) - way) > 0 for i in lanes)
            return DrivingSurface.LANE if along else DrivingSurface.ONCOMING
        beside = self._beside_tree.query(point, predicate="intersects")
        return DrivingSurface.SHOULDER if len(beside) else DrivingSurface.OFF

    def direction(self, lane: int, x: float, y: float) -> float:
        """Yaw of the lane's traffic near (x, y), rad."""
        if lane not in self._paths:
            self._paths[lane] = RoutePath(_line(self._lanes[lane]), step=2.0)
        way = self._paths[lane]
        return way.pose(way.locate(x, y)[0])[2]


def path_ahead(network: Any, x: float, y: float, yaw: float, metres: float, turns: Sequence[str] = ()) -> RoutePath:
    """Path along the lane at a pose, with the least turn through junctions; a straight line if it is off the road.

    turns: "left", "right" or "straight" at the first junctions, where the lane has such a way.

    It is shorter than `metres` if no lane begins where the last one ends.
    """
    tree = shapely.STRtree([_shape(lane) for lane in network.lanes])
    near = [network.lanes[int(i)] for i in tree.query(shapely.Point(x, y), predicate="intersects")]
    best = max(near, key=lambda lane: _alignment(lane, x, y, yaw), default=None)
    if best is None:
        return RoutePath([(x, y), (x + metres * math.cos(yaw), y + metres * math.sin(yaw))])
    line = RoutePath(_line(best))
    start = line.locate(x, y)[0]
    points = [line.pose(s)[:2] for s in np.arange(start, line.length, 1.0)] + [
        line.pose(max(start + 1.0, line.length))[:2]
    ]
    lane, length = best, line.length - start
    left = list(turns)
    while length < metres and (following := _successor(lane, left)) is not None:
        lane = following
        piece = RoutePath(_line(lane))
        points += [tuple(p) for p in piece.xy[1:]]
        length += piece.length
    path = RoutePath(points)
    keep = np.array([path.pose(s)[:2] for s in np.arange(0.0, min(path.length, metres) + 0.1, 0.5)])
    return RoutePath(keep) if len(keep) > 1 else path


def _successor(lane: Any, turns: list[str]) -> Any:
    """The following lane: by the first of `turns` at a junction, which is removed, else the straightest."""
    ways = [m for m in lane.maneuvers or () if m.connectingLane is not None and joined(lane, m.connectingLane)]
    if not (turns and ways):
        return _straightest_successor(lane)
    wanted = turns.pop(0)
    chosen = next((m for m in ways if m.type.name.lower().startswith(wanted)), None)
    return chosen.connectingLane if chosen else _straightest_successor(lane)


def _straightest_successor(lane: Any) -> Any:
    """The following lane with the smallest change of yaw, of those that begin where this one ends; None without."""
    linked = [m.connectingLane or m.endLane for m in lane.maneuvers or ()]
    linked = [o for o in linked if o is not None] or ([lane._successor] if lane._successor is not None else [])
    return min((other for other in linked if joined(lane, other)), key=_turn, default=None)


def joined(lane: Any, other: Any) -> bool:
    """True if `other`, None or a lane that the map links to `lane`, begins at its end, in its direction."""
    if lane is None or other is None:
        return False
    end, start = _line(lane)[-2:], _line(other)[:2]
    near = math.dist(end[-1], start[0]) <= JOINT_M
    return near and float(np.dot(end[-1] - end[0], start[-1] - start[0])) > 0


def _turn(lane: Any) -> float:
    yaw = RoutePath(_line(lane), step=2.0).yaw
    return abs(float(yaw[-1] - yaw[0]))


def _alignment(lane: Any, x: float, y: float, yaw: float) -> float:
    line = RoutePath(_line(lane))
    return math.cos(line.pose(line.locate(x, y)[0])[2] - yaw)


def _line(element: Any) -> np.ndarray:
    return np.asarray([tuple(p)[:2] for p in element.centerline.points])


def _shape(element: Any) -> Any:
    polygon = element.polygon
    return polygon if polygon.is_valid else polygon.buffer(0)
