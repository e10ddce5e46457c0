"""carla.command: commands of a batch. The real classes accept neither our actors nor blueprints."""

from __future__ import annotations

from typing import Any

import carla

from fake_carla.actors import Actor, Vehicle, Walker, actor_of
from fake_carla.blueprints import ActorBlueprint
from fake_carla.stage import Stage, pose_of, transform_at
from fake_carla.world import spawn


def _id(actor: Actor | int) -> int:
    return actor if isinstance(actor, int) else int(actor.id)


class _Command:
    """Calls `_method` of the actor with the attributes named in `_arguments`."""

    actor_id: int
    _method = ""
    _arguments: tuple[str, ...] = ()

    def _apply(self, stage: Stage, future: int) -> int:
        """Apply it; returns the actor's id. RuntimeError if impossible. `future`: the id for FutureActor (0)."""
        number = self.actor_id or future
        if number not in stage.bodies:
            raise RuntimeError(f"unable to apply {type(self).__name__}: actor {number} not found")
        actor = actor_of(stage, stage.bodies[number])
        if not hasattr(actor, self._method):
            raise RuntimeError(f"unable to apply {type(self).__name__}: actor {number} is a {actor.type_id}")
        getattr(actor, self._method)(*(getattr(self, name) for name in self._arguments))
        return number


class ApplyTransform(_Command):
    _method, _arguments = "set_transform", ("transform",)

    def __init__(self, actor: Actor | int, /, transform: carla.Transform) -> None:
        self.actor_id, self.transform = _id(actor), transform_at(pose_of(transform))


class ApplyTargetVelocity(_Command):
    _method, _arguments = "set_target_velocity", ("velocity",)

    def __init__(self, actor: Actor | int, /, velocity: carla.Vector3D) -> None:
        self.actor_id, self.velocity = _id(actor), velocity


class ApplyVehicleControl(_Command):
    _method, _arguments = "apply_control", ("control",)

    def __init__(self, actor: Vehicle | int, /, control: carla.VehicleControl) -> None:
        self.actor_id, self.control = _id(actor), control


class ApplyWalkerControl(_Command):
    _method, _arguments = "apply_control", ("control",)

    def __init__(self, actor: Walker | int, /, control: carla.WalkerControl) -> None:
        self.actor_id, self.control = _id(actor), control


class SetSimulatePhysics(_Command):
    _method, _arguments = "set_simulate_physics", ("enabled",)

    def __init__(self, actor: Actor | int, /, enabled: bool) -> None:
        self.actor_id, self.enabled = _id(actor), bool(enabled)


class SetAutopilot(_Command):
    _method, _arguments = "set_autopilot", ("enabled", "tm_port")

    def __init__(self, actor: Vehicle | int, /, enabled: bool, tm_port: int = 8000) -> None:
        self.actor_id, self.enabled, self.tm_port = _id(actor), bool(enabled), tm_port


class SetVehicleLightState(_Command):
    """As in the real class, the state is a bool (see its signature) unless the actor is given by its id."""

    def __init__(self, actor: Vehicle | int, /, light_state: int) -> None:
        by_id = isinstance(actor, int)
        self.actor_id, self.light_state = _id(actor), int(light_state) if by_id else int(bool(light_state))

    def _apply(self, stage: Stage, future: int) -> int:
        number = self.actor_id or future
        if number not in stage.bodies:
            raise RuntimeError(f"unable to apply SetVehicleLightState: actor {number} not found")
        stage.bodies[number].lamps = self.light_state
        return number


class DestroyActor(_Command):
    def __init__(self, actor: Actor | int, /) -> None:
        self.actor_id = _id(actor)

    def _apply(self, stage: Stage, future: int) -> int:
        number = self.actor_id or future
        if not stage.remove(number):
            raise RuntimeError(f"unable to destroy actor {number}: not found")
        stage.wire.rpc("destroy", id=number)
        return number


class SpawnActor(_Command):
    """`then` adds commands for the new actor, whose id in them is FutureActor."""

    def __init__(self, blueprint: ActorBlueprint, transform: carla.Transform, parent: Actor | int = 0) -> None:
        self._blueprint, self.transform = blueprint, transform_at(pose_of(transform))
        self.parent_id = _id(parent)
        self._then: list[Any] = []

    def then(self, command: Any) -> SpawnActor:
        self._then.append(command)
        return self

    def _apply(self, stage: Stage, future: int) -> int:
        parent = stage.bodies.get(self.parent_id) if self.parent_id else None
        number = spawn(stage, self._blueprint, self.transform, parent).id
        for command in self._then:
            command._apply(stage, number)
        return number


class Response:
    """Result of one command of a batch."""

    def __init__(self, actor_id: int, error: str) -> None:
        self._id, self._error = actor_id, error

    actor_id = property(lambda self: self._id)
    error = property(lambda self: self._error)

    def has_error(self) -> bool:
        return bool(self._error)


def respond(command: _Command, stage: Stage) -> Response:
    """Execute a command; the response contains the error, if any."""
    try:
        return Response(command._apply(stage, 0), "")
    except RuntimeError as exc:
        return Response(0, str(exc))
