"""Background traffic in CARLA by the traffic manager, and the ego's contacts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Thing
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
def made(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("about")) as rig:
        yield rig


@pytest.fixture
def rig(made: Rig) -> Iterator[Rig]:
    yield made
    made.clear()


# -- traffic -----------------------------------------------------------------------------------------------------------
@pytest.mark.system
def test_the_traffic_manager_is_in_step_seeded_and_hybrid(rig: Rig) -> None:
    rig.play(EGO, seed=77, traffic=True)
    (manager,) = rig.stage.managers.values()
    assert manager.port == rig.server.port + 6000 or rig.server.port + 6000 > 65535  # the port is a random one
    assert manager.seed == 77
    assert manager.settings["set_synchronous_mode"] is True
    assert manager.settings["set_hybrid_physics_mode"] is True
    assert manager.settings["set_hybrid_physics_radius"] > 50
    assert manager.actor_settings  # its cars have lamps


@pytest.mark.system
def test_there_are_cars_off_the_ego_s_lane_and_not_near_it_and_they_drive(rig: Rig) -> None:
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
def test_another_seed_is_other_traffic_and_none_is_none(rig: Rig) -> None:
    def places(seed: int) -> list[tuple[float, float]]:
        return [(a.x, a.y) for a in rig.play(EGO, seed=seed, traffic=True).actors]

    assert places(1) == places(1) != places(2)
    assert rig.play(EGO).actors == ()


@pytest.mark.system
def test_the_cars_are_cars_by_their_attributes(rig: Rig) -> None:
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
        made = {k: Attribute(v, kinds.Bool if k == "has_lights" else kinds.String) for k, v in values.items()}
        return Thing(id=name, has_attribute=made.__contains__, get_attribute=made.__getitem__)

    shop = [
        blueprint("b", base_type="car", special_type="", has_lights="true"),
        blueprint("a", base_type="car", special_type="", has_lights="true"),
        blueprint("police", base_type="car", special_type="emergency", has_lights="true"),
        blueprint("old", base_type="car", special_type="", has_lights="false"),
        blueprint("lorry", base_type="truck", special_type="", has_lights="true"),
        blueprint("nothing"),
    ]
    assert [b.id for b in _car_blueprints(Thing(filter=lambda pattern: shop))] == ["a", "b"]


@pytest.mark.system
def test_far_cars_whose_speed_the_server_does_not_know_have_that_of_their_way(rig: Rig) -> None:
    """Hybrid physics moves far cars without physics: their velocity reads zero."""
    rig.play(EGO, traffic=True)
    traffic: CarlaTraffic = rig.simulation.actors.traffic
    body, actor = traffic.bodies[0], traffic.actors[0]
    m = body.motion
    x, y = m.x, m.y

    def shown(x: float, y: float) -> Any:
        zero = carla.Vector3D()
        at = carla.Transform(carla.Location(x, -y, 0.0), carla.Rotation(yaw=0.0))
        one = Thing(
            get_transform=lambda: at,
            get_velocity=lambda: zero,
            get_acceleration=lambda: zero,
            get_angular_velocity=lambda: zero,
        )
        return Thing(find=lambda number: one if number == actor.id else None)

    traffic.update(shown(x + 0.4, y), 0.05)
    assert m.v == pytest.approx(8.0, rel=1e-3)
    traffic.update(shown(x + 90.0, y), 0.05)  # a jump is no speed
    assert m.v == 0.0
    assert traffic.bodies[1].gone  # the server has taken it away


# -- contacts ----------------------------------------------------------------------------------------------------------
def hit(kind: str, number: int = 0) -> tuple[Any, float]:
    return Thing(id=number, type_id=kind, attributes={}), 900.0


def test_what_the_town_has_is_told_apart_by_place_and_a_kerb_is_nothing() -> None:
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


def test_who_is_of_ours_is_known_and_stops_riding() -> None:
    ego = SimulatedBody("ego", ActorKind.CAR, MotionState(0.0, 0.0, 0.0), 4.6, 1.9, 1.5)
    child = SimulatedBody("s1", ActorKind.CHILD, MotionState(3.0, 0.0, 0.0), 0.4, 0.4, 1.2)
    parked = SimulatedBody("s2", ActorKind.CAR, MotionState(3.0, 0.0, 0.0), 4.6, 1.9, 1.5)
    found = ContactResolver().resolve([hit("walker.x", 5), hit("vehicle.y", 6)], {5: child, 6: parked}, ego)
    assert [(c.actor, c.kind) for c in found] == [("s1", ActorKind.CHILD), ("s2", ActorKind.CAR)]
    assert child.was_hit
    assert not parked.was_hit


def test_the_hardest_of_one_actor_in_a_tick_counts_and_one_that_is_gone_does_not() -> None:
    event_sensors = EgoEventSensors.__new__(EgoEventSensors)
    from collections import deque

    def event(other: Any, push: float) -> Any:
        return Thing(other_actor=other, normal_impulse=carla.Vector3D(push, 0.0, 0.0))

    pole, wall = hit("static.pole")[0], hit("static.wall")[0]
    event_sensors._hits = deque([event(pole, 3.0), event(pole, 9.0), event(wall, 1.0), event(None, 5.0)])
    assert [(o.type_id, i) for o, i in event_sensors.collisions()] == [("static.pole", 9.0), ("static.wall", 1.0)]
    assert event_sensors.collisions() == []


@pytest.mark.system
def test_a_thing_of_the_town_that_the_ego_runs_into_is_a_collision_with_the_layout(rig: Rig) -> None:
    rig.play(EGO)
    world, (x, y, yaw) = rig.simulation.world, rig.world.road.path.pose(15.0)
    box = world.get_blueprint_library().find("static.prop.container")
    turned = carla.Rotation(yaw=-math.degrees(yaw))
    foreign = world.spawn_actor(box, carla.Transform(carla.Location(x, -y, 0.3), turned))
    seen = [rig.world.truth(), *rig.ticks(80, GO)]
    contact = next(c for t in seen for c in t.contacts)
    assert contact.actor == f"static.prop.container-{foreign.id}"
    assert contact.kind == ActorKind.BLOCKER
    assert infractions(rig, seen) == {"collisions_layout"}
    foreign.destroy()
