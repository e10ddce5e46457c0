"""The relay process between client and wheels: crashes, hangs and kills of either."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.robots.onboard import Listener, Peer, Process, client, listening, moves, published, settings, until

from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.io import VehicleIO
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import EmergencyStopLatch
from closedloop_plugin.robots.onboard.relay import FRESH_S, ActuationRelay, is_held
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

pytestmark = pytest.mark.integration

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"planner": lambda folder, found: listening()}


@pytest.fixture
def planner() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def begin(vehicle: Process, planner: Listener, folder: Path) -> tuple[Peer, int]:
    """Starts a motion of one second; returns the peer and the relay's pid."""
    peer = planner.accept().handshake()
    peer.drive(peer.next("obs")[1]["seq"], duration_s=1.0)
    until(lambda: any(map(moves, published(folder))))
    return peer, int(vehicle.wait_for("relay")["pid"])


def last_of(folder: Path, node: str) -> dict[str, Any]:
    return [p for p in published(folder) if p["node"] == node][-1]


def ended(pid: int) -> bool:
    """Ended, or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_only_the_relay_publishes_while_it_lives(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, relay=True)) as vehicle:
        peer, pid = begin(vehicle, planner, tmp_path)
        peer.next("obs")
        assert {p["pid"] for p in published(tmp_path) if moves(p)} == {pid}
        assert os.getsid(pid) == pid != os.getsid(vehicle.process.pid)
        assert vehicle.end() == 0
        assert ended(pid), "the client sees it end"
    assert not any(map(moves, published(tmp_path)[-3:]))
    first = next(i for i, p in enumerate(published(tmp_path)) if moves(p))
    assert {p["pid"] for p in published(tmp_path)[first:]} == {pid}, "the client's zeros end before the first motion"


def test_a_vehicle_without_a_watchdog_always_gets_a_relay(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, "jetbot-dusty-ros1", relay=False)) as vehicle:
        peer = planner.accept().handshake()
        peer.drive(peer.next("obs")[1]["seq"], twist=None, word="forward")
        pid = vehicle.wait_for("relay")["pid"]
        found = until(lambda: [p for p in published(tmp_path) if moves(p)])
        assert found[0]["pid"] == pid and found[0]["actuation"] == {"word": "forward"}


def test_the_wheels_stop_and_the_relay_ends_after_the_client_is_killed(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, relay=True, motion_s=1.0)
    with client(file) as vehicle:
        _, pid = begin(vehicle, planner, tmp_path)
        vehicle.end(signal.SIGKILL)
        until(lambda: not moves(published(tmp_path)[-1]))
        with client(file) as successor:  # while the old relay still sends its zeros
            peer = planner.accept().handshake()
            relay = successor.wait_for("relay")["pid"]
            assert relay != pid, "one at a time"
            until(lambda: ended(pid))  # it has released the wheels; its process ends a moment later
            peer.drive(peer.next("obs")[1]["seq"], 0.1)
            until(lambda: moves(published(tmp_path)[-1]))
            lines = published(tmp_path)
            first = next(i for i, p in enumerate(lines) if p["pid"] == relay)
            assert all(p["pid"] != pid for p in lines[first:])
        until(lambda: not is_held(tmp_path / "relay.lock"))


def test_the_wheels_stop_while_the_client_is_suspended(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, relay=True, motion_s=1.0)) as vehicle:
        peer, pid = begin(vehicle, planner, tmp_path)
        vehicle.process.send_signal(signal.SIGSTOP)
        until(lambda: not moves(last_of(tmp_path, "ad2_relay")))
        vehicle.process.send_signal(signal.SIGCONT)
        peer.drive(peer.next("obs")[1]["seq"], 0.11)
        until(lambda: any(p["actuation"]["twist"]["vx"] == 0.11 for p in published(tmp_path)))
        assert last_of(tmp_path, "ad2_relay")["pid"] == pid, "it is the same relay"


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_relay_is_replaced_and_the_client_publishes_zeros_meanwhile(
    tmp_path: Path, planner: Listener, fault: int
) -> None:
    with client(settings(tmp_path, planner.port, relay=True, motion_s=1.0)) as vehicle:
        peer, pid = begin(vehicle, planner, tmp_path)
        os.kill(pid, fault)
        assert "relay is lost" in vehicle.wait_for("stands")["reason"]
        zero = until(
            lambda: [
                p for p in published(tmp_path) if p["pid"] == vehicle.process.pid and p["at"] > relay_lost_at(vehicle)
            ]
        )
        assert not any(map(moves, zero))
        assert ended(pid)
        assert "relay is lost" in peer.next("stop")[1]["reason"]
        peer.drive(peer.next("obs")[1]["seq"], 0.12)
        moved = until(lambda: [p for p in published(tmp_path) if p["actuation"]["twist"]["vx"] == 0.12])
        assert moved[0]["pid"] not in (pid, vehicle.process.pid)
    assert vehicle.wait_for("counts", who="client")["counts"]["relay lost"] == 1


def relay_lost_at(vehicle: Process) -> float:
    return float(vehicle.wait_for("refused", reason="relay lost")["at"])


def test_the_client_replaces_a_relay_that_cannot_publish(tmp_path: Path, planner: Listener) -> None:
    with client(settings(tmp_path, planner.port, relay=True, motion_s=1.0)) as vehicle:
        begin(vehicle, planner, tmp_path)
        (tmp_path / "broken").touch()
        vehicle.wait_for("failed", who="relay", why="broken by the test")
        vehicle.wait_for("refused", reason="relay lost")
        (tmp_path / "broken").unlink()
        until(
            lambda: [
                p for p in published(tmp_path) if p["pid"] == vehicle.process.pid and p["at"] > relay_lost_at(vehicle)
            ]
        )


def test_the_vehicle_does_not_move_while_no_relay_can_be_started(tmp_path: Path, planner: Listener) -> None:
    (tmp_path / "no_ad2_relay").touch()
    with client(settings(tmp_path, planner.port, relay=True)) as vehicle:
        peer = planner.accept().handshake()
        vehicle.wait_for("refused", reason="relay not started", detail="does not want ad2_relay")
        assert "relay" in peer.next("stop")[1]["reason"]
        (tmp_path / "no_ad2_relay").unlink()
        peer.drive(peer.next("obs")[1]["seq"])
        until(lambda: any(map(moves, published(tmp_path))))


def test_the_stop_on_the_vehicle_reaches_the_relay_when_the_client_is_frozen(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, relay=True, motion_s=1.0)
    with client(file) as vehicle:
        begin(vehicle, planner, tmp_path)
        vehicle.process.send_signal(signal.SIGSTOP)
        assert Process("relay", "--stop", file).end(0) == 0, "confirmed by the relay: nobody else could"
        assert not moves(published(tmp_path)[-1])


def test_an_unconfirmed_stop_fails_with_a_warning(tmp_path: Path, planner: Listener) -> None:
    file = settings(tmp_path, planner.port, car={"watchdog_s": 1.0}, relay=False)
    with client(file) as vehicle:
        planner.accept().handshake().next("obs")
        vehicle.process.send_signal(signal.SIGSTOP)
        stop = Process("relay", "--stop", file)
        assert stop.end(0) == 1
        assert "switch the vehicle off" in stop.wait_for("text")["text"]


class Wheels(VehicleIO):
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def publish(self, actuation: dict[str, Any]) -> None:
        self.sent.append({"at": time.monotonic(), "actuation": actuation})


def test_old_commands_are_ignored_and_fresh_ones_end_after_a_short_time(tmp_path: Path) -> None:
    wheels, journal = Wheels(), OnboardJournal("test", lambda line: None)
    gate = ActuationGate(wheels, VEHICLES["limo-differential"].to_onboard(), EmergencyStopLatch(tmp_path), journal)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    relay = ActuationRelay(theirs, gate, wheels, 100.0, journal)
    thread = threading.Thread(target=relay.run)
    with ours, theirs:
        go = {"twist": {"vx": 0.3, "vy": 0.0, "wz": 0.0}}
        now = time.monotonic()
        for number, age_s in enumerate((10.0, FRESH_S)):  # commands that a delayed relay receives
            old = {"n": number, "sent": now - age_s, "until": now + 10, "actuation": go}
            ours.send(json.dumps(old).encode())
        thread.start()
        until(lambda: len(wheels.sent) > 5)
        assert not any(map(moves, wheels.sent))

        now = time.monotonic()
        ours.send(json.dumps({"n": 3, "sent": now, "until": now + 10, "actuation": go}).encode())
        until(lambda: any(map(moves, wheels.sent)) and not moves(wheels.sent[-1]))
        assert wheels.sent[-1]["at"] >= now + FRESH_S
        until(lambda: json.loads(ours.recv(4096))["n"] == 3)
        ours.send(json.dumps({"end": True}).encode())
        thread.join()
        assert not any(map(moves, wheels.sent[-3:]))


@pytest.mark.parametrize("words", [[], ["--stop"], ["--go", "x"], ["x", "--channel", "a"], ["a", "b", "c", "d"]])
def test_wrong_arguments_print_the_usage(words: list[str]) -> None:
    relay = Process("relay", *words)
    assert relay.end(0) == 2
    assert "usage" in relay.wait_for("text")["text"]


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    stop = Process("relay", "--stop", tmp_path / "none.json")
    assert stop.end(0) == 2
    assert "none.json" in stop.wait_for("text")["text"]
