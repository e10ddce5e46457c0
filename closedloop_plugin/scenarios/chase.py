"""Follow a Rail with pedals, wheel or legs: what actors do in simulators that know no rails (Newtonian, CARLA)."""

from __future__ import annotations

import math
from typing import Any

from scenic.core.simulators import Action

from closedloop_plugin.frames import scenic_heading, to_ego, yaw_of_heading
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import Stage

WHEELBASE = 2.9  # m, of a usual car; the loop is closed over the pose, so a rough value does
WHEEL_LIMIT = math.radians(70)  # what steer = 1 means in CARLA


class Chase(Action):
    """One tick along the rail: the rail runs ahead, the actor is steered after it."""

    def __init__(self, rail: Rail, stage: Stage) -> None:
        self.rail, self.stage = rail, stage

    def applyTo(self, obj: Any, sim: Any) -> None:
        rail = self.rail
        rail.advance(sim.timestep, self._allowed())
        if hasattr(obj, "setWalkingSpeed"):
            self._walk(obj)
        elif hasattr(obj, "setThrottle"):
            self._drive(obj)

    def _allowed(self) -> float:
        """The ego ahead in the rail's corridor: stop short of it (other actors keep their own gaps)."""
        rail, ego = self.rail, self.stage.ego
        if rail.gap is None or ego is None:
            return math.inf
        s, d = rail.path.locate(float(ego.position[0]), float(ego.position[1]), near=rail.s, reach=60.0)
        left = (s - rail.s) * rail.direction - 4.7 - rail.gap
        if abs(d - rail.d) > 2.0 or left < -4.7:
            return math.inf
        speed = rail.now or 0.0
        closing = speed - self.stage.ego_speed
        return -closing * closing / (2 * max(left, 0.3)) if closing > 0 else math.inf

    def _walk(self, obj: Any) -> None:
        x, y, yaw = self.rail.pose()
        dx, dy = x - float(obj.position[0]), y - float(obj.position[1])
        behind = math.hypot(dx, dy)
        if behind > 0.3:
            yaw = math.atan2(dy, dx)
        obj.setWalkingDirection(scenic_heading(yaw))
        obj.setWalkingSpeed((self.rail.now or 0.0) + min(behind, 1.0) * 0.5 if self.rail.now else 0.0)

    def _drive(self, obj: Any) -> None:
        """Pure pursuit for the wheel, a proportional controller for the pedals."""
        rail, speed = self.rail, float(obj.speed or 0.0)
        ahead = max(3.0, 0.8 * speed)
        ax, ay, _ = rail.path.pose(rail.s + rail.direction * ahead, rail.d)
        yaw = yaw_of_heading(float(obj.heading))
        forward, left = to_ego(ax, ay, float(obj.position[0]), float(obj.position[1]), yaw)
        reach = max(forward * forward + left * left, 1.0)
        wheel = math.atan(2 * left / reach * WHEELBASE)
        obj.setSteering(min(max(-wheel / WHEEL_LIMIT, -1.0), 1.0))
        wanted = (rail.now or 0.0) + 0.4 * (forward - ahead)
        error = wanted - speed if rail.now else -1.0
        obj.setThrottle(min(max(0.6 * error, 0.0), 1.0))
        obj.setBraking(min(max(-0.5 * error, 0.0), 1.0))
