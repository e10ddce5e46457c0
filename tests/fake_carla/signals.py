"""Handles of traffic lights and signs."""

from __future__ import annotations

import carla

from fake_carla.actors import Actor
from fake_carla.lights import Lamp


class TrafficSign(Actor):
    """`trigger_volume` is a box around the sign: the map does not contain the server's boxes."""

    @property
    def trigger_volume(self) -> carla.BoundingBox:
        return carla.BoundingBox(carla.Location(), carla.Vector3D(2.0, 2.0, 2.0))


class TrafficLight(TrafficSign):
    """`state` is that of the last frame; setters take effect in the next one."""

    @property
    def _lamp(self) -> Lamp:
        self._check()
        return self._stage.lights.of(self._body.id)

    def get_state(self) -> carla.TrafficLightState:
        return self._last.state or self._lamp.state

    state = property(get_state)

    def set_state(self, state: carla.TrafficLightState) -> None:
        self._lamp.state = state

    def freeze(self, freeze: bool) -> None:
        self._lamp.group.frozen = bool(freeze)

    def is_frozen(self) -> bool:
        return self._lamp.group.frozen

    def reset_group(self) -> None:
        self._lamp.group.reset()

    def get_opendrive_id(self) -> str:
        return self._lamp.signal

    def get_elapsed_time(self) -> float:
        return self._lamp.group.elapsed

    def get_pole_index(self) -> int:
        return self._lamp.group.lamps.index(self._lamp)

    def get_group_traffic_lights(self) -> list[TrafficLight]:
        return [TrafficLight(self._stage, lamp.body) for lamp in self._lamp.group.lamps]

    def get_stop_waypoints(self) -> list[carla.Waypoint]:
        return list(self._stage.lights.stops(self._lamp))

    def get_affected_lane_waypoints(self) -> list[carla.Waypoint]:
        return self.get_stop_waypoints()

    def get_green_time(self) -> float:
        return self._lamp.times["green"]

    def get_yellow_time(self) -> float:
        return self._lamp.times["yellow"]

    def get_red_time(self) -> float:
        return self._lamp.times["red"]

    def set_green_time(self, green_time: float) -> None:
        self._lamp.times["green"] = green_time

    def set_yellow_time(self, yellow_time: float) -> None:
        self._lamp.times["yellow"] = yellow_time

    def set_red_time(self, red_time: float) -> None:
        self._lamp.times["red"] = red_time
