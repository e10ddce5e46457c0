"""Lamps and doors of CARLA vehicles, and the ActorKind of CARLA actors."""

from __future__ import annotations

from typing import Any

import carla

from closedloop_plugin.core.state import ActorKind

_L = carla.VehicleLightState
LAMPS = {
    "brake": _L.Brake,
    "left": _L.LeftBlinker,
    "right": _L.RightBlinker,
    "hazard": _L(_L.LeftBlinker | _L.RightBlinker),
    "siren": _L.Special1,
    "headlights": _L(_L.Position | _L.LowBeam),
    "reverse": _L.Reverse,
}
DOORS = {"left": carla.VehicleDoor.FL, "right": carla.VehicleDoor.FR}


def light_state(lamps: frozenset[str]) -> Any:
    """carla.VehicleLightState of the lamps that are on."""
    bits = 0
    for lamp in lamps:
        bits |= int(LAMPS[lamp])
    return _L(bits)


def kind_of(actor: Any) -> ActorKind:
    """Kind of an actor that is not part of the scene: of the town or the traffic."""
    name = str(actor.type_id)
    if name.startswith("walker."):
        return ActorKind.PEDESTRIAN
    if not name.startswith("vehicle."):
        return ActorKind.BLOCKER
    known = {"car", "van", "truck", "bus", "motorcycle", "bicycle"}
    base = str(actor.attributes.get("base_type", "")).lower()
    return ActorKind(base) if base in known else ActorKind.CAR
