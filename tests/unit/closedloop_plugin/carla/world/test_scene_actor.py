"""Vehicles and walkers on rails in CARLA: position, lamps, and behaviour after a collision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import carla
import pytest
from support.carla.rig import DT, EGO, FREE, Rig, rig_on

from closedloop_plugin.core.state import ActorKind, Control
from closedloop_plugin.worlds.base import WorldError

pytestmark = pytest.mark.system

GO = Control(throttle=0.7)


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("rails")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


RIDE = "behavior Ride():\n    while True:\n        wait\n"


def rider(what: str, rail: str, more: str = "") -> str:
    return (
        f"{RIDE}{EGO}r = Rail(route, {rail})\n"
        f"new {what} at r.pose()[:2], facing stage.heading(r.s), with rail r, {FREE}, with behavior Ride(){more}\n"
    )


def test_a_vehicle_has_the_position_and_speed_of_its_rail(rig: Rig) -> None:
    rig.play(rider("Car", "30.0, 3.0, speed=7"))
    for n, truth in enumerate(rig.ticks(40), start=1):
        (car,) = truth.actors
        s, d = rig.world.road.path.locate(car.x, car.y)
        assert s == pytest.approx(30.0 + 7 * DT * n, abs=0.03)
        assert d == pytest.approx(3.0, abs=0.03)
        assert car.speed == pytest.approx(7.0)
    place = rig.body(1).transform().location
    assert math.dist((place.x, -place.y), (car.x, car.y)) < 0.01
    assert rig.body(1).z == pytest.approx(0.0, abs=0.02)  # Town01 is flat: its wheels are on the road
    assert not rig.body(1).physics


def test_no_command_is_sent_for_a_vehicle_at_rest_on_its_rail(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.play(rider("Car", "30.0, 3.0, speed=0"))
    rig.ticks(3)
    sent: list[object] = []

    def record(commands: list[object], do_tick: bool) -> list[object]:
        sent.extend(commands)
        return []

    with monkeypatch.context() as patch:
        patch.setattr(rig.simulation.client, "apply_batch_sync", record)
        rig.ticks(5)
    assert sent == []


def test_lamps_and_doors_are_set_and_reset_on_the_server(rig: Rig) -> None:
    behaviour = """behavior Shows():
    self.lamps.add("hazard")
    self.doors.add("left")
    for _ in range(5):
        wait
    self.lamps.clear()
    self.doors.clear()
    while True:
        wait
"""
    rig.play(
        f"{behaviour}{EGO}new Car at stage.spot(30, -6), facing stage.heading(30), {FREE}, with behavior Shows()\n"
    )
    rig.ticks(3)
    lamps = carla.VehicleLightState(rig.body(1).lamps)
    assert lamps & carla.VehicleLightState.LeftBlinker
    assert lamps & carla.VehicleLightState.RightBlinker
    assert rig.body(1).doors == {"FL"}
    rig.ticks(6)
    assert rig.body(1).lamps == 0
    assert rig.body(1).doors == set()


def test_a_hidden_car_is_kept_below_the_map_and_appears_with_its_speed(rig: Rig) -> None:
    behaviour = """behavior Comes():
    for _ in range(10):
        wait
    self.gone = False
    for _ in range(20):
        wait
    self.gone = True
    while True:
        wait
"""
    program = (
        f"{behaviour}{EGO}r = Rail(route, 40.0, 3.0, speed=6)\n"
        "new Car at r.pose()[:2], facing stage.heading(40), with rail r, with gone True, with behavior Comes()\n"
    )
    assert rig.play(program).actors == ()
    seen = rig.ticks(40)
    assert rig.body(1).z < -100
    on = [t for t in seen if t.actors]
    assert len(on) == 20
    assert on[0].actors[0].speed == pytest.approx(6.0)
    assert rig.world.road.path.locate(on[0].actors[0].x, on[0].actors[0].y)[0] == pytest.approx(40.3, abs=0.1)


def test_a_vehicle_that_loses_its_rail_is_driven_by_its_controls(rig: Rig) -> None:
    behaviour = """behavior Free():
    for _ in range(5):
        wait
    self.rail = None
    while True:
        take SetThrottleAction(0.8)
