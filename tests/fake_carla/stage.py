"""Stage: state of one episode (actors, clock) and its tick. Shared by all clients of one server."""

from __future__ import annotations

import math
import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import carla

from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from fake_carla import towns
from fake_carla.blueprints import half_size, kind_of
from fake_carla.bodies import SOLID, Body, FrameState
from fake_carla.lights import Lights
from fake_carla.pilot import Manager
from fake_carla.streams import Streams
from fake_carla.wire import Wire

FREE_RUNNING_S = 0.05  # time step if none is fixed
GROUND_M = 3.0  # an actor placed this close to the road drops onto it
GROUPS = {"vehicle": "vehicle", "walker": "walker", "sensor": "sensor", "controller": "controller", "static": "prop"}
_SETTINGS = (
    "synchronous_mode", "no_rendering_mode", "fixed_delta_seconds", "substepping", "max_substep_delta_time",
    "max_substeps", "max_culling_distance", "deterministic_ragdolls", "tile_stream_distance", "actor_active_distance",
    "spectator_as_ego",
)  # fmt: skip


class Stage:
    """`bodies` by actor id; `snapshot` is the last frame, which clients read.

    `lock` makes a tick and the commands of other threads follow each other, as the server's game thread does."""

    def __init__(self, hello: dict[str, Any], wire: Wire) -> None:
        self.lock = threading.RLock()
        self._ticked = threading.Condition()
        self.wire = wire  # of the client with the latest request
        self.managers: dict[int, Manager] = {}
        self.streams = Streams()
        self.frame, self.elapsed = int(hello["ticks"]), 0.0
        self.begin(hello, reset=True)
        self.settings.synchronous_mode = hello["synchronous"]
        self.settings.fixed_delta_seconds = hello["delta"] or None
        self.update_snapshot()

    def begin(self, hello: dict[str, Any], reset: bool) -> None:
        """Begin a new episode: only the actors that the server lists remain."""
        self.episode, self.name, self.opendrive = hello["episode"], hello["town"], hello["opendrive"]
        self.version: str = hello["version"]
        for body in getattr(self, "bodies", {}).values():
            body.alive = False
        for manager in self.managers.values():  # its cars no longer exist
            manager.registered, manager.actor_settings = 0, {}
        self.bodies: dict[int, Body] = {}
        self.listeners: dict[int, Callable[[Any], Any]] = {}
        self.observers: dict[int, Callable[[Any], Any]] = {}
        self.contacts: list[tuple[Body, Body, carla.Vector3D]] = []
        self.last_readings: dict[int, float] = {}
        self.noise: dict[int, random.Random] = {}  # by sensor
        self.crossings: dict[int, set[str]] = {}
        self.blind = False
        self.weather = carla.WeatherParameters()
        self.rng = random.Random(0)
        self._lights: Lights | None = None
        self._stop_lines: list[tuple[float, float, float, Any]] | None = None
        self.spectator = Body(1, "spectator", "spectator", kind_of("spectator"), (0.1, 0.1, 0.1), MotionState(0, 0, 0))
        self.bodies[1] = self.spectator
        for number, actor in hello["actors"].items():
            self.add(int(number), actor["type_id"], transform_at(actor["pose"]))
        if reset:
            self.settings = carla.WorldSettings()
        self.update_snapshot()

    @property
    def town(self) -> towns.TownMap:
        return towns.town_map(self.name, self.opendrive)

    @property
    def lights(self) -> Lights:
        if self._lights is None:
            self._lights = Lights(self.town)
            for body in self._lights.bodies():  # they are in every frame
                self.bodies[body.id] = body
                body.last = self.snapshot[body.id] = body.frame_state(None)
        return self._lights

    # -- the actors ------------------------------------------------------------------------------------------------
    def add(self, number: int, type_id: str, transform: carla.Transform) -> Body:
        group = GROUPS[type_id.split(".")[0]]
        body = Body(number, type_id, group, kind_of(type_id), half_size(type_id), MotionState(0.0, 0.0, 0.0))
        body.put(transform)
        body.just_placed = True
        if group == "vehicle":
            body.control = carla.VehicleControl()
        elif group == "walker":
            body.control = carla.WalkerControl()
        self.bodies[number] = body
        return body

    def blocked(self, type_id: str, transform: carla.Transform) -> bool:
        """Whether the box of a new body would touch another or the road (never at z = -200)."""
        if GROUPS.get(type_id.split(".")[0], "") not in SOLID:
            return False
        new = Body(
            0, type_id, GROUPS[type_id.split(".")[0]], kind_of(type_id), half_size(type_id), MotionState(0, 0, 0)
        )
        new.put(transform)
        if new.group != "prop" and -GROUND_M < new.z - self.ground(new) < 0.02:
            return True
        return any(new.overlaps(other) for other in self.bodies.values() if other.group in SOLID)

    def remove(self, number: int) -> bool:
        with self.lock:
            body = self.bodies.get(number)
            if body is None or body.group in ("light", "sign", "spectator"):
                return False
            body.alive = False
            del self.bodies[number]
            self.listeners.pop(number, None)
            return True

    def ground(self, body: Body) -> float:
        m = body.motion
        waypoint = self.town.get_waypoint(carla.Location(m.x, -m.y, body.z), True, carla.LaneType.Any)
        return float(waypoint.transform.location.z) if waypoint else 0.0

    def lamp_ahead(self, x: float, y: float, yaw: float, reach: float, closed: bool = False) -> tuple[float, Any]:
        """(distance in m, lamp) of the next stop line along `yaw`, map frame; (reach, None) if there is none."""
        if self._stop_lines is None:
            self._stop_lines = []
            for lamp in self.lights.lamps.values():
                for waypoint in self.lights.stops(lamp):
                    place = waypoint.transform.location
                    self._stop_lines.append((*from_carla(place.x, place.y, waypoint.transform.rotation.yaw), lamp))
        best, c, s = (reach, None), math.cos(yaw), math.sin(yaw)
        for lx, ly, lyaw, lamp in self._stop_lines:
            dx, dy = lx - x, ly - y
            along = dx * c + dy * s
            if not 0 < along < best[0] or abs(dy * c - dx * s) > 2.0 or math.cos(lyaw - yaw) < 0.7:
                continue
            if not (closed and lamp.state == carla.TrafficLightState.Green):
                best = along, lamp
        return best

    # -- the clock -------------------------------------------------------------------------------------------------
    def tick(self, seconds: float = 0.0) -> int:
        """Simulate one step, then deliver the sensor data."""
        from fake_carla.sensors import deliver

        with self.lock:
            answer = self.wire.rpc("tick", seconds)
            dt = single(self.settings.fixed_delta_seconds or FREE_RUNNING_S)
            self.lights.step(dt)
            self._move(dt)
            frame = self.frame = int(answer["frame"])
            self.elapsed, self.delta = self.elapsed + dt, dt
            self.blind = bool(answer["blind"])
            self.update_snapshot()
            deliver(self)
        self.streams.settle()  # without the lock: callbacks may send commands
        with self._ticked:
            self._ticked.notify_all()
        return frame

    delta = FREE_RUNNING_S

    def wait_for_tick(self, seconds: float) -> None:
        """Wait for a tick of another thread; RuntimeError after `seconds`."""
        frame = self.frame
        with self._ticked:
            if not self._ticked.wait_for(lambda: self.frame > frame, seconds):
                raise RuntimeError(f"time-out of {round(seconds * 1000)}ms while waiting for the simulator")

    def update_snapshot(self) -> None:
        """Make the present state the last frame."""
        self.snapshot: dict[int, FrameState] = {}
        states = {lamp.body.id: lamp.state for lamp in self._lights.lamps.values()} if self._lights else {}
        for body in self.bodies.values():
            body.last = self.snapshot[body.id] = body.frame_state(states.get(body.id, body.control))

    def _move(self, dt: float) -> None:
        self.contacts = []
        movers = []
        for body in self.bodies.values():
            if body.pilot is not None and body.physics:
                body.pilot.step(*(() if body.group == "walker" else (self,)))
            if body.group in ("vehicle", "walker") and body.physics:
                movers.append(body)
        for body in movers:
            if body.just_placed:
                self._drop_onto_road(body)
            m = body.motion
            before = m.x, m.y, m.yaw, m.vx, m.vy
            body.move(dt)
            for other in self._touched(body):
                self._collide(body, other, before, dt)

    def _drop_onto_road(self, body: Body) -> None:
        body.just_placed = False
        ground = self.ground(body)
        if abs(body.z - body.lift - ground) < GROUND_M:
            body.z = ground + body.lift

    def _touched(self, body: Body) -> list[Body]:
        m, reach = body.motion, math.hypot(*body.half[:2])
        near = []
        for other in self.bodies.values():
            if other is not body and other.group in SOLID:
                limit = reach + other.half[0] + other.half[1]
                if abs(other.motion.x - m.x) < limit and abs(other.motion.y - m.y) < limit and body.overlaps(other):
                    near.append(other)
        return near

    def _collide(self, body: Body, other: Body, before: tuple[float, ...], dt: float) -> None:
        """Move it back and stop it, unless the two overlapped before: then it may leave."""
        m, o = body.motion, other.motion
        nx, ny = m.x - o.x, m.y - o.y
        distance = math.hypot(nx, ny) or 1.0
        closing = max(0.0, -((m.vx - o.vx) * nx + (m.vy - o.vy) * ny) / distance)
        impulse = closing * body.mass * other.mass / (body.mass + other.mass)
        self.contacts.append((body, other, carla.Vector3D(nx / distance * impulse, -ny / distance * impulse, 0.0)))
        now = m.x, m.y, m.yaw
        m.x, m.y, m.yaw = before[:3]
        if body.overlaps(other):
            m.x, m.y, m.yaw = now
            return
        m.v = m.vx = m.vy = m.yaw_rate = 0.0
        m.ax, m.ay = -before[3] / dt, -before[4] / dt


def single(value: float) -> float:
    """`value` in single precision, as the server keeps its time step: 0.05 becomes 0.05000000074505806."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def copied_settings(settings: carla.WorldSettings) -> carla.WorldSettings:
    """A copy; the `copy` module cannot copy the real class."""
    copy = carla.WorldSettings()
    for name in _SETTINGS:
        setattr(copy, name, getattr(settings, name))
    return copy


def copied(weather: carla.WeatherParameters) -> carla.WeatherParameters:
    """A copy of the weather."""
    copy = carla.WeatherParameters()
    for name, value in vars(carla.WeatherParameters).items():
        if isinstance(value, property):
            setattr(copy, name, getattr(weather, name))
    return copy


def pose_of(transform: carla.Transform) -> list[float]:
    place, turn = transform.location, transform.rotation
    return [place.x, place.y, place.z, turn.pitch, turn.yaw, turn.roll]


def transform_at(pose: list[float]) -> carla.Transform:
    return carla.Transform(carla.Location(*pose[:3]), carla.Rotation(*pose[3:]))
