"""Sensors: the ego's cameras, collision and lane invasion sensors, and sensors that a program attaches to objects.

Callbacks run in CARLA's thread. A frame that does not arrive within FRAME_TIMEOUT_S is a WorldError; Scenic's own wait
has no timeout.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import carla
import numpy as np

from closedloop_plugin.carla.world.conversions import kind_of
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody

FRAME_TIMEOUT_S = 30.0  # the first frames of a large town take long


class CarlaCamera:
    """One camera. Keeps only the latest image, and decodes it on request."""

    def __init__(self, world: Any, ego: Any, camera: Camera) -> None:
        self.name = camera.name
        blueprint = world.get_blueprint_library().find("sensor.camera.rgb")
        for key, value in (("image_size_x", camera.width), ("image_size_y", camera.height), ("fov", camera.fov)):
            blueprint.set_attribute(key, str(value))
        place = carla.Transform(carla.Location(camera.forward, camera.right, camera.up), carla.Rotation(yaw=camera.yaw))
        self._image: Any = None
        self._arrived = threading.Condition()
        self.actor = world.spawn_actor(blueprint, place, attach_to=ego)
        self.actor.listen(self._take)

    def _take(self, image: Any) -> None:
        with self._arrived:
            self._image = image
            self._arrived.notify_all()

    def picture(self, frame: int) -> np.ndarray:
        """(H, W, 3) uint8 RGB of this frame of the simulation."""
        with self._arrived:
            received = self._arrived.wait_for(
                lambda: self._image is not None and self._image.frame >= frame, FRAME_TIMEOUT_S
            )
            if not received:
                raise WorldError(f"camera {self.name} sent no picture of frame {frame} in {FRAME_TIMEOUT_S:g} s")
            image = self._image
        pixels = np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)  # BGRA
        return np.ascontiguousarray(pixels[:, :, 2::-1])


class ProgramSensor:
    """A sensor that a program attaches to an object (`with sensors {"front": RGBSensor(...)}`). `sensor`: Scenic's."""

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
        # Event sensors and those with a sensor_tick send no data in most frames.
        self._each = blueprint.id.startswith("sensor.camera.") and not float(sensor.attributes.get("sensor_tick", 0))
        self._frame, self._arrived = -1, threading.Condition()
        (right, forward, up), (yaw, pitch, roll) = (
            sensor.offset,
            sensor.rotation,
        )  # m; degrees, yaw counter-clockwise (CARLA's is clockwise)
        place = carla.Transform(carla.Location(forward, right, up), carla.Rotation(pitch, -yaw, roll))
        self.actor = world.spawn_actor(blueprint, place, attach_to=parent)
        self.actor.listen(self._take)

    def _take(self, data: Any) -> None:
        self._sensor.onData(data)
        with self._arrived:
            self._frame = int(data.frame)
            self._arrived.notify_all()

    def wait(self, frame: int) -> None:
        """Wait until data of this frame has arrived, for sensors that send every frame."""
        with self._arrived:
            if self._each and not self._arrived.wait_for(lambda: self._frame >= frame, FRAME_TIMEOUT_S):
                raise WorldError(f"sensor {self.name} sent nothing for frame {frame} in {FRAME_TIMEOUT_S:g} s")


def _converter(name: str, wanted: str) -> Any:
    known = carla.ColorConverter.names
    if wanted not in known:
        raise InvalidScene(f"sensor {name!r}: CARLA has no converter {wanted!r}; it has {', '.join(sorted(known))}")
    return known[wanted]


class EgoEventSensors:
    """The ego's collision and lane invasion sensors. Events arrive with the next tick at the latest."""

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
        """(other actor, impulse in kg m/s) since the last call: the strongest event per actor.

        Static objects of the town have no id; of these one per type is returned.
        """
        hardest: dict[tuple[int, str], tuple[Any, float]] = {}
        while self._hits:
            event = self._hits.popleft()
            push = event.normal_impulse
            impulse = float((push.x**2 + push.y**2 + push.z**2) ** 0.5)
            other = event.other_actor
            if other is None:  # destroyed since
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


COUNTED = ("vehicle.", "walker.", "static.", "traffic.")  # as in CARLA's collision criterion
KERB = "sidewalk"  # not a collision in that criterion
SAME_OBJECT_M = 5.0  # hits of one type farther apart are taken for different objects


class ContactResolver:
    """Maps actors of collision events to bodies. Static objects of the town all have id 0: place distinguishes them."""

    def __init__(self) -> None:
        self._static_hits: list[tuple[str, float, float]] = []  # type, and the ego's position at the hit

    def resolve(
        self, hits: Iterable[tuple[Any, float]], known: Mapping[int, SimulatedBody], ego: SimulatedBody
    ) -> tuple[EgoContact, ...]:
        """Contacts from `hits`: (actor, impulse in kg m/s). Bodies on rails and walkers are marked as hit and stop."""
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
        """Id of an object outside the scene: a pole, a building, a parked car of the map."""
        if other.id:
            return f"{other.type_id}-{other.id}"
        kind = str(other.type_id)
        for i, (known_kind, wx, wy) in enumerate(self._static_hits):
            if known_kind == kind and math.hypot(wx - x, wy - y) <= SAME_OBJECT_M:
                return f"{kind}-0.{i}"
        self._static_hits.append((kind, x, y))
        return f"{kind}-0.{len(self._static_hits) - 1}"