"""
    rig.play(
        f"{behaviour}{EGO}new Car at stage.spot(30), facing stage.heading(30), "
        "with rail Rail(route, 30.0, speed=5), with behavior Free()\n"
    )
    before, *_, last = rig.ticks(45)
    assert rig.body(1).physics
    assert before.actors[0].speed == pytest.approx(5.0)
    assert last.actors[0].speed > 6.5  # it kept its speed and accelerated


WALK = rider("Pedestrian", "45.0, 5.0, speed={}", ', with kind "pedestrian"')


@pytest.mark.parametrize("speed", [1.4, 4.0])
def test_a_walker_follows_its_rail_with_physics_enabled(rig: Rig, speed: float) -> None:
    rig.play(WALK.format(speed))
    for n, truth in enumerate(rig.ticks(60), start=1):
        (walker,) = truth.actors
        s, d = rig.world.road.path.locate(walker.x, walker.y)
        assert s == pytest.approx(45.0 + speed * DT * n, abs=0.5)
        assert d == pytest.approx(5.0, abs=0.5)
    assert walker.speed == pytest.approx(speed, abs=0.3)
    assert rig.body(1).physics  # without physics the server does not move walkers


def test_a_walker_stops_with_its_rail(rig: Rig) -> None:
    rig.play(WALK.format("2.0, stop_s=46.0"))
    seen = rig.ticks(60)
    assert seen[-1].actors[0].speed < 0.15
    assert rig.world.road.path.locate(seen[-1].actors[0].x, seen[-1].actors[0].y)[0] == pytest.approx(46.0, abs=0.4)


def test_a_walker_walks_after_it_appears(rig: Rig) -> None:
    behaviour = """behavior Comes():
    for _ in range(10):
        wait
    self.gone = False
    while True:
        wait
"""
    assert not rig.play(
        f"{behaviour}{EGO}r = Rail(route, 45.0, 5.0, speed=1.5)\n"
        f"new Pedestrian at r.pose()[:2], with rail r, {FREE}, with gone True, with behavior Comes()\n"
    ).actors
    rig.ticks(9)
    assert not rig.body(1).physics  # with physics it would fall meanwhile
    assert rig.body(1).z < -100
    (walker,) = rig.ticks(21)[-1].actors
    assert rig.world.road.path.locate(walker.x, walker.y)[0] == pytest.approx(45 + 20 * DT * 1.5, abs=0.5)
    assert rig.body(1).z - rig.body(1).lift == pytest.approx(0.0, abs=0.2)


def test_a_walker_hit_by_the_ego_is_reported_and_stops(rig: Rig) -> None:
    rig.play(rider("Pedestrian", "25.0, speed=0.3", ', with kind "child"'))
    hit = None
    for truth in rig.ticks(140, GO):
        hit = hit or next(iter(truth.contacts), None)
    assert hit is not None
    assert (hit.actor, hit.kind) == ("s1", ActorKind.CHILD)
    assert hit.impulse > 0
    assert rig.body(1).control.speed == 0.0
    assert truth.actors[0].speed == 0.0


def test_a_rail_car_hit_by_the_ego_regains_physics_and_brakes(rig: Rig) -> None:
    rig.play(rider("Car", "20.0, speed=2, accel=0.1"))
    seen = rig.ticks(160, GO)
    first = next(i for i, truth in enumerate(seen) if truth.contacts)
    assert seen[first].contacts[0].actor == "s1"
    after = seen[min(first + 30, len(seen) - 1)].actors[0]
    assert rig.body(1).physics
    assert rig.body(1).control.brake == 1.0
    assert after.speed < 0.5
    assert "brake" in after.lamps


def test_an_actor_removed_by_the_server_disappears_and_losing_the_ego_ends_the_episode(rig: Rig) -> None:
    rig.play(rider("Pedestrian", "45.0, 5.0, speed=1.0"))
    rig.ticks(2)
    rig.stage.remove(rig.body(1).id)
    assert rig.ticks(3)[-1].actors == ()
    rig.stage.remove(rig.body(0).id)
    with pytest.raises(WorldError, match="removed the ego"):
        rig.ticks(1)


def test_a_command_refused_by_the_server_ends_the_episode_with_its_name(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.play(rider("Car", "30.0, 3.0, speed=7"))

    def broken(self: object, transform: object) -> None:
        raise RuntimeError("internal error")

    monkeypatch.setattr(carla.Vehicle, "set_transform", broken, raising=False)
    with pytest.raises(WorldError, match=r"refused ApplyTransform for actor .* internal error"):
        rig.ticks(1)
