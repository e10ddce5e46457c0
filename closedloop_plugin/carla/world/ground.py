"""The ground of one episode: surfaces from CARLA's own map, and heights by following the route's deck."""

from __future__ import annotations

import math

import numpy as np

from closedloop_plugin.carla.maps.ground import CarlaGround
from closedloop_plugin.core.state import Surface
from closedloop_plugin.maps.base import RoadMap

REACH = 1.5  # m before and behind, for the slope


class Ground:
    """`heights`: z of the route's own road along its path, so that what is near it stands on the right deck of two."""

    def __init__(self, town: CarlaGround, road: RoadMap) -> None:
        self._town, self._path = town, road.path
        self._heights = town.heights(road.path, float(road.facts.get("start_z", 0.0)))

    def surface(self, x: float, y: float, way: float) -> Surface:
        return self._town.surface(x, y, way, self._near(x, y))

    def height(self, x: float, y: float) -> float:
        """z of the road below a point, m."""
        return self._town.height(x, y, self._near(x, y))

    def _near(self, x: float, y: float) -> float:
        """z of the route at its place nearest to a point."""
        return float(np.interp(self._path.locate(x, y)[0], self._path.s, self._heights))

    def slope(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """(z, pitch in degrees, nose up > 0) of a vehicle there."""
        dx, dy = REACH * math.cos(yaw), REACH * math.sin(yaw)
        front, back = self.height(x + dx, y + dy), self.height(x - dx, y - dy)
        return 0.5 * (front + back), math.degrees(math.atan2(front - back, 2 * REACH))
