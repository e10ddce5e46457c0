"""Failures of the fake CARLA server, in this process and in worker processes; and Scenic's interface on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import carla
import fake_carla
import pytest
from fake_carla.server import state_of

CLIENT = """
import sys
import carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(60.0)
print(carla.Client.__module__, flush=True)
world = client.load_world("Town02")
settings = world.get_settings()
settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
world.apply_settings(settings)
points = world.get_map().get_spawn_points()
car = world.spawn_actor(world.get_blueprint_library().find("vehicle.tesla.model3"), points[0])
for tick in range(int(sys.argv[2])):
    if tick == int(sys.argv[3]):
        client.set_timeout(1.0)
    world.tick()
print("done", world.get_snapshot().frame, flush=True)
"""
SCENE = """
param map = {town!r}
param carla_map = "Town01"
param render = 0
param timestep = 0.05
param weather = "ClearNoon"
param port = {port}
model scenic.simulators.carla.model
behavior Go():
    while True:
        take SetThrottleAction(0.5), SetSteerAction(0), SetBrakeAction(0)
behavior Stroll():
    while True:
        take SetWalkingDirectionAction(self.heading), SetWalkingSpeedAction(1.0)
ego = new Car with behavior Go
other = new Car ahead of ego by 15, with behavior AutopilotBehavior()
new Pedestrian right of ego by 4, with behavior Stroll, with regionContainedIn None
new Cone behind ego by 8
record ego.speed as speed
record final other.speed as other
"""


@pytest.fixture
def maps(data_dir: Path) -> Path:
    return data_dir / "opendrive"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Function that starts a server process and returns its port."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> int:
        command = [sys.executable, "-m", "fake_carla.server", *words]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env))
        line = started[-1].stdout.readline()  # type: ignore[union-attr]
        assert line.startswith("listening "), line
        return int(line.split()[1])

    yield start
    for one in started:
        one.kill()
        one.wait()


def drive(maps: Path, port: int, ticks: int, short_timeout_at: int = -1) -> subprocess.CompletedProcess[str]:
    """Run a client in a separate process, in which PYTHONPATH alone makes `import carla` import the fake. Before tick
    `short_timeout_at` it sets a time-out of one second."""
    env = {**os.environ, **fake_carla.worker_environment(maps)}
    command = [sys.executable, "-c", CLIENT, str(port), str(ticks), str(short_timeout_at)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_a_worker_gets_the_fake_and_changes_the_state_of_the_server(maps: Path, process) -> None:
    port = process()
    done = drive(maps, port, 7)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["fake_carla.client", "done 7"]
    left = state_of(port)
    assert (left["town"], left["ticks"], left["synchronous"], len(left["actors"])) == ("Town02", 7, True, 1)


@pytest.mark.parametrize(
    ("mode", "short_timeout_at", "says"),
    [
        ("--die-after", -1, "the connection to the simulator is closed"),
        ("--hang-after", 3, "time-out of 1000ms while waiting for the simulator"),
    ],
)
def test_a_server_that_fails_during_an_episode_raises_a_runtime_error(
    maps: Path, process, mode: str, short_timeout_at: int, says: str
) -> None:
    done = drive(maps, process(mode, "3"), 9, short_timeout_at)
    assert (done.returncode, "done" in done.stdout) == (1, False)
    assert f"RuntimeError: {says}" in done.stderr


def test_a_server_that_answers_nonsense_kills_the_client_s_process(maps: Path, process) -> None:
    done = drive(maps, process("--garbage-after", "0"), 1)
    assert done.returncode == -signal.SIGABRT


def test_a_missing_server_raises_a_time_out_with_the_message_of_the_wheel(maps: Path) -> None:
    with socket.socket() as held:  # bound, but not listening
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with fake_carla.installed(maps):
            client = carla.Client("127.0.0.1", port)
            client.set_timeout(0.1)
            with pytest.raises(RuntimeError) as fake_error:
                client.get_server_version()
        real = carla.Client("127.0.0.1", port)
        real.set_timeout(0.1)
        with pytest.raises(RuntimeError) as real_error:
            real.get_server_version()
    assert str(fake_error.value) == str(real_error.value)


def test_scenic_s_own_carla_interface_runs_on_the_fake(maps: Path) -> None:
    import random

    import numpy
    import scenic

    with fake_carla.installed(maps) as server:
        text = SCENE.format(town=str(maps / "Town01.xodr"), port=server.port)
        no_cache = {"map_options": {"writeCache": False, "useCache": False}}
        scenario = scenic.scenarioFromString(text, mode2D=True, params=no_cache)
        random.seed(3)
        numpy.random.seed(3)
        scene, _ = scenario.generate(maxIterations=2000)
        simulator = scenario.getSimulator()
        speeds = []
        for _ in range(2):
            simulation = simulator.simulate(scene, maxSteps=60, maxIterations=1)
            assert simulation is not None
            records = simulation.result.records
            speeds.append((records["speed"][-1][1], records["other"]))
        assert speeds[0] == speeds[1]
        assert min(speeds[0]) > 3.0
        assert (server.state.actors, server.state.synchronous) == ({}, True)
        simulator.destroy()
        assert server.state.synchronous is False
