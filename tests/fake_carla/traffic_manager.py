"""The traffic manager: settings for cars on autopilot. Those that the fake does not implement are only stored."""

from __future__ import annotations

from typing import Any

import carla

from fake_carla.actors import Actor
from fake_carla.pilot import Driver, Manager
from fake_carla.stage import Stage


class TrafficManager:
    """One per port. `Manager.settings` and `.actor_settings` contain the values by the name of the method."""

    def __init__(self, stage: Stage, manager: Manager) -> None:
        self._stage, self._manager = stage, manager

    def _set(self, name: str, actor: Actor, value: Any) -> None:
        self._manager.actor_settings.setdefault(actor.id, {})[name] = value

    def get_port(self) -> int:
        return self._manager.port

    def shut_down(self) -> None:
        self._stage.managers.pop(self._manager.port, None)

    def set_synchronous_mode(self, mode_switch: bool) -> None:
        self._manager.settings["set_synchronous_mode"] = mode_switch

    def set_random_device_seed(self, value: int) -> None:
        self._manager.seed, self._manager.registered = value, 0

    def set_hybrid_physics_mode(self, enabled: bool) -> None:
        self._manager.settings["set_hybrid_physics_mode"] = enabled

    def set_hybrid_physics_radius(self, r: float) -> None:
        self._manager.settings["set_hybrid_physics_radius"] = r

    def set_osm_mode(self, mode_switch: bool) -> None:
        self._manager.settings["set_osm_mode"] = mode_switch

    def set_respawn_dormant_vehicles(self, mode_switch: bool) -> None:
        self._manager.settings["set_respawn_dormant_vehicles"] = mode_switch

    def set_boundaries_respawn_dormant_vehicles(self, lower_bound: float, upper_bound: float) -> None:
        self._manager.settings["set_boundaries_respawn_dormant_vehicles"] = lower_bound, upper_bound

    def set_global_distance_to_leading_vehicle(self, distance: float) -> None:
        self._manager.settings["set_global_distance_to_leading_vehicle"] = distance

    def global_percentage_speed_difference(self, percentage: float) -> None:
        self._manager.settings["global_percentage_speed_difference"] = percentage

    def global_lane_offset(self, offset: float) -> None:
        self._manager.settings["global_lane_offset"] = offset

    def set_desired_speed(self, actor: Actor, speed: float) -> None:
        self._set("set_desired_speed", actor, speed)

    def vehicle_percentage_speed_difference(self, actor: Actor, percentage: float) -> None:
        self._set("vehicle_percentage_speed_difference", actor, percentage)

    def vehicle_lane_offset(self, actor: Actor, offset: float) -> None:
        self._set("vehicle_lane_offset", actor, offset)

    def distance_to_leading_vehicle(self, actor: Actor, distance: float) -> None:
        self._set("distance_to_leading_vehicle", actor, distance)

    def collision_detection(self, reference_actor: Actor, other_actor: Actor, detect_collision: bool) -> None:
        self._set(f"collision_detection {other_actor.id}", reference_actor, detect_collision)

    def auto_lane_change(self, actor: Actor, enable: bool) -> None:
        self._set("auto_lane_change", actor, enable)

    def force_lane_change(self, actor: Actor, direction: bool) -> None:
        self._set("force_lane_change", actor, direction)

    def keep_slow_lane_rule_percentage(self, actor: Actor, perc: float) -> None:
        self._set("keep_slow_lane_rule_percentage", actor, perc)

    def random_left_lanechange_percentage(self, actor: Actor, percentage: float) -> None:
        self._set("random_left_lanechange_percentage", actor, percentage)

    def random_right_lanechange_percentage(self, actor: Actor, percentage: float) -> None:
        self._set("random_right_lanechange_percentage", actor, percentage)

    def ignore_lights_percentage(self, actor: Actor, perc: float) -> None:
        self._set("ignore_lights_percentage", actor, perc)

    def ignore_signs_percentage(self, actor: Actor, perc: float) -> None:
        self._set("ignore_signs_percentage", actor, perc)

    def ignore_vehicles_percentage(self, actor: Actor, perc: float) -> None:
        self._set("ignore_vehicles_percentage", actor, perc)

    def ignore_walkers_percentage(self, actor: Actor, perc: float) -> None:
        self._set("ignore_walkers_percentage", actor, perc)

    def update_vehicle_lights(self, actor: Actor, do_update: bool) -> None:
        self._set("update_vehicle_lights", actor, do_update)

    def set_path(self, actor: Actor, path: list[carla.Location], empty_buffer: bool = True) -> None:
        locations = [carla.Location(p.x, p.y, p.z) for p in path]
        self._set("set_path", actor, locations)
        if isinstance(actor._body.pilot, Driver):
            actor._body.pilot._path = locations

    def set_route(self, actor: Actor, path: list[str], empty_buffer: bool = True) -> None:
        self._set("set_route", actor, list(path))
