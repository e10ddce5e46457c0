"""The client over a real ROS 1: rosmaster, rospy, a base in a separate process, and the relay between them."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.robots import ros_master
from support.robots.onboard import (
    HERE,
    REPO,
    Listener,
    Peer,
    Process,
    client,
    listening,
    settings,
    until,
    write_atomically,
)

from closedloop_plugin.robots.transport.ros import RosMaster

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"planner": lambda folder, found: listening()}
TOPICS = {"cmd": "/cmd_vel", "camera": "/camera", "camera_type": "compressed", "odom": "/odom"}
STATUS = {"status": "/limo_status", "status_type": "limo_base/LimoStatus"}


@pytest.fixture(scope="module")
def master() -> Iterator[RosMaster]:
    with ros_master.master() as running:
        yield running


@pytest.fixture
def planner() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def received(folder: Path) -> list[dict[str, Any]]:
    file = folder / "heard.jsonl"
    lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def move_commands(folder: Path) -> list[dict[str, Any]]:
    return [h for h in received(folder) if h["command"] not in ([0.0, 0.0, 0.0], "stop")]


@contextlib.contextmanager
def base(master: RosMaster, folder: Path, camera: str = "compressed", kind: str = "twist") -> Iterator[None]:
    write_atomically(folder / "mode", "1")
    env = master.env()
    env["PYTHONPATH"] = f"{REPO}:{env['PYTHONPATH']}"
    words = [sys.executable, str(HERE / "ros_base.py"), str(folder), camera, kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=env) as process:
        yield
        assert process.stdin
        process.stdin.close()


@contextlib.contextmanager
def driven(
    master: RosMaster, folder: Path, planner: Listener, vehicle: str = "limo-ackermann", **more: Any
) -> Iterator[tuple[Process, Peer]]:
    topics = {**TOPICS, **(STATUS if vehicle.startswith("limo") else {}), **more.pop("topics", {})}
    mode = 1 if vehicle.startswith("limo") else None
    vehicle_topics = {"odom": "", "status": "", "status_type": "", **topics}
    file = settings(folder, planner.port, vehicle, backend="ros1", car={"topics": vehicle_topics, "mode": mode}, **more)
    with client(file, python=sys.executable, env=master.env()) as running:
        yield running, planner.accept().handshake()


def test_a_motion_is_published_over_ros_by_the_relay(tmp_path: Path, master: RosMaster, planner: Listener) -> None:
    with base(master, tmp_path), driven(master, tmp_path, planner) as (running, peer):
        _, obs, blob = peer.next("obs")
        assert (obs["width"], obs["height"]) == (16, 8) and blob.startswith(b"\xff\xd8")
        assert obs["odom"]["x"] == 1.5 and obs["odom"]["v"] == 0.25
        assert abs(obs["odom"]["yaw"]) == pytest.approx(3.1416, abs=1e-3)
        assert obs["status"]["mode"] == 1 and obs["status"]["battery_voltage"] == 11.5
        peer.drive(obs["seq"], twist={"vx": 0.2, "vy": 0.0, "wz": 0.1}, duration_s=0.3)
        _, after, _ = peer.next("obs")
        assert after["motion"]["reason"] == "deadline" and after["stamp"] > after["motion"]["ended"]
        found = move_commands(tmp_path)
        assert {tuple(h["command"]) for h in found} == {(0.2, 0.0, 0.1)}
        assert {h["from"] for h in found} == {"/ad2_relay"}
        assert running.end() == 0
    assert received(tmp_path)[-1]["command"] == [0.0, 0.0, 0.0]


def test_a_check_counts_messages_and_publishes_nothing(tmp_path: Path, master: RosMaster) -> None:
    topics = {**TOPICS, **STATUS}
    file = settings(tmp_path, 1, "limo-ackermann", backend="ros1", car={"topics": topics, "mode": 0})
    with base(master, tmp_path):
        until(lambda: (tmp_path / "heard.jsonl").exists())
        words = [sys.executable, "-m", "closedloop_plugin.robots.onboard.check", str(file), "2"]
        env = {**master.env(), "PYTHONPATH": f"{REPO}:{master.env()['PYTHONPATH']}"}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)
    found = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert not found["mode"]["good"] and "1, needed 0" in found["mode"]["found"]
    assert found["camera"]["good"] and "16 x 8" in found["camera"]["found"]
    assert found["base"]["good"] and found["odometry"]["good"] and "battery_voltage 11.5" in found["status"]["found"]
    assert not received(tmp_path)


def test_the_mode_of_the_status_is_checked(tmp_path: Path, master: RosMaster, planner: Listener) -> None:
    with base(master, tmp_path), driven(master, tmp_path, planner) as (_, peer):
        peer.next("obs")
        write_atomically(tmp_path / "mode", "0")
        until(lambda: "in mode 0" in peer.next("stop")[1]["reason"])
        write_atomically(tmp_path / "mode", "1")


def test_raw_images_become_jpeg_and_words_are_published_as_strings(
    tmp_path: Path, master: RosMaster, planner: Listener
) -> None:
    more: dict[str, Any] = {"topics": {"camera_type": "raw"}}
    with (
        base(master, tmp_path, "raw", "word"),
        driven(master, tmp_path, planner, "jetbot-dusty-ros1", **more) as (_, peer),
    ):
        _, obs, blob = peer.next("obs")
        assert Image.open(io.BytesIO(blob)).size == (16, 8)
        assert obs["status"] is None
        peer.drive(obs["seq"], twist=None, word="forward", duration_s=0.2)
        until(lambda: move_commands(tmp_path))
        assert {h["command"] for h in move_commands(tmp_path)} == {"forward"}


def test_a_base_that_does_not_listen_is_reported(tmp_path: Path, master: RosMaster, planner: Listener) -> None:
    more: dict[str, Any] = {"topics": {"cmd": "/cmd_typo"}}
    with base(master, tmp_path), driven(master, tmp_path, planner, **more) as (_, peer):
        until(lambda: "no node subscribes to /cmd_typo" in peer.next("stop")[1]["reason"])


def test_without_a_master_the_vehicle_stops_and_with_the_next_one_it_drives_again(
    tmp_path: Path, planner: Listener
) -> None:
    with (
        ros_master.master() as master,
        base(master, tmp_path),
        driven(master, tmp_path, planner, motion_s=1.0) as (running, peer),
    ):
        peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
        until(lambda: move_commands(tmp_path))
        master.kill()
        assert "no ROS master" in running.wait_for("stands")["reason"]
        until(lambda: "no ROS master" in peer.next("stop")[1]["reason"])
        until(lambda: received(tmp_path)[-1]["command"] == [0.0, 0.0, 0.0])
        master.restart()
        peer.drive(peer.next("obs")[1]["seq"], 0.15)
        until(lambda: any(h["command"][0] == 0.15 for h in received(tmp_path)))
        # A node that starts now, a recorder or a restarted base, finds the topics again.
        found = ros_master.probe(master, "print(wait(listen('/cmd_vel', Twist)).linear.y)")
        assert found.strip() == "0.0"
        with base(master, tmp_path):  # has the same name as the first, which ROS therefore shuts down
            before = len(received(tmp_path))
            peer.next("obs")
            until(lambda: len(received(tmp_path)) > before)


def test_a_node_that_ros_has_shut_down_ends_the_client(tmp_path: Path, master: RosMaster, planner: Listener) -> None:
    with base(master, tmp_path), driven(master, tmp_path, planner) as (running, peer):
        peer.next("obs")
        ros_master.probe(
            master,
            "import rosgraph, xmlrpc.client\n"
            "uri = rosgraph.Master('/probe').lookupNode('/ad2_onboard')\n"
            "xmlrpc.client.ServerProxy(uri).shutdown('/probe', 'test')",
        )
        assert running.process.wait(60) == 2
        assert "shut this node down" in running.wait_for("cannot drive")["why"]


def test_a_missing_master_is_reported_at_once(tmp_path: Path, planner: Listener) -> None:
    ros_master.ros_path()
    with ros_master.master() as gone:
        env = gone.env()
    file = settings(tmp_path, planner.port, backend="ros1")
    for url, words in ((gone.uri, "no ROS master at"), ("", "ROS_MASTER_URI is not set")):
        with client(file, python=sys.executable, env={**env, "ROS_MASTER_URI": url}) as running:
            assert running.process.wait(60) == 2
            assert words in running.wait_for("cannot drive")["why"]
