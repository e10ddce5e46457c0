"""Putting actors into CARLA's world: which blueprint, at what height, and what to do where no room is found."""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.carla.world.transforms import transform
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState

LIFTS = (0.2, 0.5, 1.0, 2.0)  # m above the ground, tried in turn: who touches the ground cannot be spawned
WALKER_LIFTS = (1.1, 1.5, 2.0)  # a walker's origin is its middle
SKY = 60.0  # m: there is always room; who has no physics is then put in its place
HUGE_M = 30.0  # half a body's length: more is no size (CARLA has infinite ones)


def blueprint_for(library: Any, obj: Any, is_ego: bool) -> Any:
    """The object's blueprint with its attributes set; InvalidScene names one that the server does not have."""
    from scenic.simulators.carla.blueprints import oldBlueprintNames

    for name in (obj.blueprint, *oldBlueprintNames.get(obj.blueprint, ())):
        try:
            blueprint = library.find(name)
            break
        except IndexError:
            continue
    else:
        raise InvalidScene(f"the CARLA server has no blueprint {obj.blueprint!r}")
    role = "hero" if is_ego else obj.rolename  # the traffic manager's hybrid physics goes by the hero
    wanted = {"role_name": role, "is_invincible": "False"}
    colour = getattr(obj, "color", None)
    if colour is not None:
        wanted["color"] = ",".join(str(int(255 * float(part))) for part in colour[:3])
    for key, value in wanted.items():
        if value is not None and blueprint.has_attribute(key):
            blueprint.set_attribute(key, value)
    return blueprint


def spawn(world: Any, blueprint: Any, x: float, y: float, z: float, yaw: float, must_fit: bool) -> tuple[Any, bool]:
    """(actor on the ground at (x, y), False); (actor in the sky above, True) where something stands there already."""
    lifts = WALKER_LIFTS if blueprint.id.startswith("walker.") else LIFTS
    for lift in lifts if must_fit else (*lifts, SKY):
        actor = world.try_spawn_actor(blueprint, transform(x, y, z + lift, yaw))
        if actor is not None:
            return actor, lift == SKY
    raise InvalidScene(f"CARLA finds no room for {blueprint.id} at ({x:.1f}, {y:.1f})")


def kind_said(obj: Any) -> ActorKind:
    """What the program says that the object is."""
    try:
        return ActorKind(str(getattr(obj, "kind", "car")))
    except ValueError as exc:
        raise InvalidScene(f"kind {obj.kind!r}: no such kind; known: {', '.join(ActorKind)}") from exc


def body_of(obj: Any, actor: Any, kind: ActorKind, index: int, motion: MotionState) -> SimulatedBody:
    """The object's body, of the size that CARLA says; that is not always a size (CARLA issue 5841)."""
    extent = actor.bounding_box.extent
    given = (obj.length, obj.width, obj.height)
    measured = zip((extent.x, extent.y, extent.z), given, strict=True)
    length, width, height = (
        float(2 * half if math.isfinite(half) and 0 < half < HUGE_M else own) for half, own in measured
    )
    obj.length, obj.width, obj.height = length, width, height
    if index == 0:
        return SimulatedBody("ego", kind, motion, length, width, height, "ego")
    return SimulatedBody(f"s{index}", kind, motion, length, width, height, str(getattr(obj, "role", "scenario")))
