"""Surface and height at a point of a CARLA town, on the level of the episode's route."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.towns.lanes import DRIVABLE, STEP, LaneNetwork, read_town

BESIDE = ("shoulder", "parking", "biking")
LEVEL_M = 4.0  # m between a place and a lane on its level; levels of a bridge are farther apart
WIDEST_M = 6.0  # half width of a lane, at most
REACH = 1.5  # m ahead and behind, for the slope


class TownGround:
    """Surfaces and heights of a town. Positions in the map frame, m.

    `near`: a height close to the wanted one, such as the car's; it selects the road where roads cross on two levels.
    """

    def __init__(self, town: LaneNetwork) -> None:
        lanes = [lane for lane in town.lanes.values() if lane.kind != "none"]
        xyz = [np.column_stack([lane.centre, lane.height]) for lane in lanes]
        ahead = [np.gradient(points, axis=0) for points in xyz]
        self._lanes = lanes
        self._lane = np.repeat(np.arange(len(lanes)), [len(points) for points in xyz])
        self._half = np.concatenate([np.hypot(*(lane.left - lane.right).T) / 2 for lane in lanes])
        self._xyz, self._ahead = np.vstack(xyz), np.vstack(ahead)
        self._ahead /= np.maximum(np.hypot(*self._ahead[:, :2].T), 1e-9)[:, None]  # per metre
        self._tree = cKDTree(self._xyz)

    def surface(self, x: float, y: float, way: float, near: float = 0.0) -> DrivingSurface:
        """Surface at (x, y). `way`: legal direction of travel there, rad; a lane against it is ONCOMING."""
        i = np.array(self._tree.query_ball_point((x, y, near), math.hypot(LEVEL_M, WIDEST_M)), dtype=int)
        offset, ahead = np.array((x, y)) - self._xyz[i, :2], self._ahead[i, :2]
        along = (offset * ahead).sum(axis=1)
        aside = np.abs(ahead[:, 0] * offset[:, 1] - ahead[:, 1] * offset[:, 0])
        i = i[(np.abs(along) <= STEP) & (aside <= self._half[i]) & (np.abs(self._xyz[i, 2] - near) <= LEVEL_M)]
        found = {self._lanes[k].kind for k in self._lane[i]}
        if not found & set(DRIVABLE):
            return DrivingSurface.SHOULDER if found & set(BESIDE) else DrivingSurface.OFF
        for k in i:
            lane = self._lanes[self._lane[k]]
            free = lane.junction >= 0 or lane.kind == "bidirectional"
            legal = self._ahead[k, :2] @ (math.cos(way), math.sin(way)) > 0
            if lane.kind in DRIVABLE and (free or legal):
                return DrivingSurface.LANE
        return DrivingSurface.ONCOMING

    def height(self, x: float, y: float, near: float = 0.0) -> float:
        """Height of the nearest lane of any kind, m."""
        i = self._tree.query((x, y, near))[1]
        along = (np.array((x, y)) - self._xyz[i, :2]) @ self._ahead[i, :2]
        return float(self._xyz[i, 2] + np.clip(along, -STEP, STEP) * self._ahead[i, 2])


class CarlaRouteGround:
    """Ground of one episode: resolves levels by the height of the route at its nearest point."""

    def __init__(self, road: RoadMap) -> None:
        self._town, self._path = TownGround(read_town(road.file)), road.path
        self._heights = self.along(road.path, float(road.facts.get("start_z", 0.0)))

    def along(self, path: RoutePath, start: float) -> np.ndarray:
        """Road height at every point of `path.xy`; each is searched near the previous one, from `start`."""
        out, z = [], start
        for x, y in path.xy:
            z = self._town.height(float(x), float(y), z)
            out.append(z)
        return np.array(out)

    def surface(self, x: float, y: float, way: float) -> DrivingSurface:
        return self._town.surface(x, y, way, self._near(x, y))

    def height(self, x: float, y: float) -> float:
        """z of the road below a point, m."""
        return self._town.height(x, y, self._near(x, y))

    def _near(self, x: float, y: float) -> float:
        """z of the route at its point nearest to (x, y)."""
        return float(np.interp(self._path.locate(x, y)[0], self._path.s, self._heights))

    def slope(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """(z in m, pitch in degrees, nose up > 0) of a vehicle at a pose: atan2 of the rise over 2 REACH."""
        dx, dy = REACH * math.cos(yaw), REACH * math.sin(yaw)
        front, back = self.height(x + dx, y + dy), self.height(x - dx, y - dy)
        return 0.5 * (front + back), math.degrees(math.atan2(front - back, 2 * REACH))
