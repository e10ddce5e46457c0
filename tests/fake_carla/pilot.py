"""Autonomous actors: the traffic manager's cars on the lanes of the map, and walkers with a destination."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import carla

from closedloop_plugin.core.frames import from_carla
from fake_carla.bodies import SOLID, Body

if TYPE_CHECKING:
    from fake_carla.stage import Stage

LIMIT_KMH = 30.0
STEP_M = 2.0
CHAIN = 12  # waypoints ahead
BRAKE = 4.0  # m/s2, deceleration that drivers assume
REST_M = 2.5  # distance kept from a stationary obstacle


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
    """Follows its lane at the target speed; brakes for obstacles ahead and for lights that are not green."""

    def __init__(self, manager: Manager, body: Body, town: carla.Map) -> None:
        self.manager, self.body = manager, body
        manager.registered += 1
        self._rng = random.Random(f"{manager.seed}:{manager.registered}")
        self._chain: deque[carla.Waypoint] = deque()
        self._path = list(manager.of(body.id, "set_path", ()))
        self._last = town.get_waypoint(body.transform().location)

    def step(self, stage: Stage) -> None:
        body, m = self.body, self.body.motion
        aim = self._aim()
        control = body.control = carla.VehicleControl()
        if aim is None:
            control.brake = 1.0
            return
        x, y, _ = from_carla(aim[0], aim[1])
        bearing = math.remainder(math.atan2(y - m.y, x - m.x) - m.yaw, math.tau)
        distance = max(math.hypot(x - m.x, y - m.y), 1.0)
        control.steer = min(max(-math.atan(2 * 2.8 * math.sin(bearing) / distance) / math.radians(35), -1.0), 1.0)
        target_speed = min(self._speed(), math.sqrt(2 * BRAKE * max(0.0, self._free_distance(stage) - REST_M)))
        if target_speed < m.v - 0.3 or target_speed < 0.1:
            control.brake = min(1.0, max(0.2, (m.v - target_speed) / 3.0))
        else:
            control.throttle = min(0.8, max(0.0, 0.35 * (target_speed - m.v) + 0.15))

    def _speed(self) -> float:
        kmh = self.manager.of(self.body.id, "set_desired_speed")
        if kmh is None:
            share = self.manager.of(self.body.id, "vehicle_percentage_speed_difference")
            share = self.manager.settings.get("global_percentage_speed_difference", 0.0) if share is None else share
            kmh = LIMIT_KMH * (1 - share / 100)
        return max(0.0, kmh) / 3.6

    def _aim(self) -> tuple[float, float] | None:
        """A point some metres ahead, CARLA's axes."""
        m = self.body.motion
        ahead = 3.0 + 0.4 * abs(m.v)
        while self._path and math.hypot(self._path[0].x - m.x, -self._path[0].y - m.y) < ahead:
            self._path.pop(0)
        if self._path:
            return self._path[0].x, self._path[0].y
        while len(self._chain) < CHAIN:
            waypoints = self._last.next(STEP_M)
            if not waypoints:
                break
            self._last = waypoints[self._rng.randrange(len(waypoints))]
            self._chain.append(self._last)
        while len(self._chain) > 1 and self._distance(self._chain[0]) < ahead:
            self._chain.popleft()
        if not self._chain:
            return None
        place = self._chain[0].transform.location
        return place.x, place.y

    def _distance(self, point: carla.Waypoint) -> float:
        place, m = point.transform.location, self.body.motion
        return math.hypot(place.x - m.x, -place.y - m.y)

    def _free_distance(self, stage: Stage) -> float:
        """Distance to the next body ahead or light that is not green, m; 50 if there is none."""
        body, m = self.body, self.body.motion
        c, s = math.cos(m.yaw), math.sin(m.yaw)
        free = 50.0
        for other in stage.bodies.values():
            if other is body or other.group not in SOLID or abs(other.z - body.z) > 4.0:
                continue
            dx, dy = other.motion.x - m.x, other.motion.y - m.y
            along, aside = dx * c + dy * s, abs(dy * c - dx * s)
            if 0 < along < 50 and aside < body.half[1] + max(other.half[:2]) * 0.6:
                free = min(free, along - body.half[0] - other.half[0])
        if not self.manager.of(body.id, "ignore_lights_percentage", 0.0) >= 100.0:
            front = m.x + c * body.half[0], m.y + s * body.half[0]
            free = min(free, stage.lamp_ahead(*front, m.yaw, 50.0, closed=True)[0])
        return free


@dataclass
class Stroll:
    """A walker's AI controller: walks straight to its destination."""

    walker: Body
    goal: carla.Location | None = None
    speed: float = 1.4
    started: bool = False

    def step(self) -> None:
        m = self.walker.motion
        if not self.started or self.goal is None:
            return
        dx, dy = self.goal.x - m.x, self.goal.y + m.y
        distance = math.hypot(dx, dy)
        direction = carla.Vector3D(dx / distance, dy / distance, 0.0) if distance > 0.3 else carla.Vector3D()
        self.walker.control = carla.WalkerControl(direction, self.speed if distance > 0.3 else 0.0, False)
