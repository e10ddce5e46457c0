"""The ego's contacts from collision events: names of objects, strongest hits, hit walkers."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace as Fake
from typing import Any

import carla

from closedloop_plugin.carla.world.sensors import ContactResolver, EgoEventSensors
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState


def hit(kind: str, number: int = 0) -> tuple[Any, float]:
    return Fake(id=number, type_id=kind, attributes={}), 900.0


def test_town_objects_are_distinguished_by_place_and_kerbs_are_ignored() -> None:
    contacts, ego = ContactResolver(), SimulatedBody("ego", ActorKind.CAR, MotionState(0.0, 0.0, 0.0), 4.6, 1.9, 1.5)

    def names(*hits: tuple[Any, float]) -> list[str]:
        return [c.actor for c in contacts.resolve(hits, {}, ego)]

    pole, kerb, ghost = hit("static.pole"), hit("static.sidewalk"), hit("sensor.unknown")
    assert names(pole, kerb, ghost) == ["static.pole-0.0"]
    assert names(hit("static.wall"), hit("traffic.traffic_light", 31)) == [
        "static.wall-0.1",
        "traffic.traffic_light-31",
    ]
    ego.motion.x = 4.0
    assert names(pole) == ["static.pole-0.0"]
    ego.motion.x = 30.0
    assert names(pole) == ["static.pole-0.2"]


def test_contacts_with_our_actors_have_their_names_and_mark_walkers_as_hit() -> None:
    ego = SimulatedBody("ego", ActorKind.CAR, MotionState(0.0, 0.0, 0.0), 4.6, 1.9, 1.5)
    child = SimulatedBody("s1", ActorKind.CHILD, MotionState(3.0, 0.0, 0.0), 0.4, 0.4, 1.2)
    parked = SimulatedBody("s2", ActorKind.CAR, MotionState(3.0, 0.0, 0.0), 4.6, 1.9, 1.5)
    found = ContactResolver().resolve([hit("walker.x", 5), hit("vehicle.y", 6)], {5: child, 6: parked}, ego)
    assert [(c.actor, c.kind) for c in found] == [("s1", ActorKind.CHILD), ("s2", ActorKind.CAR)]
    assert child.was_hit
    assert not parked.was_hit


def test_the_hardest_hit_per_actor_and_tick_counts_and_removed_actors_are_ignored() -> None:
    event_sensors = EgoEventSensors.__new__(EgoEventSensors)

    def event(other: Any, push: float) -> Any:
        return Fake(other_actor=other, normal_impulse=carla.Vector3D(push, 0.0, 0.0))

    pole, wall = hit("static.pole")[0], hit("static.wall")[0]
    event_sensors._hits = deque([event(pole, 3.0), event(pole, 9.0), event(wall, 1.0), event(None, 5.0)])
    assert [(o.type_id, i) for o, i in event_sensors.collisions()] == [("static.pole", 9.0), ("static.wall", 1.0)]
    assert event_sensors.collisions() == []
