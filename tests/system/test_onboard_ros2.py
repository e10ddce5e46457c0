"""The client over a real ROS 2: rclpy, a base in a separate process, and the relay between them.

Runs where a Python with rclpy is found: AD2_TEST_ROS2_PYTHON, .venv/ros2/bin/python, or the one of the tests. On Linux
x86-64 such a Python needs no root:

    python3.11 -m venv .venv/ros2
    .venv/ros2/bin/pip install ros-kilted-rclpy ros-rmw-fastrtps-cpp ros-sensor-msgs ros-geometry-msgs ros-nav-msgs \
        ros-std-msgs pillow
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.robots.far_robot import far_robot, yaml_of
from support.robots.onboard import HERE, REPO, Listener, Peer, Process, client, listening, settings, until
from support.robots.sshd import sshd
from support.running import BIN, run

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"planner": lambda folder, found: listening()}
TOPICS = {
    "cmd": "/cmd_vel", "camera": "/camera", "camera_type": "compressed", "odom": "/odom", "status": "/battery",
    "status_type": "sensor_msgs/msg/BatteryState",
}  # fmt: skip
NEEDS = "import rclpy, geometry_msgs.msg, nav_msgs.msg, sensor_msgs.msg, std_msgs.msg; rclpy.init()"


@functools.cache
def ros2_python() -> str:
    """A Python with rclpy. Without one, the test is skipped."""
    named = os.environ.get("AD2_TEST_ROS2_PYTHON")
    candidates = [named] if named else [str(REPO / ".venv/ros2/bin/python"), sys.executable]
    why = "no such program"
    for candidate in candidates:
        with contextlib.suppress(OSError):
            done = subprocess.run([candidate, "-c", NEEDS], capture_output=True, text=True, timeout=120, check=False)
            if not done.returncode:
                return candidate
            why = done.stderr.strip().split("\n")[-1]
    pytest.skip(f"no ROS 2 in {' or '.join(candidates)} ({why}); see the docstring of {Path(__file__).name}")


@pytest.fixture
def env() -> dict[str, str]:
    """The environment of ROS 2 on this machine only, in a domain of its own for each process of the tests."""
    domain = 1 + os.getpid() % 100  # 0 is everyone's; above 101 the ports would be those of the system
    local = {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "1"}
    return {**os.environ, **local, "PYTHONPATH": str(REPO)}


@pytest.fixture
def planner() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def received(folder: Path) -> list[Any]:
    file = folder / "heard.jsonl"
    lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
    return [json.loads(line)["command"] for line in lines]


def moving(folder: Path) -> list[Any]:
    return [command for command in received(folder) if command not in ([0.0, 0.0, 0.0], "stop")]


@contextlib.contextmanager
def base(
    env: dict[str, str], folder: Path, camera: str = "compressed", kind: str = "twist"
) -> Iterator[subprocess.Popen[bytes]]:
    words = [ros2_python(), str(HERE / "ros2_base.py"), str(folder), camera, kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=env) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@contextlib.contextmanager
def driven(
    env: dict[str, str], folder: Path, planner: Listener, vehicle: str = "jetbot-dusty-ros2", **more: Any
) -> Iterator[tuple[Process, Peer]]:
    topics = {**TOPICS, **more.pop("topics", {})}
    file = settings(folder, planner.port, vehicle, backend="ros2", relay=True, car={"topics": topics}, **more)
    with client(file, python=ros2_python(), env=env) as running:
        yield running, planner.accept().handshake()


def test_a_motion_is_published_over_ros_2_by_the_relay(tmp_path: Path, env: dict[str, str], planner: Listener) -> None:
    with base(env, tmp_path), driven(env, tmp_path, planner) as (running, peer):
        _, obs, blob = peer.next("obs")
        assert (obs["width"], obs["height"]) == (16, 8) and blob.startswith(b"\xff\xd8")
        assert obs["odom"]["x"] == 1.5 and obs["odom"]["v"] == 0.25
        assert abs(obs["odom"]["yaw"]) == pytest.approx(3.1416, abs=1e-3)
        assert obs["status"]["voltage"] == 11.5 and "header" not in obs["status"]
        peer.drive(obs["seq"], twist={"vx": 0.2, "vy": 0.0, "wz": 0.1}, duration_s=0.3)
        _, after, _ = peer.next("obs")
        assert after["motion"]["reason"] == "deadline" and after["stamp"] > after["motion"]["ended"]
        assert {tuple(command) for command in moving(tmp_path)} == {(0.2, 0.0, 0.1)}
        assert running.end() == 0
        assert not [line for line in running.log if "terminate" in str(line.get("text"))]
    assert received(tmp_path)[-1] == [0.0, 0.0, 0.0]


def test_raw_images_become_jpeg_and_words_are_published_as_strings(
    tmp_path: Path, env: dict[str, str], planner: Listener
) -> None:
    more: dict[str, Any] = {"topics": {"camera_type": "raw", "odom": "", "status": "", "status_type": ""}}
    with (
        base(env, tmp_path, "raw", "word"),
        driven(env, tmp_path, planner, "jetbot-dusty-ros1", **more) as (_, peer),
    ):
        _, obs, blob = peer.next("obs")
        assert Image.open(io.BytesIO(blob)).size == (16, 8)
        assert obs["status"] is None
        peer.drive(obs["seq"], twist=None, word="forward", duration_s=0.2)
        until(lambda: moving(tmp_path))
        assert set(moving(tmp_path)) == {"forward"}


def check(env: dict[str, str], file: Path) -> dict[str, Any]:
    words = [ros2_python(), "-m", "closedloop_plugin.robots.onboard.check", str(file), "3"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "terminate" not in done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_a_check_counts_messages_and_publishes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    file = settings(tmp_path, 1, "jetbot-dusty-ros2", backend="ros2", car={"topics": TOPICS})
    with base(env, tmp_path):
        until(lambda: (tmp_path / "heard.jsonl").exists())
        found = check(env, file)
    assert found["camera"]["good"] and "16 x 8" in found["camera"]["found"]
    assert found["base"]["good"] and found["odometry"]["good"] and "voltage 11.5" in found["status"]["found"]
    assert not received(tmp_path)


@pytest.mark.parametrize("name", ["limo_base/LimoStatus", "no_msgs/msg/Such", "sensor_msgs/msg/Such", "odd"])
def test_an_unknown_status_type_is_named(tmp_path: Path, env: dict[str, str], name: str) -> None:
    topics = {**TOPICS, "status_type": name}
    file = settings(tmp_path, 1, "jetbot-dusty-ros2", backend="ros2", car={"topics": topics})
    found = check(env, file)["ros2"]
    assert not found["good"] and f"status type {name}: unknown here" in found["found"]


def test_a_base_that_does_not_listen_is_reported(tmp_path: Path, env: dict[str, str], planner: Listener) -> None:
    with base(env, tmp_path), driven(env, tmp_path, planner, topics={"cmd": "/cmd_typo"}) as (_, peer):
        until(lambda: "no node subscribes to /cmd_typo" in peer.next("stop")[1]["reason"])


def test_a_killed_base_is_noticed_by_its_silence(tmp_path: Path, env: dict[str, str], planner: Listener) -> None:
    """ROS 2 itself reports it 20 s later."""
    with base(env, tmp_path) as process, driven(env, tmp_path, planner) as (_, peer):
        peer.next("obs")
        process.send_signal(signal.SIGKILL)
        until(lambda: "the odometry has been silent" in peer.next("stop")[1]["reason"])


def test_the_wheels_stop_when_the_client_is_killed_in_a_motion(
    tmp_path: Path, env: dict[str, str], planner: Listener
) -> None:
    with base(env, tmp_path), driven(env, tmp_path, planner, motion_s=1.0) as (running, peer):
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        until(lambda: moving(tmp_path))
        running.end(signal.SIGKILL)
        running.wait_for("orphaned")
        until(lambda: received(tmp_path)[-1] == [0.0, 0.0, 0.0])


def test_a_vehicle_is_deployed_and_checked_over_ssh(tmp_path: Path, env: dict[str, str]) -> None:
    with base(env, tmp_path), sshd(tmp_path) as server:
        file = yaml_of(far_robot(server, tmp_path / "vehicle"), tmp_path, "ros2")
        setup = tmp_path / "setup.bash"
        setup.write_text("".join(f"export {name}={value}\n" for name, value in env.items() if name.startswith("ROS_")))
        with file.open("a") as more:
            more.write(f"  python: {ros2_python()}\n  setup: {setup}\n")
            more.write("topics: {camera: /camera, camera_type: compressed, status: /battery,")
            more.write(" status_type: sensor_msgs/BatteryState}\n")
        run(BIN / "ad2", "robot", "deploy", str(file), "host", cwd=tmp_path)
        done = run(BIN / "ad2", "robot", "deploy", str(file), "--check", cwd=tmp_path, code=1)
    assert "ok   base: subscribes to /cmd_vel" in done.stdout and "ok   odometry: /odom" in done.stdout
    assert "ok   camera: /camera: 16 x 8" in done.stdout and "ok   status: /battery" in done.stdout
    assert [line for line in done.stdout.splitlines() if "FAIL" in line] == [
        "FAIL mode: unknown, needed 1: switch it on the vehicle"  # a battery has none
    ]
    assert not received(tmp_path)
