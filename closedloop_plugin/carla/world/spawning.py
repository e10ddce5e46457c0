"""Spawning of actors in CARLA: blueprint, height, and handling of occupied places."""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.carla.world.transforms import transform
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.bodies.body import EGO, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState

LIFTS = (0.2, 0.5, 1.0, 2.0)  # m above the ground, tried in turn: an actor that touches the ground cannot be spawned
WALKER_LIFTS = (1.1, 1.5, 2.0)  # m; a walker's origin is its centre
SKY_LIFTS = tuple(60.0 + 5.0 * k for k in range(32))  # m: free air; the actor is moved to its place afterwards
HUGE_M = 30.0  # largest valid half length: CARLA reports infinite ones


def blueprint_for(library: Any, obj: Any, is_ego: bool) -> Any:
    """The object's blueprint with its attributes set. InvalidScene: the server does not have it."""
    from scenic.simulators.carla.blueprints import oldBlueprintNames

    for name in (obj.blueprint, *oldBlueprintNames.get(obj.blueprint, ())):
        try:
            blueprint = library.find(name)
            break
        except IndexError:
            continue
    else:
        raise InvalidScene(f"the CARLA server has no blueprint {obj.blueprint!r}")
    role = "hero" if is_ego else obj.rolename  # the traffic manager's hybrid physics is centred on the hero
    wanted = {"role_name": role, "is_invincible": "False"}
    colour = getattr(obj, "color", None)
    if colour is not None:
        wanted["color"] = ",".join(str(int(255 * float(part))) for part in colour[:3])
    for key, value in wanted.items():
        if value is not None and blueprint.has_attribute(key):
            blueprint.set_attribute(key, value)
    return blueprint


def spawn(world: Any, blueprint: Any, x: float, y: float, z: float, yaw: float, must_fit: bool) -> tuple[Any, bool]:
    """Spawn at a pose in the map frame. Returns (actor, whether it is in the air above since the place is occupied).

    InvalidScene: no room, with `must_fit` already if the place is occupied.
    """
    lifts = WALKER_LIFTS if blueprint.id.startswith("walker.") else LIFTS
    for lift in lifts if must_fit else (*lifts, *SKY_LIFTS):
        actor = world.try_spawn_actor(blueprint, transform(x, y, z + lift, yaw))
        if actor is not None:
            return actor, lift in SKY_LIFTS
    raise InvalidScene(f"CARLA finds no room for {blueprint.id} at ({x:.1f}, {y:.1f})")


def kind_of_object(obj: Any) -> ActorKind:
    """Kind that the program gives the object. InvalidScene: unknown."""
    try:
        return ActorKind(str(getattr(obj, "kind", "car")))
    except ValueError as exc:
        raise InvalidScene(f"kind {obj.kind!r}: no such kind; known: {', '.join(ActorKind)}") from exc


def body_of(obj: Any, actor: Any, kind: ActorKind, name: str, motion: MotionState) -> SimulatedBody:
    """The object's body, with CARLA's size unless that is invalid (CARLA issue 5841)."""
    extent = actor.bounding_box.extent
    given = (obj.length, obj.width, obj.height)
    measured = zip((extent.x, extent.y, extent.z), given, strict=True)
    length, width, height = (
        float(2 * half if math.isfinite(half) and 0 < half < HUGE_M else own) for half, own in measured
    )
    obj.length, obj.width, obj.height = length, width, height
    role = EGO if name == EGO else str(getattr(obj, "role", "scenario"))
    return SimulatedBody(id=name, kind=kind, motion=motion, length=length, width=width, height=height, role=role)
