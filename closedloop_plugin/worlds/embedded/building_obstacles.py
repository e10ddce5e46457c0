"""Buildings as fixed obstacles for an ego that has left the road: those of the camera's scenery, built on first use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from closedloop_plugin.core.state import ActorKind, DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from closedloop_plugin.worlds.bridge.ground import NetworkGround

BESIDE_M = 4.5  # within this distance of the route there is no building
REACH_M = 25.0  # farther buildings are not tested for collisions


class BuildingObstacles:
    """The buildings of one route. `near` is called at every tick and is cheap on the road."""

    def __init__(self, network: Any, road: RoadMap, ground: NetworkGround, seed: int) -> None:
        self._scenery_args = network, road, seed
        self._ground = ground
        self._rows: np.ndarray | None = None
        self._bodies: dict[int, SimulatedBody] = {}

    def near(self, x: float, y: float, aside: float) -> list[SimulatedBody]:
        """Fixed bodies around (x, y), which is `aside` metres from the route; empty while it is on a road."""
        if abs(aside) < BESIDE_M or self._ground.surface(x, y, 0.0) is not DrivingSurface.OFF:
            return []
        if self._rows is None:
            self._rows = _building_rows(*self._scenery_args)
        close = np.flatnonzero(np.hypot(self._rows[:, 0] - x, self._rows[:, 1] - y) < REACH_M)
        return [self._body(int(i), self._rows[i]) for i in close]

    def _body(self, index: int, row: np.ndarray) -> SimulatedBody:
        if index not in self._bodies:
            x, y, yaw, length, width, height = map(float, row[:6])
            motion = MotionState(x, y, math.remainder(yaw, math.tau))
            self._bodies[index] = SimulatedBody(
                id=f"house{index}",
                kind=ActorKind.BLOCKER,
                motion=motion,
                length=length,
                width=width,
                height=height,
                fixed=True,
            )
        return self._bodies[index]


def _building_rows(network: Any, road: RoadMap, seed: int) -> np.ndarray:
    from closedloop_plugin.worlds.embedded.camera.network_scenery import scenery_of

    return scenery_of(network, road, seed).buildings
