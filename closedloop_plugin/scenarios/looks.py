"""CARLA blueprints and sizes by kind of actor. Other simulators draw by kind.

The blueprints exist in CARLA 0.9.15 and 0.9.16; where possible with working lights and doors (second generation).
"""

from __future__ import annotations

from closedloop_plugin.scenarios.known_words import known_word

BLUEPRINTS = {
    "car": "vehicle.mercedes.coupe_2020",
    "van": "vehicle.mercedes.sprinter",
    "truck": "vehicle.carlamotors.carlacola",
    "bus": "vehicle.mitsubishi.fusorosa",
    "police": "vehicle.dodge.charger_police_2020",
    "ambulance": "vehicle.ford.ambulance",
    "firetruck": "vehicle.carlamotors.firetruck",
    "motorcycle": "vehicle.yamaha.yzf",
    "bicycle": "vehicle.bh.crossbike",
    "pedestrian": "walker.pedestrian.0001",
    "child": "walker.pedestrian.0009",
    "animal": "walker.pedestrian.0014",  # CARLA has no animals; a child-sized walker is used
    "cone": "static.prop.constructioncone",
    "barrier": "static.prop.streetbarrier",
    "debris": "static.prop.box01",
    "warning sign": "static.prop.warningaccident",
    "blocker": "static.prop.container",
}


def blueprint_of(kind: str) -> str:
    """Blueprint id of a kind. Raises UnknownWord for an unknown one."""
    return BLUEPRINTS[known_word("kind", kind, BLUEPRINTS)]


# Length, width, height (m) of objects that hide a pedestrian, by a part of the blueprint's name.
COVERS = {
    "container": (2.4, 1.6, 2.0),
    "advertisement": (0.5, 1.6, 2.4),
    "vending": (1.0, 1.1, 2.0),
    "busstop": (4.0, 1.6, 2.6),
}


def cover_size(model: str) -> tuple[float, float, float]:
    """Size of a `blocker_model`; an unknown one has the size of a vending machine, the official default."""
    return next((size for name, size in COVERS.items() if name in model), COVERS["vending"])


# Approximate length and width (m) of parked vehicles; simulators have exact sizes.
BODIES = {
    "car": (4.6, 1.9),
    "police": (4.8, 1.9),
    "van": (5.4, 2.0),
    "ambulance": (5.9, 2.1),
    "truck": (8.0, 2.5),
    "firetruck": (8.5, 2.5),
    "bus": (12.0, 2.55),
    "motorcycle": (2.1, 0.8),
    "bicycle": (1.8, 0.6),
}


def body_size(kind: str) -> tuple[float, float]:
    """Length and width (m) of a kind of vehicle, or of an object in COVERS. Raises UnknownWord for any other."""
    if not any(name in kind for name in COVERS):
        known_word("kind", kind, [*BLUEPRINTS, *COVERS])
    return BODIES[kind] if kind in BODIES else cover_size(kind)[:2]
