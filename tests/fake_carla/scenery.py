"""What a world offers besides actors: debug drawings, street lamps and points on surfaces."""

from __future__ import annotations

from typing import Any

import carla

from fake_carla.stage import Stage

_COLOUR = carla.Color(255, 0, 0)


class DebugHelper:
    """Drawings are made by the server's window, which the fake lacks: the arguments are checked, nothing is drawn."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def draw_point(
        self,
        location: carla.Location,
        size: float = 0.1,
        color: carla.Color = _COLOUR,
        life_time: float = -1.0,
        persistent_lines: bool = True,
    ) -> None:
        self._stage.wire.rpc("ask")

    def draw_line(
        self,
        begin: carla.Location,
        end: carla.Location,
        thickness: float = 0.1,
        color: carla.Color = _COLOUR,
        life_time: float = -1.0,
        persistent_lines: bool = True,
    ) -> None:
        self._stage.wire.rpc("ask")

    def draw_arrow(
        self,
        begin: carla.Location,
        end: carla.Location,
        thickness: float = 0.1,
        arrow_size: float = 0.1,
        color: carla.Color = _COLOUR,
        life_time: float = -1.0,
        persistent_lines: bool = True,
    ) -> None:
        self._stage.wire.rpc("ask")

    def draw_box(
        self,
        box: carla.BoundingBox,
        rotation: carla.Rotation,
        thickness: float = 0.1,
        color: carla.Color = _COLOUR,
        life_time: float = -1.0,
        persistent_lines: bool = True,
    ) -> None:
        self._stage.wire.rpc("ask")

    def draw_string(
        self,
        location: carla.Location,
        text: str,
        draw_shadow: bool = False,
        color: carla.Color = _COLOUR,
        life_time: float = -1.0,
        persistent_lines: bool = True,
    ) -> None:
        self._stage.wire.rpc("ask")


class LightManager:
    """The street lamps of the town: none, since OpenDRIVE does not contain them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def get_all_lights(self, light_group: carla.LightGroup = carla.LightGroup.NONE) -> list[Any]:
        self._stage.wire.rpc("ask")
        return []

    def get_turned_on_lights(self, light_group: carla.LightGroup = carla.LightGroup.NONE) -> list[Any]:
        return self.get_all_lights(light_group)

    def get_turned_off_lights(self, light_group: carla.LightGroup = carla.LightGroup.NONE) -> list[Any]:
        return self.get_all_lights(light_group)

    def turn_on(self, lights: Any) -> None:
        self._stage.wire.rpc("ask")

    def turn_off(self, lights: Any) -> None:
        self._stage.wire.rpc("ask")

    def set_day_night_cycle(self, active: bool) -> None:
        self._stage.wire.rpc("ask")


class LabelledPoint:
    """A point on a surface and what the surface is."""

    def __init__(self, location: carla.Location, label: carla.CityObjectLabel) -> None:
        self._location, self._label = location, label

    location = property(lambda self: self._location)
    label = property(lambda self: self._label)


def ground_below(stage: Stage, location: carla.Location, search_distance: float) -> LabelledPoint | None:
    """The ground below a place: the height of the nearest lane there. None if it is higher or farther away."""
    waypoint = stage.town.get_waypoint(carla.Location(location), True, carla.LaneType.Any)
    height = float(waypoint.transform.location.z) if waypoint else 0.0
    if not 0.0 <= location.z - height <= search_distance:
        return None
    labels = carla.CityObjectLabel
    lane = waypoint.lane_type if waypoint else None
    label = labels.Sidewalks if lane == carla.LaneType.Sidewalk else labels.Roads if lane else labels.Ground
    return LabelledPoint(carla.Location(location.x, location.y, height), label)
