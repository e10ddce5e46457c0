"""Surface and height at a point of a CARLA town, from its carla.Map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import from_carla, to_carla
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from lmms_eval_ad2.core.errors import require


class CarlaGround:
    """Surfaces and heights of one town. Positions in the map frame, m.

    `near`: a height close to the wanted one, such as the car's; it selects the road where roads cross on two levels.
    """

    def __init__(self, town_map: Any) -> None:
        self._map = town_map
        carla = require("carla", "to read a CARLA map")
        self._location = carla.Location
        kinds = carla.LaneType
        self._bidirectional = kinds.Bidirectional
        self._driving = kinds.Driving | kinds.Bidirectional | kinds.Entry | kinds.Exit | kinds.OnRamp | kinds.OffRamp
        self._beside = (kinds.Shoulder, kinds.Parking, kinds.Biking)
        self._any = kinds.Any

    def surface(self, x: float, y: float, way: float, near: float = 0.0) -> DrivingSurface:
        """Surface at (x, y). `way`: legal direction of travel there, rad; a lane against it is ONCOMING."""
        place = self._at(x, y, near)
        lane = self._map.get_waypoint(place, project_to_road=False, lane_type=self._driving)
        if lane is not None:
            if lane.is_junction or lane.lane_type == self._bidirectional:
                return DrivingSurface.LANE
            yaw = from_carla(0.0, 0.0, lane.transform.rotation.yaw)[2]
            return DrivingSurface.LANE if math.cos(yaw - way) > 0 else DrivingSurface.ONCOMING
        return DrivingSurface.SHOULDER if self._is_beside(place) else DrivingSurface.OFF

    def _is_beside(self, place: Any) -> bool:
        """Whether a place is on a shoulder, parking or bicycle lane.

        CARLA returns the lane with the nearest centre line, which beside a narrow lane may be the wrong one, so its
        neighbours are checked too.
        """
        nearest = self._map.get_waypoint(place, lane_type=self._any)
        for lane in (nearest, nearest.get_left_lane(), nearest.get_right_lane()):
            if lane is not None and lane.lane_type in self._beside:
                middle = lane.transform.location
                if math.hypot(middle.x - place.x, middle.y - place.y) <= lane.lane_width / 2:
                    return True
        return False

    def height(self, x: float, y: float, near: float = 0.0) -> float:
        """Height of the nearest lane of any kind, m."""
        return float(self._map.get_waypoint(self._at(x, y, near), lane_type=self._any).transform.location.z)

    def heights(self, path: RoutePath, start: float) -> np.ndarray:
        """Road height at every point of `path.xy`. `start`: height near its start.

        Each height is searched near the previous one, so that the path stays on its level.
        """
        out, z = [], start
        for x, y in path.xy:
            z = self.height(float(x), float(y), z)
            out.append(z)
        return np.array(out)

    def _at(self, x: float, y: float, z: float) -> Any:
        cx, cy, _ = to_carla(x, y)
        return self._location(cx, cy, z)


REACH = 1.5  # m ahead and behind, for the slope


class CarlaRouteGround:
    """Ground of one episode: resolves levels by the height of the route at its nearest point."""

    def __init__(self, town: CarlaGround, road: RoadMap) -> None:
        self._town, self._path = town, road.path
        self._heights = town.heights(road.path, float(road.facts.get("start_z", 0.0)))

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
