"""Actor handles of a client: they read the last frame and write to the next one."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import carla

from fake_carla.bodies import NO_STATE, Body, FrameState
from fake_carla.pilot import LIMIT_KMH, Driver, Manager, Stroll
from fake_carla.stage import Stage

if TYPE_CHECKING:
    from fake_carla.lights import Lamp
    from fake_carla.world import World

_LABELS = {
    "car": "Car", "van": "Car", "police": "Car", "ambulance": "Truck", "firetruck": "Truck", "truck": "Truck",
    "bus": "Bus", "motorcycle": "Motorcycle", "bicycle": "Bicycle", "pedestrian": "Pedestrians",
}  # fmt: skip


class Actor:
    """Base class of the handles. Invalid after destroy() and after another world is loaded."""

    def __init__(self, stage: Stage, body: Body) -> None:
        self._stage, self._body, self._episode, self._destroyed = stage, body, stage.episode, False

    def _check(self) -> None:
        if self._destroyed or self._episode != self._stage.episode:
            raise RuntimeError(
                "trying to operate on a destroyed actor; an actor's function was called, but the actor is already "
                "destroyed."
            )

    @property
    def _last(self) -> FrameState:
        self._check()
        return self._stage.snapshot.get(self._body.id, NO_STATE)

    id = property(lambda self: self._body.id)
    type_id = property(lambda self: self._body.type_id)
    attributes = property(lambda self: dict(self._body.attributes))
    is_alive = property(lambda self: not self._destroyed and self._body.alive)
    is_active = is_alive
    is_dormant = property(lambda self: False)

    @property
    def parent(self) -> Actor | None:
        return actor_of(self._stage, self._body.parent) if self._body.parent else None

    @property
    def semantic_tags(self) -> list[int]:
        label = carla.CityObjectLabel.names[_LABELS.get(str(self._body.kind), "Dynamic")]
        return [int(label)]

    @property
    def bounding_box(self) -> carla.BoundingBox:
        x, y, z = self._body.half
        up = 0.0 if self._body.group == "walker" else z  # from the actor's origin to the middle of the box
        return carla.BoundingBox(carla.Location(0.0, 0.0, up), carla.Vector3D(x, y, z))

    def get_transform(self) -> carla.Transform:
        return self._last.transform()

    def get_location(self) -> carla.Location:
        return carla.Location(*self._last.place)

    def get_velocity(self) -> carla.Vector3D:
        return carla.Vector3D(*self._last.velocity)

    def get_acceleration(self) -> carla.Vector3D:
        return carla.Vector3D(*self._last.acceleration)

    def get_angular_velocity(self) -> carla.Vector3D:
        return carla.Vector3D(*self._last.spin)

    def get_world(self) -> World:
        from fake_carla.world import World

        self._check()
        return World(self._stage)

    def set_transform(self, transform: carla.Transform) -> None:
        self._check()
        self._body.put(transform)
        self._body.just_placed = True

    def set_location(self, location: carla.Location) -> None:
        body = self._body
        turn = carla.Rotation(body.pitch, -math.degrees(body.motion.yaw), body.roll)
        self.set_transform(carla.Transform(location, turn))

    def set_simulate_physics(self, enabled: bool = True) -> None:
        self._check()
        self._body.physics = bool(enabled)

    def set_target_velocity(self, velocity: carla.Vector3D) -> None:
        self._check()
        if self._body.physics:
            self._body.push(velocity.x, velocity.y)

    def enable_constant_velocity(self, velocity: carla.Vector3D) -> None:
        self._check()
        self._body.pushed = velocity.x

    def disable_constant_velocity(self) -> None:
        self._check()
        self._body.pushed = None

    def set_target_angular_velocity(self, angular_velocity: carla.Vector3D) -> None:
        self._check()

    def set_enable_gravity(self, enabled: bool = True) -> None:
        self._check()

    def set_collisions(self, enabled: bool = True) -> None:
        self._check()

    def destroy(self) -> bool:
        self._check()
        done = bool(self._stage.wire.rpc("destroy", id=self.id)["ok"])
        self._stage.remove(self.id)
        self._destroyed = True
        return done

    def __str__(self) -> str:
        return f"Actor(id={self.id}, type={self.type_id})"


class Vehicle(Actor):
    """get_control returns the value of the last frame, as all getters do."""

    def apply_control(self, control: carla.VehicleControl) -> None:
        self._check()
        c = control
        self._body.control = carla.VehicleControl(
            c.throttle, c.steer, c.brake, c.hand_brake, c.reverse, c.manual_gear_shift, c.gear
        )

    def get_control(self) -> carla.VehicleControl:
        c = self._last.state or carla.VehicleControl()
        return carla.VehicleControl(c.throttle, c.steer, c.brake, c.hand_brake, c.reverse, c.manual_gear_shift, c.gear)

    def set_autopilot(self, enabled: bool = True, tm_port: int = 8000) -> None:
        self._check()
        if enabled and self._body.pilot is None:
            manager = self._stage.managers.setdefault(tm_port, Manager(tm_port))
            self._body.pilot = Driver(manager, self._body, self._stage.town)
        elif not enabled:
            self._body.pilot = None

    def set_light_state(self, light_state: carla.VehicleLightState) -> None:
        self._check()
        self._body.lamps = int(light_state)

    def get_light_state(self) -> carla.VehicleLightState:
        self._check()
        return carla.VehicleLightState(self._body.lamps)

    def open_door(self, door_idx: carla.VehicleDoor) -> None:
        self._check()
        self._body.doors.add(str(door_idx))

    def close_door(self, door_idx: carla.VehicleDoor) -> None:
        self._check()
        self._body.doors.discard(str(door_idx))

    def get_speed_limit(self) -> float:
        self._check()
        return LIMIT_KMH

    def get_wheel_steer_angle(self, wheel_location: carla.VehicleWheelLocation) -> float:
        self._check()
        return -math.degrees(self._body.motion.wheel)

    def get_physics_control(self) -> carla.VehiclePhysicsControl:
        self._check()
        return carla.VehiclePhysicsControl(mass=self._body.mass)

    def apply_physics_control(self, physics_control: carla.VehiclePhysicsControl) -> None:
        self._check()

    def get_traffic_light(self) -> Any:
        """The light whose stop line is within 10 m ahead of its front."""
        lamp = self._lamp()
        return actor_of(self._stage, lamp.body) if lamp else None

    def get_traffic_light_state(self) -> carla.TrafficLightState:
        lamp = self._lamp()
        return lamp.state if lamp else carla.TrafficLightState.Green

    def is_at_traffic_light(self) -> bool:
        return self._lamp() is not None

    def _lamp(self) -> Lamp | None:
        self._check()
        m, front = self._body.motion, self._body.half[0]
        return self._stage.lamp_ahead(m.x + front * math.cos(m.yaw), m.y + front * math.sin(m.yaw), m.yaw, 10.0)[1]


class Walker(Actor):
    """Moves in the direction of its control."""

    def apply_control(self, control: carla.WalkerControl) -> None:
        self._check()
        self._body.control = _copied(control)

    def get_control(self) -> carla.WalkerControl:
        return _copied(self._last.state or carla.WalkerControl())


def _copied(control: carla.WalkerControl) -> carla.WalkerControl:
    direction = control.direction
    return carla.WalkerControl(carla.Vector3D(direction.x, direction.y, direction.z), control.speed, control.jump)


class WalkerAIController(Actor):
    """AI controller of a walker, which moves it straight to its destination."""

    def _stroll(self) -> Stroll:
        self._check()
        walker = self._body.parent
        if walker is None or not walker.alive:
            raise RuntimeError("NAV: failed to set request (parent does not exist)")
        if walker.pilot is None:
            walker.pilot = Stroll(walker)
        stroll: Stroll = walker.pilot
        return stroll

    def start(self) -> None:
        self._stroll().started = True

    def stop(self) -> None:
        self._check()
        if self._body.parent is not None:
            self._body.parent.pilot = None

    def go_to_location(self, destination: carla.Location) -> None:
        self._stroll().goal = carla.Location(destination.x, destination.y, destination.z)

    def set_max_speed(self, speed: float) -> None:
        self._stroll().speed = speed


class ActorList:
    """The actors of one frame."""

    def __init__(self, actors: list[Actor]) -> None:
        self._actors = actors

    def find(self, id: int) -> Actor | None:
        return next((actor for actor in self._actors if actor.id == id), None)

    def filter(self, wildcard_pattern: str) -> ActorList:
        return ActorList([a for a in self._actors if fnmatch.fnmatchcase(a.type_id, wildcard_pattern)])

    def __getitem__(self, pos: int, /) -> Actor:
        return self._actors[pos]

    def __iter__(self) -> Iterator[Actor]:
        return iter(self._actors)

    def __len__(self) -> int:
        return len(self._actors)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self._actors))}]"


def actor_of(stage: Stage, body: Body) -> Any:
    """A new handle of the class that matches the group."""
    from fake_carla.sensors import LaneInvasionSensor, ServerSideSensor
    from fake_carla.signals import TrafficLight, TrafficSign

    if body.type_id == "sensor.other.lane_invasion":
        return LaneInvasionSensor(stage, body)
    classes = {
        "vehicle": Vehicle, "walker": Walker, "controller": WalkerAIController, "light": TrafficLight,
        "sign": TrafficSign, "sensor": ServerSideSensor,
    }  # fmt: skip
    return classes.get(body.group, Actor)(stage, body)
