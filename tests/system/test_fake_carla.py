"""The fake CARLA behaves like a simulator as far as our world needs it: clock, bodies, sensors, lights, traffic."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import carla
import fake_carla
import pytest
from fake_carla.server import Server

DT = 0.05
CAR, WALKER = "vehicle.tesla.model3", "walker.pedestrian.0001"


class Rig:
    """A client with Town01 in synchronous mode."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = carla.Client("127.0.0.1", server.port)
        self.client.set_timeout(5.0)
        self.world = self.client.load_world("Town01")
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, DT
        self.world.apply_settings(settings)
        self.library = self.world.get_blueprint_library()
        way = next(w for w in self.world.get_map().generate_waypoints(5.0) if self._long(w))
        self.start = way.transform
        self.start.location.z += 0.5

    @staticmethod
    def _long(way: Any) -> bool:
        """95 m of road ahead without a junction."""
        ahead = [way.next(float(d)) for d in range(5, 100, 5)]
        return not way.is_junction and all(w and not w[0].is_junction for w in ahead)

    def at(self, forward: float, up: float = 0.0, left: float = 0.0) -> Any:
        place = self.start.transform(carla.Location(forward, -left, up))
        return carla.Transform(carla.Location(place.x, place.y, place.z), self.start.rotation)

    def car(self, forward: float = 0.0, **kwargs: float) -> Any:
        return self.world.spawn_actor(self.library.find(CAR), self.at(forward, **kwargs))

    def sensor(self, kind: str, parent: Any, got: list[Any], **attributes: str) -> Any:
        blueprint = self.library.find(kind)
        for name, value in attributes.items():
            blueprint.set_attribute(name, value)
        sensor = self.world.spawn_actor(blueprint, carla.Transform(carla.Location(1.5, 0.0, 2.0)), attach_to=parent)
        sensor.listen(got.append)
        return sensor

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.world.tick()


@pytest.fixture
def rig(data_dir: Path) -> Iterator[Rig]:
    with fake_carla.installed(data_dir / "opendrive") as server:
        yield Rig(server)


def speed(actor: Any) -> float:
    return float(actor.get_velocity().length())


def test_a_tick_drives_a_car_and_advances_the_clock(rig: Rig) -> None:
    car = rig.car()
    assert rig.world.tick() + 1 == rig.world.tick()
    before = rig.world.get_snapshot()
    x = car.get_location()
    car.apply_control(carla.VehicleControl(throttle=0.6))
    assert car.get_control().throttle == 0.0  # values are those of the last frame
    rig.ticks(40)
    now = rig.world.get_snapshot()
    assert (now.frame - before.frame, before.find(car.id).get_velocity().length()) == (40, 0.0)
    assert now.timestamp.elapsed_seconds - before.timestamp.elapsed_seconds == pytest.approx(40 * DT)
    assert speed(car) > 3.0
    assert car.get_location().distance(x) > 2.0
    assert car.get_control().throttle == pytest.approx(0.6)
    car.apply_control(carla.VehicleControl(brake=1.0))
    rig.ticks(60)
    assert speed(car) == pytest.approx(0.0, abs=0.05)


def test_a_new_actor_is_at_the_origin_until_the_first_tick_and_then_on_the_road(rig: Rig) -> None:
    car = rig.car()
    assert car.get_location() == carla.Location(0.0, 0.0, 0.0)
    assert rig.world.get_actors().find(car.id) is None
    rig.world.tick()
    assert car.get_location().distance(rig.start.location) == pytest.approx(0.5, abs=0.01)
    assert rig.world.get_actors().filter("vehicle.*").find(car.id).type_id == CAR


def test_spawning_fails_in_an_occupied_place_and_succeeds_below_the_map(rig: Rig) -> None:
    rig.car()
    blueprint = rig.library.find(CAR)
    assert rig.world.try_spawn_actor(blueprint, rig.at(1.0)) is None
    with pytest.raises(RuntimeError, match="collision at spawn"):
        rig.world.spawn_actor(blueprint, rig.at(1.0))
    assert rig.world.try_spawn_actor(blueprint, rig.at(20.0, up=-0.5)) is None  # its wheels in the asphalt
    below = rig.world.try_spawn_actor(blueprint, rig.at(0.0, up=-200.0))
    below.set_simulate_physics(False)
    rig.ticks(5)
    assert below.get_location().z == pytest.approx(rig.start.location.z - 200.0, abs=1e-3)


