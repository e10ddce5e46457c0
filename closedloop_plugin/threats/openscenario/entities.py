"""Actors as OpenSCENARIO entities, and their reference points.

The reference point of a vehicle is the middle of its rear axle on the ground, that of all else the middle of its box;
ours is always the middle of the box.
"""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.threats.openscenario.library import xosc
from closedloop_plugin.threats.openscenario.scene import SampledActor
from closedloop_plugin.worlds.bodies.vehicle import SPECS, mass_of
from lmms_eval_ad2.errors import Ad2Error

CATEGORIES = {
    "car": "car", "police": "car", "van": "van", "ambulance": "van", "truck": "truck", "firetruck": "truck",
    "bus": "bus", "motorcycle": "motorbike", "bicycle": "bicycle",
}  # fmt: skip
ROLES = {"police": "police", "ambulance": "ambulance", "firetruck": "fire"}
WALKERS = {"pedestrian": "pedestrian", "child": "pedestrian", "animal": "animal"}
THINGS = {
    "barrier": "barrier", "cone": "obstacle", "debris": "obstacle", "blocker": "obstacle", "warning sign": "obstacle",
}  # fmt: skip
WHEEL_M = 0.6  # diameter


def rear_axle(actor: SampledActor) -> float:
    """Distance (m) from the rear axle forward to the middle of the box; 0 for actors that are not vehicles."""
    spec = SPECS.get(ActorKind(actor.kind))
    return spec.wheelbase / 2 if spec else 0.0


def world_position(actor: SampledActor, x: float, y: float, yaw: float) -> Any:
    """The WorldPosition of the actor's reference point with the middle of its box at (x, y)."""
    back = rear_axle(actor)
    return xosc().WorldPosition(x - back * math.cos(yaw), y - back * math.sin(yaw), 0.0, yaw, 0.0, 0.0)


def entity(actor: SampledActor) -> Any:
    """The Vehicle, Pedestrian or MiscObject, with CARLA's blueprint as its model."""
    lib = xosc()
    if actor.kind not in {*CATEGORIES, *WALKERS, *THINGS}:
        raise Ad2Error(f"{actor.name}: no OpenSCENARIO category is known for an actor of kind {actor.kind!r}")
    mass, model = mass_of(ActorKind(actor.kind)), actor.blueprint or None
    box = lib.BoundingBox(actor.width, actor.length, actor.height, rear_axle(actor), 0.0, actor.height / 2)
    if actor.kind in WALKERS:
        category = getattr(lib.PedestrianCategory, WALKERS[actor.kind])
        return _with_kind(lib.Pedestrian(actor.name, mass, category, box, model), actor)
    spec = SPECS.get(ActorKind(actor.kind))
    if spec is None:
        category = getattr(lib.MiscObjectCategory, THINGS[actor.kind])
        return _with_kind(lib.MiscObject(actor.name, mass, category, box, model), actor)
    track = 0.85 * spec.width
    vehicle = lib.Vehicle(
        actor.name,
        getattr(lib.VehicleCategory, CATEGORIES[actor.kind]),
        box,
        lib.Axle(spec.steer_limit, WHEEL_M, track, spec.wheelbase, WHEEL_M / 2),
        lib.Axle(0.0, WHEEL_M, track, 0.0, WHEEL_M / 2),
        spec.top_speed,
        spec.pull,
        spec.brake,
        mass,
        model,
        role=getattr(lib.Role, ROLES[actor.kind]) if actor.kind in ROLES else None,
    )
    return _with_kind(vehicle, actor)


def _with_kind(made: Any, actor: SampledActor) -> Any:
    """Properties: the kind, and the type by which CARLA's scenario runner recognises the ego."""
    made.add_property("type", "ego_vehicle" if actor.name == "ego" else "simulation")
    made.add_property("kind", actor.kind)
    return made
