"""Background traffic and traffic lights in CARLA, hitting a town's object, and custom Scenic behaviours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import carla
import pytest
from support.carla.rig import EGO, FREE, Rig, infractions, junction_route, rig_on

from closedloop_plugin.carla.world.traffic import CLEAR_M, MAX_CARS, CarlaTraffic, _car_blueprints
from closedloop_plugin.core.state import COAST, ActorKind, Control, SignalState

pytestmark = pytest.mark.system

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
def test_the_traffic_manager_is_synchronous_seeded_and_hybrid(rig: Rig) -> None:
    rig.play(EGO, seed=77, traffic=True)
    (manager,) = rig.stage.managers.values()
    assert manager.port == rig.server.port + 6000 or rig.server.port + 6000 > 65535  # the server's port is random
    assert manager.seed == 77
    assert manager.settings["set_synchronous_mode"] is True
    assert manager.settings["set_hybrid_physics_mode"] is True
    assert manager.settings["set_hybrid_physics_radius"] > 50
    assert manager.actor_settings  # its cars have lamps


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


def test_traffic_depends_on_the_seed_and_is_off_by_default(rig: Rig) -> None:
    def places(seed: int) -> list[tuple[float, float]]:
        return [(a.x, a.y) for a in rig.play(EGO, seed=seed, traffic=True).actors]

    assert places(1) == places(1) != places(2)
    assert rig.play(EGO).actors == ()


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


# -- contacts ---------------------------------------------------------------------------------------------------------
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


# -- lights ------------------------------------------------------------------------------------------------------------
def states(rig: Rig) -> dict[str, Any]:
    return {name: lamp.state for name, lamp in rig.stage.lights.lamps.items()}


def test_lights_of_the_map_follow_our_cycle_others_are_frozen_and_all_resume_afterwards(rig: Rig) -> None:
    rig.play(EGO, seed=5)
    lines = {line.id for line in rig.world.road.stop_lines if line.control == "signal"}
    assert lines
    names = {
        SignalState.RED: carla.TrafficLightState.Red,
        SignalState.YELLOW: carla.TrafficLightState.Yellow,
        SignalState.GREEN: carla.TrafficLightState.Green,
    }
    first, cycle = states(rig), []
    for _ in range(400):
        (truth,) = rig.ticks(1)
        now = states(rig)
        assert all(now[line] == names[truth.signals[line]] for line in lines)
        assert all(now[name] == first[name] for name in now if name not in lines)
        cycle.append(dict(truth.signals))
    assert len({str(c) for c in cycle}) > 1
    rig.play(EGO, seed=5)
    assert [dict(t.signals) for t in rig.ticks(400)] == cycle
    rig.clear()
    assert not any(lamp.group.frozen for lamp in rig.stage.lights.lamps.values())


def test_a_light_set_by_scenic_is_shown_and_reported_to_the_referee(rig: Rig) -> None:
    behaviour = """behavior Sets():
    ours = {l.id for l in stage.road.stop_lines if l.control == "signal"}
    signal = [s for i in network.intersections for s in i.signals if str(s.openDriveID) in ours][0]
    stage.event(str(signal.openDriveID))
    setTrafficLightStatus(signal, "yellow")
    while True:
        wait
"""
    other = f"new Car at stage.spot(20, 3), facing stage.heading(20), {FREE}, with behavior Sets()\n"
    rig.play(behaviour + EGO + other)
    seen = rig.ticks(300)
    line = seen[-1].events[0][1]
    for truth in seen[2:]:
        assert truth.signals[line] == SignalState.YELLOW  # the signals that the referee reads
    assert states(rig)[line] == carla.TrafficLightState.Yellow


@pytest.mark.parametrize("town", ["Town02", "Town10HD"])
@pytest.mark.parametrize(("held", "found"), [(SignalState.RED, {"red_light"}), (SignalState.GREEN, set())])
def test_running_a_red_light_of_a_real_town_is_an_infraction(
    rig: Rig, data_dir: Path, town: str, held: SignalState, found: set[str]
) -> None:
    original, rig.route = rig.route, junction_route(town, data_dir / "opendrive")
    try:
        first = rig.play(EGO)
        stage, road = rig.simulation.context.stage, rig.world.road
        assert any(line.on_route and line.control == "signal" for line in road.stop_lines)
        stage.hold_signals(held)
        seen = [first, *rig.ticks(61), *rig.ticks(110, GO)]  # 3 s of yellow come first
        assert road.path.locate(seen[-1].ego.x, seen[-1].ego.y)[0] > 40
        assert infractions(rig, seen) == found
    finally:
        rig.route = original


# -- custom behaviours -------------------------------------------------------------------------------------------------
def test_a_car_follows_its_lane(rig: Rig) -> None:
    rig.play(EGO + "new Car at stage.spot(30), facing stage.heading(30), with behavior FollowLaneBehavior(6)\n")
    (car,) = rig.ticks(120, COAST)[-1].actors
    s, d = rig.world.road.path.locate(car.x, car.y)
    assert s > 40
    assert abs(d) < 1.0


def test_a_car_drives_on_carla_s_autopilot(rig: Rig) -> None:
    rig.play(EGO + "new Car at stage.spot(30), facing stage.heading(30), with behavior AutopilotBehavior(speed=5)\n")
    (car,) = rig.ticks(100)[-1].actors
    assert car.speed == pytest.approx(5.0, abs=1.0)


@pytest.mark.parametrize(
    "behaviour", ["WalkBehavior(1.2)", "WalkForwardBehavior(1.2)", "CrossingBehavior(ego, 1.2, 100)"]
)
def test_a_walker_walks_with_scenic_s_behaviours(rig: Rig, behaviour: str) -> None:
    walker = f"new Pedestrian at stage.spot(30, -6), facing stage.heading(30), {FREE}, with behavior {behaviour}\n"
    (first,) = rig.play(EGO + walker).actors
    seen = rig.ticks(40)
    (last,) = seen[-1].actors
    assert math.dist((first.x, first.y), (last.x, last.y)) > 1.0