def test_a_collision_stops_the_car_and_triggers_the_collision_sensor(rig: Rig) -> None:
    car, ahead = rig.car(), rig.car(14.0)
    got: list[Any] = []
    rig.sensor("sensor.other.collision", car, got)
    car.apply_control(carla.VehicleControl(throttle=1.0))
    rig.ticks(80)
    assert got
    assert (got[0].actor.id, got[0].other_actor.id) == (car.id, ahead.id)
    assert got[0].normal_impulse.length() > 1000.0
    assert speed(car) < 0.5
    car.apply_control(carla.VehicleControl(throttle=0.6, reverse=True))
    rig.ticks(40)
    assert car.get_location().distance(ahead.get_location()) > 5.5
    assert len({event.frame for event in got}) == len(got)


def test_the_camera_delivers_each_frame_in_another_thread_and_shows_the_car_ahead(rig: Rig) -> None:
    car = rig.car()
    threads: list[int] = []
    images: list[Any] = []
    camera = rig.sensor("sensor.camera.rgb", car, images, image_size_x="64", image_size_y="36", fov="90")

    def keep(image: Any) -> None:
        images.append(image)
        threads.append(threading.get_ident())

    camera.listen(keep)
    frames = [rig.world.tick() for _ in range(3)]
    assert [image.frame for image in images] == frames
    assert (images[0].width, images[0].height, len(images[0].raw_data)) == (64, 36, 64 * 36 * 4)
    assert bytes(images[0].raw_data[3::4]) == b"\xff" * (64 * 36)
    assert threading.get_ident() not in threads
    assert bytes(images[0].raw_data) == bytes(images[2].raw_data)  # nothing moved
    rig.car(15.0)
    rig.ticks(1)
    assert bytes(images[0].raw_data) != bytes(images[3].raw_data)
    camera.stop()
    rig.ticks(2)
    assert len(images) == 4


def test_a_batch_moves_spawns_destroys_and_reports_failures(rig: Rig) -> None:
    command = carla.command
    car = rig.car()
    new = command.SpawnActor(rig.library.find(CAR), rig.at(20.0))
    done = rig.client.apply_batch_sync(
        [
            command.SetSimulatePhysics(car, False),
            command.ApplyTransform(car.id, rig.at(40.0)),
            command.SetVehicleLightState(car.id, int(carla.VehicleLightState.Brake)),
            new.then(command.SetSimulatePhysics(command.FutureActor, False)),
            command.DestroyActor(99999),
            command.SpawnActor(rig.library.find(CAR), rig.at(20.0)),
        ],
        True,
    )
    assert [bool(answer.error) for answer in done] == [False] * 4 + [True] * 2 == [a.has_error() for a in done]
    assert car.get_location().distance(rig.at(40.0).location) < 1e-3
    assert car.get_light_state() == carla.VehicleLightState.Brake
    spawned = rig.world.get_actor(done[3].actor_id)
    assert spawned.get_transform().location.z == pytest.approx(rig.start.location.z, abs=1e-3)
    rig.client.apply_batch_sync([command.DestroyActor(spawned), command.DestroyActor(car.id)], True)
    assert len(rig.world.get_actors().filter("vehicle.*")) == 0
    assert not spawned.is_alive


def test_a_destroyed_actor_and_an_old_world_raise_errors(rig: Rig) -> None:
    car = rig.car()
    rig.world.tick()
    assert car.destroy()
    assert not car.is_alive
    with pytest.raises(RuntimeError, match="already destroyed"):
        car.get_transform()
    other = rig.car()
    new = rig.client.load_world("Town02")
    assert new.get_map().name == "Carla/Maps/Town02"
    for call in (rig.world.tick, other.get_location):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(RuntimeError, match="map not found"):
        rig.client.load_world("Town99")


@pytest.mark.parametrize(
    "call",
    [
        lambda car: car.set_light_state(8),  # the sum of two lamps is an int, which the real enum's converter refuses
        lambda car: car.set_transform(carla.Location()),
        lambda car: car.apply_control(carla.WalkerControl()),
        lambda car: car.set_simulate_physics("no"),
        lambda car: car.get_world().get_actor(1.0),
        lambda car: car.get_world().get_blueprint_library().find(CAR).set_attribute("role_name", 7),
        lambda car: carla.command.ApplyTransform(car, carla.Location()),
    ],
)
def test_arguments_that_the_real_client_refuses_are_refused(rig: Rig, call: Any) -> None:
    with pytest.raises(TypeError):
        call(rig.car())
