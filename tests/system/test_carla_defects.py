"""Defects of Scenic's interface to CARLA, shown with its own classes, and our interface without them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import carla
import pytest
from fake_carla.server import Server
from support.carla.rig import EGO, FREE, Rig, rig_on

from closedloop_plugin.carla.world import sensors
from closedloop_plugin.carla.world.simulation import StagedSimulator
from closedloop_plugin.core.state import Control
from closedloop_plugin.worlds.base import InvalidScene, WorldError

SCENIC_MODEL = "model scenic.simulators.carla.model\n"


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("defects")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


@pytest.fixture(scope="module")
def run_in_scenic(module_rig: Rig, data_dir: Path) -> Any:
    """Function that runs a program in Scenic's own simulation for a few steps, in Town01 on a separate fake server."""
    import scenic

    scenic.core.dynamics.stuckBehaviorWarningTimeout = 0
    maps = data_dir / "opendrive"

    def compiled(text: str) -> Any:
        params = {"map": str(maps / "Town01.xodr"), "render": 0, "map_options": {"writeCache": False}}
        return scenic.scenarioFromString(SCENIC_MODEL + text, params=params, mode2D=True)

    def run(text: str, steps: int = 3) -> Any:
        scene, _ = compiled(text).generate(maxIterations=500)
        with Server() as server:
            from scenic.simulators.carla.simulator import CarlaSimulator

            simulator = CarlaSimulator("Town01", "", port=server.port, timeout=5, render=False, timestep=0.05)
            return simulator.simulate(scene, maxSteps=steps, verbosity=0)

    run.compiled = compiled  # type: ignore[attr-defined]
    return run


# -- a lost frame ------------------------------------------------------------------------------------------------------
CAMERA = EGO.strip() + ", with sensors {'front': RGBSensor(width=32, height=18)}\n"


def test_scenic_waits_for_a_frame_without_a_limit() -> None:
    from scenic.simulators.carla.simulator import CarlaSimulation

    reads = []

    class Sensor:
        """Its frame arrives at the fourth read; a wait with a limit would have ended before."""

        @property
        def frame(self) -> int:
            reads.append(threading.current_thread())
            return 7 if len(reads) > 3 else 0

    class Stub:
        world = type("World", (), {"tick": staticmethod(lambda: 7)})()
        objects = (type("Thing", (), {"sensors": {"front": Sensor()}})(),)
        render = False

    CarlaSimulation.step(Stub())
    assert len(reads) == 4


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
def test_the_weather_is_random_in_scenic_and_that_of_the_route_in_ours(run_in_scenic: Any, rig: Rig) -> None:
    scenario = run_in_scenic.compiled("ego = new Car\n")
    sampled = {str(scenario.generate(maxIterations=500)[0].params["weather"]) for _ in range(8)}
    assert len(sampled) > 1
    for seed in (1, 2):
        rig.play(EGO, seed=seed)
        assert rig.world.weather == rig.route.weather


def light_behaviour(call: str) -> str:
    return (
        "behavior Sets():\n    lit = [s for i in network.intersections for s in i.signals if s.isTrafficLight]\n"
        f"    {call}\n    while True:\n        wait\n"
    )


def test_the_traffic_light_functions_of_scenic_raise_name_errors(run_in_scenic: Any) -> None:
    with pytest.raises(NameError, match="utils"):
        run_in_scenic(light_behaviour("setTrafficLightStatus(lit[0], 'red')") + "ego = new Car with behavior Sets()\n")


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


def test_an_initial_speed_is_refused_by_scenic_and_applied_by_ours(run_in_scenic: Any, rig: Rig) -> None:
    with pytest.raises(RuntimeError, match="nonzero initial speed"):
        run_in_scenic("ego = new Car with velocity (0, 6, 0), with speed 6\n")
    x, y = (6 * f(rig.route.trigger[2]) for f in (math.cos, math.sin))
    moving = f"new Car at stage.spot(30), facing stage.heading(30), with velocity ({x}, {y}, 0)\n"
    rig.play(EGO + moving)
    assert rig.ticks(2)[-1].actors[0].speed == pytest.approx(6.0, abs=0.4)


def test_the_timestep_is_fixed_in_scenic_and_set_per_episode_in_ours(
    run_in_scenic: Any, rig: Rig, data_dir: Path
) -> None:
    from scenic.simulators.carla.simulator import CarlaSimulator

    scene, _ = run_in_scenic.compiled("ego = new Car\n").generate(maxIterations=500)
    with pytest.raises(RuntimeError, match="cannot customize timestep"):
        CarlaSimulator.createSimulation(type("S", (), {"timestep": 0.05})(), scene, timestep=0.1)
    for step in (0.1, 0.05):
        rig.play(EGO, timestep=step)
        before = rig.stage.elapsed
        assert rig.ticks(4)[-1].time_s == pytest.approx(4 * step)
        assert rig.stage.elapsed - before == pytest.approx(4 * step)


def test_the_timeout_is_ten_seconds_in_scenic_and_long_enough_to_load_a_town_in_ours() -> None:
    import inspect

    from scenic.simulators.carla.simulator import CarlaSimulator

    from closedloop_plugin.carla.world.connection import LOAD_S

    assert inspect.signature(CarlaSimulator).parameters["timeout"].default == 10
    assert LOAD_S >= 60
    assert inspect.signature(StagedSimulator).parameters["timeout"].default == 10  # so connection.py must pass its own


def test_the_turn_rate_is_read_from_the_wrong_axis_in_scenic_and_the_right_one_in_ours(rig: Rig) -> None:
    from scenic.simulators.carla.utils.utils import carlaToScenicAngularSpeed, carlaToScenicAngularVel

    turning = carla.Vector3D(0.0, 0.0, 30.0)  # degrees/s about the vertical
    assert carlaToScenicAngularSpeed(turning) == 0.0
    assert carlaToScenicAngularVel(turning).z == 0.0
    rig.play(EGO)
    truth = rig.ticks(40, Control(0.0, 0.7))[-1]
    truth = rig.ticks(10, Control(0.4, 0.3))[-1]
    ego = rig.simulation.objects[0]
    assert truth.ego.yaw_rate < -0.05  # to the right: clockwise
    assert ego.angularSpeed == pytest.approx(truth.ego.yaw_rate)
    assert ego.angularVelocity.z == pytest.approx(truth.ego.yaw_rate)


class Decks:
    """A map with two decks; places above 10 m get the upper one."""

    def get_waypoint(self, place: Any, **_: Any) -> Any:
        z = 20.0 if place.z > 10 else 0.0
        at = carla.Transform(carla.Location(place.x, place.y, z))
        return type("Way", (), {"transform": at})()


def test_the_ground_is_searched_from_z_0_in_scenic_and_near_the_route_in_ours() -> None:
    from scenic.core.vectors import Vector
    from scenic.simulators.carla.utils.utils import scenicToCarlaLocation

    from closedloop_plugin.carla.maps.ground import CarlaGround

    world = type("World", (), {"get_map": lambda self: Decks()})()
    location = scenicToCarlaLocation(Vector(5, 5, 20), world, "vehicle.x", snapToGround=True)
    assert location.z == 0.5  # searched from z = 0: found on the lower deck
    assert CarlaGround(Decks()).height(5.0, 5.0, near=19.0) == 20.0
