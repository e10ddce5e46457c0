"""Background traffic in CARLA by the traffic manager, and the ego's contacts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import carla
import pytest
from support.carla.rig import EGO, Rig, infractions, rig_on

from closedloop_plugin.carla.world.sensors import ContactResolver, EgoEventSensors
from closedloop_plugin.carla.world.traffic import CLEAR_M, MAX_CARS, CarlaTraffic, _car_blueprints
from closedloop_plugin.core.state import ActorKind, Control
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState

GO = Control(throttle=0.7)


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("about")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


# -- traffic -----------------------------------------------------------------------------------------------------------
@pytest.mark.system
def test_the_traffic_manager_is_synchronous_seeded_and_hybrid(rig: Rig) -> None:
    rig.play(EGO, seed=77, traffic=True)
    (manager,) = rig.stage.managers.values()
    assert manager.port == rig.server.port + 6000 or rig.server.port + 6000 > 65535  # the server's port is random
    assert manager.seed == 77
    assert manager.settings["set_synchronous_mode"] is True
    assert manager.settings["set_hybrid_physics_mode"] is True
    assert manager.settings["set_hybrid_physics_radius"] > 50
    assert manager.actor_settings  # its cars have lamps


@pytest.mark.system
def test_background_cars_start_off_the_route_away_from_the_ego_and_drive(rig: Rig) -> None:
    truth = rig.play(EGO, traffic=True)
    cars = [a for a in truth.actors if a.role == "background"]
    assert 3 <= len(cars) <= MAX_CARS
    for car in cars:
        s, d = rig.world.road.path.locate(car.x, car.y)
        assert math.dist((car.x, car.y), (truth.ego.x, truth.ego.y)) > CLEAR_M - 3
        assert abs(d) > 2.0 or not 0 < s < rig.world.road.path.length
    later = rig.ticks(80)[-1]
    assert max(a.speed for a in later.actors) > 2


@pytest.mark.system
def test_traffic_depends_on_the_seed_and_is_off_by_default(rig: Rig) -> None:
    def places(seed: int) -> list[tuple[float, float]]:
        return [(a.x, a.y) for a in rig.play(EGO, seed=seed, traffic=True).actors]

    assert places(1) == places(1) != places(2)
    assert rig.play(EGO).actors == ()


@pytest.mark.system
def test_background_cars_are_selected_by_blueprint_attributes(rig: Rig) -> None:
    rig.play(EGO)
    library = rig.simulation.blueprintLib
    cars = _car_blueprints(library)
    assert len(cars) > 5
    assert all(b.get_attribute("base_type").as_str() == "car" for b in cars)
    assert not any("police" in b.id or "ambulance" in b.id for b in cars)

    class Attribute:
        def __init__(self, value: str, kind: Any) -> None:
            self.value, self.type = value, kind

        def as_str(self) -> str:
            return self.value

        def as_bool(self) -> bool:
            return self.value == "true"

    kinds = carla.ActorAttributeType

    def blueprint(name: str, **values: str) -> Any:
        attributes = {k: Attribute(v, kinds.Bool if k == "has_lights" else kinds.String) for k, v in values.items()}
        return Fake(id=name, has_attribute=attributes.__contains__, get_attribute=attributes.__getitem__)

    blueprints = [
        blueprint("b", base_type="car", special_type="", has_lights="true"),
        blueprint("a", base_type="car", special_type="", has_lights="true"),
        blueprint("police", base_type="car", special_type="emergency", has_lights="true"),
        blueprint("old", base_type="car", special_type="", has_lights="false"),
        blueprint("lorry", base_type="truck", special_type="", has_lights="true"),
        blueprint("nothing"),
    ]
    assert [b.id for b in _car_blueprints(Fake(filter=lambda pattern: blueprints))] == ["a", "b"]


@pytest.mark.system
def test_the_speed_of_far_cars_is_computed_from_their_motion(rig: Rig) -> None:
    """Hybrid physics moves far cars without physics: their velocity reads zero."""
    rig.play(EGO, traffic=True)
    traffic: CarlaTraffic = rig.simulation.actors.traffic
    body, actor = traffic.bodies[0], traffic.actors[0]
    m = body.motion
    x, y = m.x, m.y

    def snapshot(x: float, y: float) -> Any:
        zero = carla.Vector3D()
        at = carla.Transform(carla.Location(x, -y, 0.0), carla.Rotation(yaw=0.0))
        state = Fake(
            get_transform=lambda: at,
            get_velocity=lambda: zero,
            get_acceleration=lambda: zero,
            get_angular_velocity=lambda: zero,
        )
        return Fake(find=lambda number: state if number == actor.id else None)

    traffic.update(snapshot(x + 0.4, y), 0.05)
    assert m.v == pytest.approx(8.0, rel=1e-3)
    traffic.update(snapshot(x + 90.0, y), 0.05)  # a jump is no speed
    assert m.v == 0.0
    assert traffic.bodies[1].gone  # removed by the server


# -- contacts ----------------------------------------------------------------------------------------------------------
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
    from collections import deque

    def event(other: Any, push: float) -> Any:
        return Fake(other_actor=other, normal_impulse=carla.Vector3D(push, 0.0, 0.0))

    pole, wall = hit("static.pole")[0], hit("static.wall")[0]
    event_sensors._hits = deque([event(pole, 3.0), event(pole, 9.0), event(wall, 1.0), event(None, 5.0)])
    assert [(o.type_id, i) for o, i in event_sensors.collisions()] == [("static.pole", 9.0), ("static.wall", 1.0)]
    assert event_sensors.collisions() == []


@pytest.mark.system
def test_hitting_a_town_object_is_a_collision_with_the_layout(rig: Rig) -> None:
    rig.play(EGO)
    world, (x, y, yaw) = rig.simulation.world, rig.world.road.path.pose(15.0)
    box = world.get_blueprint_library().find("static.prop.container")
    turned = carla.Rotation(yaw=-math.degrees(yaw))
    container = world.spawn_actor(box, carla.Transform(carla.Location(x, -y, 0.3), turned))
    seen = [rig.world.truth(), *rig.ticks(80, GO)]
    contact = next(c for t in seen for c in t.contacts)
    assert contact.actor == f"static.prop.container-{container.id}"
    assert contact.kind == ActorKind.BLOCKER
    assert infractions(rig, seen) == {"collisions_layout"}
    container.destroy()
