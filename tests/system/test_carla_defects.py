"""Our interface to CARLA where that of Scenic has defects: lost frames, lights, weather, speeds, steps, turn rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import carla
import pytest
from support.carla.rig import EGO, FREE, Rig, rig_on

from closedloop_plugin.carla.world import sensors
from closedloop_plugin.core.state import Control
from closedloop_plugin.worlds.base import InvalidScene, WorldError


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("defects")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


# -- a lost frame ------------------------------------------------------------------------------------------------------
CAMERA = EGO.strip() + ", with sensors {'front': RGBSensor(width=32, height=18)}\n"


def test_the_camera_of_a_program_gets_every_frame_and_a_lost_frame_is_an_error(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.play(CAMERA)
    rig.ticks(2, Control(throttle=0.5))
    seen = rig.simulation.objects[0].observations["front"]
    assert seen.shape == (18, 32, 3)
    assert rig.simulation.objects[0].sensors["front"].frame == rig.simulation.current_frame
    monkeypatch.setattr(sensors, "FRAME_TIMEOUT_S", 0.05)
    rig.server.mode.blind_after = 0
    try:
        with pytest.raises(WorldError, match=r"sensor front sent nothing for frame \d+ in 0.05 s"):
            rig.ticks(1)
    finally:
        rig.server.mode.blind_after = -1


def test_event_sensors_are_not_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "FRAME_TIMEOUT_S", 0.05)
    feeler = "type('Feeler', (RGBSensor,), {'blueprint': 'sensor.other.collision', 'process': lambda self, data: data})"
    rig.play(
        f"feeler = {feeler}()\nfeeler._lastObservation = None\n"
        "ego = new Car at stage.spot(0), facing stage.heading(0), with sensors {'feel': feeler}\n"
    )
    assert rig.ticks(3)[-1].tick == 3


def test_a_camera_that_sends_nothing_is_an_error_with_its_name(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from closedloop_plugin.core.camera import Camera

    rig.play(EGO, cameras=(Camera("left eye", 32, 18, 70.0, 0.8, 0.0, 1.6),))
    monkeypatch.setattr(sensors, "FRAME_TIMEOUT_S", 0.05)
    rig.server.mode.blind_after = 0
    try:
        seen = rig.world.step(Control())
        with pytest.raises(WorldError, match="camera left eye sent no picture"):
            seen.images("left eye")
    finally:
        rig.server.mode.blind_after = -1


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        ("RGBSensor(attributes={'convert': 'Sepia'})", "no converter 'Sepia'"),
        ("type('X', (RGBSensor,), {'blueprint': 'sensor.nose'})()", "CARLA has none such"),
    ],
)
def test_a_sensor_unknown_to_carla_is_reported(rig: Rig, sensor: str, words: str) -> None:
    program = f"ego = new Car at stage.spot(0), facing stage.heading(0), with sensors {{'s': {sensor}}}\n"
    with pytest.raises(InvalidScene, match=words):
        rig.play(program)


# -- other defects -----------------------------------------------------------------------------------------------------
def test_the_weather_is_that_of_the_route(rig: Rig) -> None:
    for seed in (1, 2):
        rig.play(EGO, seed=seed)
        assert rig.world.weather == rig.route.weather


def light_behaviour(call: str) -> str:
    return (
        "behavior Sets():\n    lit = [s for i in network.intersections for s in i.signals if s.isTrafficLight]\n"
        f"    {call}\n    while True:\n        wait\n"
    )


def test_our_traffic_light_functions_set_and_read_the_light(rig: Rig) -> None:
    behaviour = light_behaviour("setTrafficLightStatus(lit[0], 'yellow')")
    other = f"new Car at stage.spot(20, 3), facing stage.heading(20), {FREE}, with behavior Sets()\n"
    rig.play(behaviour + EGO + other)
    rig.ticks(2)
    lit = [s for i in rig.world._network.intersections for s in i.signals if s.isTrafficLight]
    lamp = rig.stage.lights.lamps[str(lit[0].openDriveID)]
    assert lamp.state == carla.TrafficLightState.Yellow
    read = light_behaviour("self.position; stage.event(getTrafficLightStatus(lit[0]))")
    rig.play(read + EGO + other)
    assert rig.ticks(2)[-1].events[0][1] in ("red", "yellow", "green")
    near = "behavior Sets():\n    setClosestTrafficLightStatus(self, 'green', 400)\n    "
    near += "stage.event(getClosestTrafficLightStatus(self, 400))\n    while True:\n        wait\n"
    rig.play(near + EGO + other)
    assert rig.ticks(2)[-1].events  # found, or "None": no NameError


def test_an_initial_speed_is_applied(rig: Rig) -> None:
    x, y = (6 * f(rig.route.trigger[2]) for f in (math.cos, math.sin))
    moving = f"new Car at stage.spot(30), facing stage.heading(30), with velocity ({x}, {y}, 0)\n"
    rig.play(EGO + moving)
    assert rig.ticks(2)[-1].actors[0].speed == pytest.approx(6.0, abs=0.4)


def test_the_timestep_is_set_per_episode(rig: Rig) -> None:
    for step in (0.1, 0.05):
        rig.play(EGO, timestep=step)
        before = rig.stage.elapsed
        assert rig.ticks(4)[-1].time_s == pytest.approx(4 * step)
        assert rig.stage.elapsed - before == pytest.approx(4 * step)


def test_the_turn_rate_is_that_about_the_vertical(rig: Rig) -> None:
    rig.play(EGO)
    truth = rig.ticks(40, Control(0.0, 0.7))[-1]
    truth = rig.ticks(10, Control(0.4, 0.3))[-1]
    ego = rig.simulation.objects[0]
    assert truth.ego.yaw_rate < -0.05  # to the right: clockwise
    assert ego.angularSpeed == pytest.approx(truth.ego.yaw_rate)
    assert ego.angularVelocity.z == pytest.approx(truth.ego.yaw_rate)
