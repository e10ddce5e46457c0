"""Putting actors into CARLA's world: which blueprint, at what height, and what to do where no room is found."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.carla_parts.places import transform

LIFTS = (0.2, 0.5, 1.0, 2.0)  # m above the ground, tried in turn: who touches the ground cannot be spawned
SKY = 60.0  # m: there is always room; who has no physics is then put in its place


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
    for lift in LIFTS if must_fit else (*LIFTS, SKY):
        actor = world.try_spawn_actor(blueprint, transform(x, y, z + lift, yaw))
        if actor is not None:
            return actor, lift == SKY
    raise InvalidScene(f"CARLA finds no room for {blueprint.id} at ({x:.1f}, {y:.1f})")
