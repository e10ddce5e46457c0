"""Autonomous actors: the traffic manager's cars on the lanes of the map, and walkers with a destination."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import carla

from closedloop_plugin.core.frames import from_carla
from fake_carla.bodies import SOLID, Being

if TYPE_CHECKING:
    from fake_carla.stage import Stage

LIMIT_KMH = 30.0
STEP_M = 2.0
CHAIN = 12  # waypoints ahead
BRAKE = 4.0  # m/s2 that it plans with
REST_M = 2.5  # stays so far behind what stands


@dataclass
class Manager:
    """Settings of a traffic manager; those that the fake does not implement are only stored."""

    port: int
    seed: int = 0
    registered: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # global: name -> value
    actor_settings: dict[int, dict[str, Any]] = field(default_factory=dict)  # actor id -> name -> value

    def of(self, actor: int, name: str, default: Any = None) -> Any:
        return self.actor_settings.get(actor, {}).get(name, default)


class Driver:
    """Follows its lane at the wanted speed, brakes for what is ahead and for lights that are not green."""

    def __init__(self, manager: Manager, being: Being, town: carla.Map) -> None:
        self.manager, self.being = manager, being
        manager.registered += 1
        self._dice = random.Random(f"{manager.seed}:{manager.registered}")
        self._chain: deque[carla.Waypoint] = deque()
        self._path = list(manager.of(being.id, "set_path", ()))
        self._last = town.get_waypoint(being.transform().location)

    def step(self, stage: Stage) -> None:
        being, m = self.being, self.being.motion
        aim = self._aim()
        control = being.control = carla.VehicleControl()
        if aim is None:
            control.brake = 1.0
            return
        x, y, _ = from_carla(aim[0], aim[1])
        bend = math.remainder(math.atan2(y - m.y, x - m.x) - m.yaw, math.tau)
        reach = max(math.hypot(x - m.x, y - m.y), 1.0)
        control.steer = min(max(-math.atan(2 * 2.8 * math.sin(bend) / reach) / math.radians(35), -1.0), 1.0)
        wanted = min(self._speed(), math.sqrt(2 * BRAKE * max(0.0, self._free(stage) - REST_M)))
        if wanted < m.v - 0.3 or wanted < 0.1:
            control.brake = min(1.0, max(0.2, (m.v - wanted) / 3.0))
        else:
            control.throttle = min(0.8, max(0.0, 0.35 * (wanted - m.v) + 0.15))

    def _speed(self) -> float:
        kmh = self.manager.of(self.being.id, "set_desired_speed")
        if kmh is None:
            share = self.manager.of(self.being.id, "vehicle_percentage_speed_difference")
            share = self.manager.settings.get("global_percentage_speed_difference", 0.0) if share is None else share
            kmh = LIMIT_KMH * (1 - share / 100)
        return max(0.0, kmh) / 3.6

    def _aim(self) -> tuple[float, float] | None:
        """A point some metres ahead, CARLA's axes."""
        m = self.being.motion
        ahead = 3.0 + 0.4 * abs(m.v)
        while self._path and math.hypot(self._path[0].x - m.x, -self._path[0].y - m.y) < ahead:
            self._path.pop(0)
        if self._path:
            return self._path[0].x, self._path[0].y
        while len(self._chain) < CHAIN:
            ways = self._last.next(STEP_M)
            if not ways:
                break
            self._last = ways[self._dice.randrange(len(ways))]
            self._chain.append(self._last)
        while len(self._chain) > 1 and self._distance(self._chain[0]) < ahead:
            self._chain.popleft()
        if not self._chain:
            return None
        place = self._chain[0].transform.location
        return place.x, place.y

    def _distance(self, point: carla.Waypoint) -> float:
        place, m = point.transform.location, self.being.motion
        return math.hypot(place.x - m.x, -place.y - m.y)

    def _free(self, stage: Stage) -> float:
        """Metres to the next body or closed light on the way; 50 where there is nothing."""
        being, m = self.being, self.being.motion
        c, s = math.cos(m.yaw), math.sin(m.yaw)
        free = 50.0
        for other in stage.beings.values():
            if other is being or other.group not in SOLID or abs(other.z - being.z) > 4.0:
                continue
            dx, dy = other.motion.x - m.x, other.motion.y - m.y
            along, aside = dx * c + dy * s, abs(dy * c - dx * s)
            if 0 < along < 50 and aside < being.half[1] + max(other.half[:2]) * 0.6:
                free = min(free, along - being.half[0] - other.half[0])
        if not self.manager.of(being.id, "ignore_lights_percentage", 0.0) >= 100.0:
            front = m.x + c * being.half[0], m.y + s * being.half[0]
            free = min(free, stage.lamp_ahead(*front, m.yaw, 50.0, closed=True)[0])
        return free


@dataclass
class Stroll:
    """A walker's AI controller: straight to its destination."""

    walker: Being
    goal: carla.Location | None = None
    speed: float = 1.4
    going: bool = False

    def step(self) -> None:
        m = self.walker.motion
        if not self.going or self.goal is None:
            return
        dx, dy = self.goal.x - m.x, self.goal.y + m.y
        far = math.hypot(dx, dy)
        way = carla.Vector3D(dx / far, dy / far, 0.0) if far > 0.3 else carla.Vector3D()
        self.walker.control = carla.WalkerControl(way, self.speed if far > 0.3 else 0.0, False)
