"""Sensors and their data: pictures, collisions, crossed lane markings; GNSS and IMU: measurements.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import carla
import numpy as np

from fake_carla.actors import Actor, actor_of
from fake_carla.blueprints import CAMERAS, GNSS, IMU
from fake_carla.bodies import Body
from fake_carla.measurements import GnssMeasurement, IMUMeasurement
from fake_carla.picture import draw
from fake_carla.sensor_data import SensorData
from fake_carla.stage import Stage


class Sensor(Actor):
    """Calls back in another thread, once per frame or event."""

    def listen(self, callback: Callable[[Any], Any]) -> None:
        self._check()
        if not callable(callback):
            raise TypeError("callback argument must be callable!")
        self._stage.listeners[self.id] = callback

    def stop(self) -> None:
        self._check()
        self._stage.listeners.pop(self.id, None)

    def is_listening(self) -> bool:
        return self.id in self._stage.listeners


class ServerSideSensor(Sensor):
    """Cameras, GNSS, IMU and collision sensors."""


class ClientSideSensor(Sensor):
    """Sensors computed by the client."""


class LaneInvasionSensor(ClientSideSensor):
    """Crossed lane markings."""


class Image(SensorData):
    """BGRA, as in the real class."""

    def __init__(self, stage: Stage, sensor: Body) -> None:
        super().__init__(stage, sensor)
        self._width, self._height = int(sensor.attributes["image_size_x"]), int(sensor.attributes["image_size_y"])
        self._fov = float(sensor.attributes["fov"])
        self._raw = draw(stage, sensor, self._width, self._height, self._fov)

    width = property(lambda self: self._width)
    height = property(lambda self: self._height)
    fov = property(lambda self: self._fov)
    raw_data = property(lambda self: memoryview(self._raw))

    def convert(self, color_converter: carla.ColorConverter) -> None:
        pass  # the drawn image needs no conversion

    def save_to_disk(self, path: str, color_converter: carla.ColorConverter = carla.ColorConverter.Raw) -> str:
        from PIL import Image as Picture

        pixels = np.frombuffer(self._raw, np.uint8).reshape(self._height, self._width, 4)
        file = Path(path) if Path(path).suffix else Path(f"{path}.png")
        Picture.fromarray(np.ascontiguousarray(pixels[:, :, 2::-1])).save(file)
        return str(file)

    def __len__(self) -> int:
        return self._width * self._height


class CollisionEvent(SensorData):
    """`normal_impulse` in N s, pointing at `actor`."""

    def __init__(self, stage: Stage, sensor: Body, actor: Actor, other: Actor, impulse: carla.Vector3D) -> None:
        super().__init__(stage, sensor)
        self._actor, self._other, self._impulse = actor, other, impulse

    actor = property(lambda self: self._actor)
    other_actor = property(lambda self: self._other)
    normal_impulse = property(lambda self: self._impulse)


class LaneInvasionEvent(SensorData):
    """The lane markings that the body's edge has reached in this frame."""

    def __init__(self, stage: Stage, sensor: Body, actor: Actor, markings: list[carla.LaneMarking]) -> None:
        super().__init__(stage, sensor)
        self._actor, self._markings = actor, markings

    actor = property(lambda self: self._actor)
    crossed_lane_markings = property(lambda self: list(self._markings))


_PERIODIC: dict[str, type[SensorData]] = {
    **dict.fromkeys(CAMERAS, Image),
    GNSS: GnssMeasurement,
    IMU: IMUMeasurement,
}


def deliver(stage: Stage) -> None:
    """Queue the data of every listening sensor for this frame."""
    for number, callback in list(stage.listeners.items()):
        sensor = stage.bodies[number]
        for data in _data_of(stage, sensor):
            stage.streams.send(callback, data)
    for callback in list(stage.observers.values()):
        from fake_carla.world import WorldSnapshot

        stage.streams.send(callback, WorldSnapshot(stage))


def _data_of(stage: Stage, sensor: Body) -> list[Any]:
    parent = sensor.parent
    if sensor.type_id in _PERIODIC:
        due = stage.last_readings.get(sensor.id, -math.inf) + float(sensor.attributes["sensor_tick"])
        if (stage.blind and sensor.type_id in CAMERAS) or stage.elapsed + 1e-6 < due:
            return []
        stage.last_readings[sensor.id] = stage.elapsed
        return [_PERIODIC[sensor.type_id](stage, sensor)]
    if parent is None or not parent.alive:
        return []
    if sensor.type_id == "sensor.other.lane_invasion":
        crossed = _crossed(stage, sensor, parent)
        return [LaneInvasionEvent(stage, sensor, actor_of(stage, parent), crossed)] if crossed else []
    found = []
    for one, other, impulse in stage.contacts:
        if parent in (one, other):
            other_body = other if parent is one else one
            push = impulse if parent is one else carla.Vector3D(-impulse.x, -impulse.y, 0.0)
            found.append(CollisionEvent(stage, sensor, actor_of(stage, parent), actor_of(stage, other_body), push))
    return found


def _crossed(stage: Stage, sensor: Body, body: Body) -> list[carla.LaneMarking]:
    """Markings of its lane that its edge has reached since the last frame; none in a junction."""
    m = body.motion
    waypoint = stage.town.get_waypoint(carla.Location(m.x, -m.y, body.z), True, carla.LaneType.Any)
    before = stage.crossings.setdefault(sensor.id, set())
    if waypoint is None or waypoint.is_junction:
        before.clear()
        return []
    yaw = -math.radians(waypoint.transform.rotation.yaw)
    dx, dy = m.x - waypoint.transform.location.x, m.y + waypoint.transform.location.y
    left = -dx * math.sin(yaw) + dy * math.cos(yaw)
    relative_yaw = m.yaw - yaw
    reach = abs(body.half[1] * math.cos(relative_yaw)) + abs(body.half[0] * math.sin(relative_yaw))
    sides = {"left": left + reach, "right": reach - left}
    now = {side for side, edge in sides.items() if edge > waypoint.lane_width / 2}
    new, stage.crossings[sensor.id] = now - before, now
    return [waypoint.left_lane_marking if side == "left" else waypoint.right_lane_marking for side in sorted(new)]
