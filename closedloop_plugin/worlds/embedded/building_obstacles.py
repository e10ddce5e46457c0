"""Buildings that an ego which has left the road runs into: the camera's own, solid. Nothing is built before that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from closedloop_plugin.core.state import ActorKind, DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from closedloop_plugin.worlds.bridge.ground import NetworkGround

BESIDE_M = 4.5  # of the route: nearer than this stands no house, and nobody looks for one
REACH_M = 25.0  # of the ego: farther houses are not tried


class BuildingObstacles:
    """The houses of one route. `near` is asked at every tick and costs nothing on the road."""

    def __init__(self, network: Any, road: RoadMap, ground: NetworkGround, seed: int) -> None:
        self._made_of = network, road, seed
        self._ground = ground
        self._rows: np.ndarray | None = None
        self._bodies: dict[int, SimulatedBody] = {}

    def near(self, x: float, y: float, aside: float) -> list[SimulatedBody]:
        """Fixed bodies about a place that is `aside` metres from the route; none while the place is on a road."""
        if abs(aside) < BESIDE_M or self._ground.surface(x, y, 0.0) is not DrivingSurface.OFF:
            return []
        if self._rows is None:
            self._rows = _houses(*self._made_of)
        close = np.flatnonzero(np.hypot(self._rows[:, 0] - x, self._rows[:, 1] - y) < REACH_M)
        return [self._body(int(i), self._rows[i]) for i in close]

    def _body(self, index: int, row: np.ndarray) -> SimulatedBody:
        if index not in self._bodies:
            x, y, yaw, length, width, height = map(float, row[:6])
            motion = MotionState(x, y, math.remainder(yaw, math.tau))
            self._bodies[index] = SimulatedBody(
                f"house{index}", ActorKind.BLOCKER, motion, length, width, height, fixed=True
            )
        return self._bodies[index]


def _houses(network: Any, road: RoadMap, seed: int) -> np.ndarray:
    from closedloop_plugin.worlds.embedded.camera.network_scenery import scenery_of

    return scenery_of(network, road, seed).buildings
