"""The town's traffic: cars of CARLA's traffic manager around the route, synchronous and seeded, and its lights.

As in the embedded world, no car starts in the ego's own lane or near the scenario's actors, and our own cycle sets the
lights (bodies/traffic_lights.py): the same seed then gives the same states, and a program holds them. CARLA's own
timers cannot be seeded.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from typing import Any

import carla
import numpy as np

from closedloop_plugin.carla.world.conversions import kind_of, read
from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.state import SignalState
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
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
                extent = actor.bounding_box.extent
                motion = MotionState(*from_carla(spot.location.x, spot.location.y, spot.rotation.yaw))
                size = (2 * extent.x, 2 * extent.y, 2 * extent.z)
                name = f"b{len(self.bodies)}"
                self.actors.append(actor)
                self.bodies.append(SimulatedBody(name, kind_of(actor), motion, *size, role="background"))
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


STATES = {
    SignalState.RED: carla.TrafficLightState.Red,
    SignalState.YELLOW: carla.TrafficLightState.Yellow,
    SignalState.GREEN: carla.TrafficLightState.Green,
}
RETRY_TICKS = 20  # ticks between searches for missing lights: those in far tiles of a large map are loaded later


class CarlaTrafficLights:
    """Lights of one episode's stop lines (a line's id is its light's OpenDRIVE signal id). The others stay frozen."""

    def __init__(self, world: Any, lights: TrafficLightCycle) -> None:
        self._world, self._lights = world, lights
        self._actors: dict[str, Any] = {}
        self._shown: dict[str, SignalState] = {}
        self._calls = 0
        world.reset_all_traffic_lights()
        world.freeze_all_traffic_lights(True)
        self.update()

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of lines whose light has not been found on the server."""
        return tuple(line.id for line in self._lights.lines if line.id not in self._actors)

    def update(self) -> None:
        """Set the lights whose state has changed."""
        if self._calls % RETRY_TICKS == 0:
            for name in self.missing:
                actor = self._world.get_traffic_light_from_opendrive_id(name)
                if actor is not None:
                    self._actors[name] = actor
        self._calls += 1
        for name, actor in self._actors.items():
            state = self._lights.state[name]
            if self._shown.get(name) is not state:
                actor.set_state(STATES[state])
                self._shown[name] = state

    def hold(self, light: Any, state: Any, held: MutableMapping[str, SignalState]) -> None:
        """Set a light for a program that uses Scenic's functions.

        A light of a stop line is held in `held`, which the referee reads. `Off` and `Unknown` only change the display.
        """
        name = str(light.get_opendrive_id())
        signal = next((s for s, shown in STATES.items() if shown == state), None)
        if name in self._actors and signal is not None:
            held[name] = signal
        else:
            light.set_state(state)

    def release(self) -> None:
        """Return to the town's timers."""
        self._world.freeze_all_traffic_lights(False)
