"""What Bench2Drive's evaluator needs of the fake CARLA: clock, threads, conversions, GNSS, IMU, attributes, scenery."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import carla
import fake_carla
import numpy as np
import pytest
from fake_carla.server import Mode, Server

CAR = "vehicle.lincoln.mkz_2020"
PLACE = (335.0, 200.0)  # in Town01


class Drive:
    """A car at PLACE in Town01, in synchronous mode."""

    def __init__(self, server: Server) -> None:
        self.client = carla.Client("127.0.0.1", server.port)
        self.world = self.client.load_world("Town01")
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        self.world.apply_settings(settings)
        self.library = self.world.get_blueprint_library()
        self.pose = carla.Transform(carla.Location(*PLACE, 1.0), carla.Rotation(yaw=30.0))
        self.car = self.world.spawn_actor(self.library.find(CAR), self.pose)

    def readings(self, kind: str, ticks: int, **attributes: str) -> list[Any]:
        """Data of a sensor in the middle of the car."""
        got: list[Any] = []
        blueprint = self.library.find(kind)
        for name, value in attributes.items():
            blueprint.set_attribute(name, value)
        sensor = self.world.spawn_actor(blueprint, carla.Transform(), attach_to=self.car)
        sensor.listen(got.append)
        for _ in range(ticks):
            self.world.tick()
        return got


@pytest.fixture(params=["0.9.15"])
def drive(data_dir: Path, request: pytest.FixtureRequest) -> Iterator[Drive]:
    with fake_carla.installed(data_dir / "opendrive", Mode(version=request.param)) as server:
        yield Drive(server)


def test_a_time_step_is_a_single_precision_number(drive: Drive) -> None:
    """As the server sends it: a clock that compares with 1 / 20 sees a step that is longer."""
    drive.world.tick()
    before = drive.world.get_snapshot().timestamp
    drive.world.tick()
    after = drive.world.get_snapshot().timestamp
    assert after.delta_seconds == float(np.float32(0.05)) > 0.05
    assert after.elapsed_seconds - before.elapsed_seconds > 0.05


def test_a_thread_waits_for_the_tick_of_another(drive: Drive) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(drive.world.wait_for_tick, 60.0)
        while not waiting.done():
            drive.world.tick()
    assert waiting.result().frame <= drive.world.get_snapshot().frame
    with pytest.raises(RuntimeError, match="time-out of 10ms"):
        drive.world.wait_for_tick(0.01)


@pytest.mark.parametrize(("drive", "latitude"), [("0.9.15", -0.0017966), ("0.9.16", 0.0017973)], indirect=["drive"])
def test_gnss_is_that_of_the_servers_release(drive: Drive, latitude: float) -> None:
    """0.9.15: the leaderboard's formula; 0.9.16 mirrors the latitude (carla issue 9389)."""
    reading = drive.readings("sensor.other.gnss", 1)[0]
    assert isinstance(reading, carla.GnssMeasurement)
    assert reading.latitude == pytest.approx(latitude, abs=1e-7)
    assert reading.longitude == pytest.approx(math.degrees(PLACE[0] / 6378137.0), rel=1e-3)
    assert reading.frame == drive.world.get_snapshot().frame


def test_the_imu_measures_gravity_turns_and_the_compass(drive: Drive) -> None:
    """A car at 30 degrees clockwise from east looks to 120 degrees from north. It then brakes and turns."""
    resting = drive.readings("sensor.other.imu", 2)[-1]
    assert isinstance(resting, carla.IMUMeasurement)
    assert resting.compass == pytest.approx(math.radians(120.0), abs=1e-5)
    assert resting.accelerometer.z == pytest.approx(9.81) and resting.gyroscope.z == 0.0
    drive.car.set_target_velocity(carla.Vector3D(10 * math.cos(math.radians(30)), 10 * math.sin(math.radians(30)), 0))
    drive.car.apply_control(carla.VehicleControl(brake=0.5, steer=0.3))
    braking = drive.readings("sensor.other.imu", 5)[-1]
    assert braking.accelerometer.x < -1.0 and braking.accelerometer.y > 0.1  # right of it: the turn's centre
    assert (
        braking.gyroscope.z == pytest.approx(math.radians(drive.car.get_angular_velocity().z))
        and braking.gyroscope.z > 0
    )
