"""Stage: state of one episode (actors, clock) and its tick. Shared by all clients of one server."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import carla

from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from fake_carla import towns
from fake_carla.blueprints import half_size, kind_of
from fake_carla.bodies import SOLID, Being, Seen
from fake_carla.lights import Lights
from fake_carla.pilot import Manager
from fake_carla.streams import Streams
from fake_carla.wire import Wire

FREE_RUNNING_S = 0.05  # a tick without a fixed time step
GROUND_M = 3.0  # what starts so near above the road falls onto it
GROUPS = {"vehicle": "vehicle", "walker": "walker", "sensor": "sensor", "controller": "controller", "static": "prop"}
_SETTINGS = (
    "synchronous_mode", "no_rendering_mode", "fixed_delta_seconds", "substepping", "max_substep_delta_time",
    "max_substeps", "max_culling_distance", "deterministic_ragdolls", "tile_stream_distance", "actor_active_distance",
    "spectator_as_ego",
)  # fmt: skip


class Stage:
    """`beings` by actor id; `snapshot` is the last frame, which clients read."""

    def __init__(self, hello: dict[str, Any], wire: Wire) -> None:
        self.wire = wire  # of the client that spoke last
        self.managers: dict[int, Manager] = {}
        self.streams = Streams()
        self.frame, self.elapsed = int(hello["ticks"]), 0.0
        self.begin(hello, reset=True)
        self.settings.synchronous_mode = hello["synchronous"]
        self.settings.fixed_delta_seconds = hello["delta"] or None
        self.show()

    def begin(self, hello: dict[str, Any], reset: bool) -> None:
        """A new episode: whatever stood here is gone, except what the server says is there."""
        self.episode, self.name, self.opendrive = hello["episode"], hello["town"], hello["opendrive"]
        for being in getattr(self, "beings", {}).values():
            being.alive = False
        for manager in self.managers.values():  # its cars are gone
            manager.registered, manager.actor_settings = 0, {}
        self.beings: dict[int, Being] = {}
        self.listeners: dict[int, Callable[[Any], Any]] = {}
        self.observers: dict[int, Callable[[Any], Any]] = {}
        self.contacts: list[tuple[Being, Being, carla.Vector3D]] = []
        self.last_pictures: dict[int, float] = {}
        self.crossings: dict[int, set[str]] = {}
        self.blind = False
        self.weather = carla.WeatherParameters()
        self.dice = random.Random(0)
        self._lights: Lights | None = None
        self._lines: list[tuple[float, float, float, Any]] | None = None
        self.spectator = Being(1, "spectator", "spectator", kind_of("spectator"), (0.1, 0.1, 0.1), MotionState(0, 0, 0))
        self.beings[1] = self.spectator
        for number, actor in hello["actors"].items():
            self.add(int(number), actor["type_id"], transform_at(actor["pose"]))
        if reset:
            self.settings = carla.WorldSettings()
        self.show()

    @property
    def town(self) -> towns.TownMap:
        return towns.town_map(self.name, self.opendrive)

    @property
    def lights(self) -> Lights:
        if self._lights is None:
            self._lights = Lights(self.town)
            for being in self._lights.beings():  # they have always been there
                self.beings[being.id] = being
                being.shown = self.snapshot[being.id] = being.look(None)
        return self._lights

    # -- who is there ----------------------------------------------------------------------------------------------
    def add(self, number: int, type_id: str, transform: carla.Transform) -> Being:
        group = GROUPS[type_id.split(".")[0]]
        being = Being(number, type_id, group, kind_of(type_id), half_size(type_id), MotionState(0.0, 0.0, 0.0))
        being.put(transform)
        being.fresh = True
        if group == "vehicle":
            being.control = carla.VehicleControl()
        elif group == "walker":
            being.control = carla.WalkerControl()
        self.beings[number] = being
        return being

    def blocked(self, type_id: str, transform: carla.Transform) -> bool:
        """Does the box of a new body touch another, or the road? (At z = -200 there is neither.)"""
        if GROUPS.get(type_id.split(".")[0], "") not in SOLID:
            return False
        new = Being(
            0, type_id, GROUPS[type_id.split(".")[0]], kind_of(type_id), half_size(type_id), MotionState(0, 0, 0)
        )
        new.put(transform)
        if new.group != "prop" and -GROUND_M < new.z - self.ground(new) < 0.02:
            return True
        return any(new.overlaps(other) for other in self.beings.values() if other.group in SOLID)

    def remove(self, number: int) -> bool:
        being = self.beings.get(number)
        if being is None or being.group in ("light", "sign", "spectator"):
            return False
        being.alive = False
        del self.beings[number]
        self.listeners.pop(number, None)
        return True

    def ground(self, being: Being) -> float:
        m = being.motion
        way = self.town.get_waypoint(carla.Location(m.x, -m.y, being.z), True, carla.LaneType.Any)
        return float(way.transform.location.z) if way else 0.0

    def lamp_ahead(self, x: float, y: float, yaw: float, far: float, closed: bool = False) -> tuple[float, Any]:
        """(metres, lamp) of the next stop line along `yaw`, map frame; (far, None) where there is none."""
        if self._lines is None:
            self._lines = []
            for lamp in self.lights.lamps.values():
                for way in self.lights.stops(lamp):
                    place = way.transform.location
                    self._lines.append((*from_carla(place.x, place.y, way.transform.rotation.yaw), lamp))
        best, c, s = (far, None), math.cos(yaw), math.sin(yaw)
        for lx, ly, lyaw, lamp in self._lines:
            dx, dy = lx - x, ly - y
            along = dx * c + dy * s
            if not 0 < along < best[0] or abs(dy * c - dx * s) > 2.0 or math.cos(lyaw - yaw) < 0.7:
                continue
            if not (closed and lamp.state == carla.TrafficLightState.Green):
                best = along, lamp
        return best

    # -- the clock -------------------------------------------------------------------------------------------------
    def tick(self, seconds: float = 0.0) -> int:
        """One step of everything; then what the sensors saw is handed out."""
        told = self.wire.rpc("tick", seconds)
        dt = self.settings.fixed_delta_seconds or FREE_RUNNING_S
        self.lights.step(dt)
        self._move(dt)
        self.frame, self.elapsed, self.delta = int(told["frame"]), self.elapsed + dt, dt
        self.blind = bool(told["blind"])
        self.show()
        from fake_carla.sensors import deliver

        deliver(self)
        self.streams.settle()
        return self.frame

    delta = FREE_RUNNING_S

    def show(self) -> None:
        """What every client knows from now on."""
        self.snapshot: dict[int, Seen] = {}
        states = {lamp.being.id: lamp.state for lamp in self._lights.lamps.values()} if self._lights else {}
        for being in self.beings.values():
            being.shown = self.snapshot[being.id] = being.look(states.get(being.id, being.control))

    def _move(self, dt: float) -> None:
        self.contacts = []
        movers = []
        for being in self.beings.values():
            if being.pilot is not None and being.physics:
                being.pilot.step(*(() if being.group == "walker" else (self,)))
            if being.group in ("vehicle", "walker") and being.physics:
                movers.append(being)
        for being in movers:
            if being.fresh:
                self._settle(being)
            m = being.motion
            before = m.x, m.y, m.yaw, m.vx, m.vy
            being.move(dt)
            for other in self._touched(being):
                self._collide(being, other, before, dt)

    def _settle(self, being: Being) -> None:
        being.fresh = False
        ground = self.ground(being)
        if abs(being.z - being.lift - ground) < GROUND_M:
            being.z = ground + being.lift

    def _touched(self, being: Being) -> list[Being]:
        m, reach = being.motion, math.hypot(*being.half[:2])
        near = []
        for other in self.beings.values():
            if other is not being and other.group in SOLID:
                far = reach + other.half[0] + other.half[1]
                if abs(other.motion.x - m.x) < far and abs(other.motion.y - m.y) < far and being.overlaps(other):
                    near.append(other)
        return near

    def _collide(self, being: Being, other: Being, before: tuple[float, ...], dt: float) -> None:
        """Back to where it was, standing; unless it stood in the other already: then it may leave."""
        m, o = being.motion, other.motion
        nx, ny = m.x - o.x, m.y - o.y
        far = math.hypot(nx, ny) or 1.0
        closing = max(0.0, -((m.vx - o.vx) * nx + (m.vy - o.vy) * ny) / far)
        impulse = closing * being.mass * other.mass / (being.mass + other.mass)
        self.contacts.append((being, other, carla.Vector3D(nx / far * impulse, -ny / far * impulse, 0.0)))
        now = m.x, m.y, m.yaw
        m.x, m.y, m.yaw = before[:3]
        if being.overlaps(other):
            m.x, m.y, m.yaw = now
            return
        m.v = m.vx = m.vy = m.yaw_rate = 0.0
        m.ax, m.ay = -before[3] / dt, -before[4] / dt


def copied_settings(settings: carla.WorldSettings) -> carla.WorldSettings:
    """The real class cannot be copied by `copy`."""
    copy = carla.WorldSettings()
    for name in _SETTINGS:
        setattr(copy, name, getattr(settings, name))
    return copy


def copied(weather: carla.WeatherParameters) -> carla.WeatherParameters:
    """The same for the weather."""
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
