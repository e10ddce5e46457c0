"""The ego's sensors: cameras, collisions, lane markings. Callbacks come in CARLA's thread; a frame that never comes is
a WorldError after a while, where Scenic's own wait would last for ever."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import carla
import numpy as np

from closedloop_plugin.worlds.base import Camera, WorldError

PATIENCE_S = 30.0  # for a picture: the first ones of a large town take long


class Eye:
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

    def picture(self, frame: int, patience_s: float = PATIENCE_S) -> np.ndarray:
        """(H, W, 3) uint8 RGB of this frame of the simulation."""
        with self._came:
            there = self._came.wait_for(lambda: self._image is not None and self._image.frame >= frame, patience_s)
            if not there:
                raise WorldError(f"camera {self.name} gave no picture of frame {frame} in {patience_s:g} s")
            image = self._image
        pixels = np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)  # BGRA
        return np.ascontiguousarray(pixels[:, :, 2::-1])


class Feelers:
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
        """(other actor, impulse in kg m/s) of all that came since the last call, each actor once, its hardest."""
        hardest: dict[int, tuple[Any, float]] = {}
        while self._hits:
            event = self._hits.popleft()
            push = event.normal_impulse
            impulse = float((push.x**2 + push.y**2 + push.z**2) ** 0.5)
            other = event.other_actor
            if other.id not in hardest or hardest[other.id][1] < impulse:
                hardest[other.id] = other, impulse
        return list(hardest.values())

    def markings(self) -> tuple[str, ...]:
        """Kinds of the lane markings that were crossed since the last call, as carla.LaneMarkingType names them."""
        crossed = []
        while self._marks:
            crossed += [str(mark.type) for mark in self._marks.popleft().crossed_lane_markings]
        return tuple(crossed)
