"""Background traffic: cars of CARLA's traffic manager around the route, synchronous and seeded.

As in the embedded world, none starts in the ego's own lane or near the scenario's actors.
"""

from __future__ import annotations

import math
from typing import Any

import carla
import numpy as np

from closedloop_plugin.carla.world.appearance import kind_of
from closedloop_plugin.carla.world.transforms import read
from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState

MAX_CARS = 8
GRID_M = 12.0  # between possible start positions
CLEAR_M = 25.0  # from the ego; 8 m from other actors of the scene
NEAR_M = 120.0  # from the route
PHYSICS_M = 70.0  # around the ego; beyond it the traffic manager moves cars without physics
MAX_SPEED = 60.0  # m/s: a larger displacement is a jump
SLOWER = 25.0  # percent below the speed limit


def configure_manager(manager: Any, seed: int) -> None:
    """Set the traffic manager to synchronous mode with a seed and hybrid physics."""
    manager.set_synchronous_mode(True)
    manager.set_random_device_seed(seed % 2**31)
    manager.set_hybrid_physics_mode(True)
    manager.set_hybrid_physics_radius(PHYSICS_M)
    manager.set_respawn_dormant_vehicles(False)
    manager.global_percentage_speed_difference(SLOWER)


class CarlaTraffic:
    """Cars driven by CARLA's traffic manager. `bodies` are updated by `update`."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 0x7AF])
        self.actors: list[Any] = []
        self.bodies: list[SimulatedBody] = []

    def spawn(self, world: Any, manager: Any, road: RoadMap, taken: list[tuple[float, float]]) -> None:
        """Spawn up to MAX_CARS cars. `taken`: positions of the scene's objects, the ego first (map frame, m)."""
        cars = _car_blueprints(world.get_blueprint_library())
        for spot in self._start_transforms(world.get_map(), road, taken):
            if len(self.actors) >= MAX_CARS or not cars:
                break
            blueprint = cars[int(self._rng.integers(len(cars)))]
            blueprint.set_attribute("role_name", "background")
            actor = world.try_spawn_actor(blueprint, spot)
            if actor is not None:
                self._add(actor, spot)
                actor.set_autopilot(True, manager.get_port())
                manager.update_vehicle_lights(actor, True)

    def _start_transforms(self, town: Any, road: RoadMap, taken: list[tuple[float, float]]) -> list[Any]:
        """Positions in lanes near the route but not in the ego's lane, in a seeded order.

        Not CARLA's spawn points, which do not exist for a map that was generated from a file.
        """
        low, high = road.path.xy.min(axis=0) - NEAR_M, road.path.xy.max(axis=0) + NEAR_M
        found = []
        # Sorted, since CARLA does not guarantee an order.
        places = town.generate_waypoints(GRID_M)
        for waypoint in sorted(places, key=lambda w: (w.road_id, w.section_id, w.lane_id, w.s)):
            spot = waypoint.transform
            x, y, _ = from_carla(spot.location.x, spot.location.y)
            if not (low[0] < x < high[0] and low[1] < y < high[1]) or waypoint.is_junction:
                continue
            s, d = road.path.locate(x, y)
            own = abs(d) < 0.6 * road.lane_width and -10.0 < s < road.path.length + 10.0
            outside = max(-s, s - road.path.length, 0.0)
            far = math.hypot(d, outside) > NEAR_M
            crowded = any(math.dist((x, y), at) < (8.0 if i else CLEAR_M) for i, at in enumerate(taken))
            if not (own or far or crowded):
                spot.location.z += 0.5
                found.append(spot)
        return [found[int(i)] for i in self._rng.permutation(len(found))]

    def _add(self, actor: Any, where: Any) -> None:
        box = actor.bounding_box
        x, y, yaw = from_carla(where.location.x, where.location.y, where.rotation.yaw)
        size = (2 * box.extent.x, 2 * box.extent.y, 2 * box.extent.z)
        body = SimulatedBody(f"b{len(self.bodies)}", kind_of(actor), MotionState(x, y, yaw), *size, role="background")
        self.actors.append(actor)
        self.bodies.append(body)

    def update(self, snapshot: Any, dt: float) -> None:
        """Update all bodies from a snapshot; one that the server removed is gone."""
        for actor, body in zip(self.actors, self.bodies, strict=True):
            seen = snapshot.find(actor.id)
            body.gone = seen is None
            if seen is not None:
                x, y, m = body.motion.x, body.motion.y, body.motion
                read(body, seen, float(actor.bounding_box.location.x))
                if m.vx == m.vy == 0.0:  # moved without physics, far from the ego: the server reports no speed
                    dx, dy = m.x - x, m.y - y
                    if math.hypot(dx, dy) < MAX_SPEED * dt:  # else a jump
                        m.vx, m.vy = dx / dt, dy / dt
                        m.v = m.vx * math.cos(m.yaw) + m.vy * math.sin(m.yaw)
                body.steer = 0.0

    def destroy_commands(self) -> list[Any]:
        """Commands that destroy the cars."""
        return [carla.command.DestroyActor(actor.id) for actor in self.actors]


def _car_blueprints(library: Any) -> list[Any]:
    """Blueprints of ordinary cars with lamps, without emergency vehicles, in a fixed order."""
    wanted = {"base_type": "car", "special_type": "", "has_lights": "true"}  # as the leaderboard's own traffic
    return sorted((b for b in library.filter("vehicle.*") if _has_attributes(b, wanted)), key=lambda b: b.id)


def _has_attributes(blueprint: Any, wanted: dict[str, str]) -> bool:
    """Whether the blueprint has these values; a missing attribute counts as equal, except base_type.

    Values are compared by type, since str() of an attribute is a description.
    """
    for key, value in wanted.items():
        if not blueprint.has_attribute(key):
            if key == "base_type":
                return False
            continue
        attribute = blueprint.get_attribute(key)
        is_bool = attribute.type == carla.ActorAttributeType.Bool
        if (str(attribute.as_bool()).lower() if is_bool else attribute.as_str()) != value:
            return False
    return True
