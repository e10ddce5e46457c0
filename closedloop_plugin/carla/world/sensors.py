"""Sensors: the ego's cameras, collisions and lane markings, and what a program hangs on its objects. Callbacks come in
CARLA's thread; a frame that never comes is a WorldError after a while, where Scenic's own wait would last for ever."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import carla
import numpy as np

from closedloop_plugin.carla.world.appearance import kind_of
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody

PATIENCE_S = 30.0  # for a picture: the first ones of a large town take long


class CarlaCamera:
    """One camera. Only the latest picture is kept; it is decoded when asked for."""

    def __init__(self, world: Any, ego: Any, camera: Camera) -> None:
        self.name = camera.name
        blueprint = world.get_blueprint_library().find("sensor.camera.rgb")
        for key, value in (("image_size_x", camera.width), ("image_size_y", camera.height), ("fov", camera.fov)):
            blueprint.set_attribute(key, str(value))
        place = carla.Transform(carla.Location(camera.forward, camera.right, camera.up), carla.Rotation(yaw=camera.yaw))
        self._image: Any = None
        self._came = threading.Condition()
        self.actor = world.spawn_actor(blueprint, place, attach_to=ego)
        self.actor.listen(self._take)

    def _take(self, image: Any) -> None:
        with self._came:
            self._image = image
            self._came.notify_all()

    def picture(self, frame: int) -> np.ndarray:
        """(H, W, 3) uint8 RGB of this frame of the simulation."""
        with self._came:
            there = self._came.wait_for(lambda: self._image is not None and self._image.frame >= frame, PATIENCE_S)
            if not there:
                raise WorldError(f"camera {self.name} gave no picture of frame {frame} in {PATIENCE_S:g} s")
            image = self._image
        pixels = np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)  # BGRA
        return np.ascontiguousarray(pixels[:, :, 2::-1])


class ProgramSensor:
    """A sensor that a program hangs on an object (`with sensors {"front": RGBSensor(...)}`). `sensor` is Scenic's."""

    def __init__(self, world: Any, name: str, sensor: Any, parent: Any) -> None:
        self.name, self._sensor = name, sensor
        library = world.get_blueprint_library()
        try:
            blueprint = library.find(sensor.blueprint)
        except (AttributeError, IndexError) as exc:
            raise InvalidScene(f"sensor {name!r}: CARLA has none such; it has Scenic's RGBSensor and SSSensor") from exc
        for key, value in sensor.attributes.items():
            if blueprint.has_attribute(key):
                blueprint.set_attribute(key, str(value))
        if isinstance(sensor.convert, str):
            sensor.convert = _converter(name, sensor.convert)
        # One that looks at events, or now and then, has nothing to say in most frames.
        self._each = blueprint.id.startswith("sensor.camera.") and not float(sensor.attributes.get("sensor_tick", 0))
        self._frame, self._came = -1, threading.Condition()
        (right, forward, up), (yaw, pitch, roll) = sensor.offset, sensor.rotation  # yaw counter-clockwise, degrees
        place = carla.Transform(carla.Location(forward, right, up), carla.Rotation(pitch, -yaw, roll))
        self.actor = world.spawn_actor(blueprint, place, attach_to=parent)
        self.actor.listen(self._take)

    def _take(self, data: Any) -> None:
        self._sensor.onData(data)
        with self._came:
            self._frame = int(data.frame)
            self._came.notify_all()

    def wait(self, frame: int) -> None:
        """Until it has seen this frame, if it sees every one."""
        with self._came:
            if self._each and not self._came.wait_for(lambda: self._frame >= frame, PATIENCE_S):
                raise WorldError(f"sensor {self.name} gave nothing of frame {frame} in {PATIENCE_S:g} s")


def _converter(name: str, wanted: str) -> Any:
    known = carla.ColorConverter.names
    if wanted not in known:
        raise InvalidScene(f"sensor {name!r}: CARLA has no converter {wanted!r}; it has {', '.join(sorted(known))}")
    return known[wanted]


class EgoEventSensors:
    """Collision and lane-invasion sensors. Events come after their tick at the latest with the next one."""

    def __init__(self, world: Any, ego: Any) -> None:
        self._hits: deque[Any] = deque(maxlen=1000)
        self._marks: deque[Any] = deque(maxlen=1000)
        library = world.get_blueprint_library()
        self.actors = []
        for name, events in (("sensor.other.collision", self._hits), ("sensor.other.lane_invasion", self._marks)):
            actor = world.spawn_actor(library.find(name), carla.Transform(), attach_to=ego)
            actor.listen(events.append)
            self.actors.append(actor)

    def collisions(self) -> list[tuple[Any, float]]:
        """(other actor, impulse in kg m/s) of all that came since the last call, each actor once, its hardest. What
        stands in a town has no id: of that each kind once."""
        hardest: dict[tuple[int, str], tuple[Any, float]] = {}
        while self._hits:
            event = self._hits.popleft()
            push = event.normal_impulse
            impulse = float((push.x**2 + push.y**2 + push.z**2) ** 0.5)
            other = event.other_actor
            if other is None:  # taken away since
                continue
            key = other.id, str(other.type_id)
            if key not in hardest or hardest[key][1] < impulse:
                hardest[key] = other, impulse
        return list(hardest.values())

    def markings(self) -> tuple[str, ...]:
        """Kinds of the lane markings that were crossed since the last call, as carla.LaneMarkingType names them."""
        crossed = []
        while self._marks:
            crossed += [str(mark.type) for mark in self._marks.popleft().crossed_lane_markings]
        return tuple(crossed)


# Whom the ego has touched: from the collision sensor's actors to the bodies that we know.
COUNTED = ("vehicle.", "walker.", "static.", "traffic.")  # as CARLA's own criterion has it
KERB = "sidewalk"  # not a collision there
APART_M = 5.0  # a wall hit so far from where one was hit before is another


class ContactResolver:
    """What stands in a town has no id of its own (CARLA gives all of it 0): it is told apart by the place."""

    def __init__(self) -> None:
        self._walls: list[tuple[str, float, float]] = []  # type, and where the ego was then

    def of(
        self, hits: Iterable[tuple[Any, float]], known: Mapping[int, SimulatedBody], ego: SimulatedBody
    ) -> tuple[EgoContact, ...]:
        """hits: (actor, impulse in kg m/s). Whoever is hit does not ride on."""
        found = []
        for other, impulse in hits:
            body = known.get(other.id)
            if body is not None:
                body.was_hit = body.was_hit or body.rail is not None or body.kind in WALKERS
                found.append(EgoContact(body.id, body.kind, body.motion.x, body.motion.y, impulse))
            elif str(other.type_id).startswith(COUNTED) and KERB not in str(other.type_id):
                m = ego.motion
                found.append(EgoContact(self._name(other, m.x, m.y), kind_of(other), m.x, m.y, impulse))
        return tuple(found)

    def _name(self, other: Any, x: float, y: float) -> str:
        """Of one that is none of ours: a pole, a house, a parked car of the map."""
        if other.id:
            return f"{other.type_id}-{other.id}"
        kind = str(other.type_id)
        for i, (its_kind, wx, wy) in enumerate(self._walls):
            if its_kind == kind and math.hypot(wx - x, wy - y) <= APART_M:
                return f"{kind}-0.{i}"
        self._walls.append((kind, x, y))
        return f"{kind}-0.{len(self._walls) - 1}"
