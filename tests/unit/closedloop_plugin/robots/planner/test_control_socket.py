"""The control socket of a planner, the emergency stop through planner and ssh, and the console."""

from __future__ import annotations

import io
import os
import pty
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.robots.far_robot import until
from support.robots.vehicle_end import TOKEN, connected

from closedloop_plugin.agents.baselines import StraightDriver
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.robots.planner import console, control_socket, emergency
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig, find_robot
from lmms_eval_ad2.errors import Ad2Error


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer timeouts, because a busy test machine may pause for seconds."""
    monkeypatch.setattr(control_socket, "ANSWER_S", 30.0)
    monkeypatch.setattr(control_socket._Handler, "timeout", 30.0)


@pytest.fixture
def planner() -> Iterator[PlannerServer]:
    server = PlannerServer(StraightDriver(), None, profile("bench2advlm"), find_robot("sandbox").vehicle, TOKEN)
    worker = threading.Thread(target=server.work)
    worker.start()
    yield server
    server.close()
    worker.join(60)


@pytest.fixture
def unreachable() -> RobotConfig:
    """A robot without an ssh host."""
    robot = find_robot("sandbox")
    return replace(robot, link=replace(robot.link, host=""))


def test_the_socket_works_in_a_deep_folder_and_is_removed(planner: PlannerServer, tmp_path: Path) -> None:
    file = control_socket.socket_path(tmp_path / ("deep" * 20) / ("deeper" * 20), "limo")
    with control_socket.serving(planner, file):
        assert control_socket.send_request(file, "state")["state"] == "waiting for the vehicle"
        assert control_socket.send_request(file, "stop", "why not")["latched"] == "why not"
        assert control_socket.send_request(file, "release")["latched"] is None
        assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
        with pytest.raises(Ad2Error, match="no such request"):
            control_socket.send_request(file, "explode")
    assert not file.exists()
    with pytest.raises(control_socket.NoPlanner, match="ad2 robot plan starts one"):
        control_socket.send_request(file, "state")


def test_a_second_planner_is_refused_but_the_socket_of_a_killed_one_is_replaced(
    planner: PlannerServer, tmp_path: Path
) -> None:
    file = control_socket.socket_path(tmp_path, "limo")
    with (
        control_socket.serving(planner, file),
        pytest.raises(Ad2Error, match="a planner of limo is running already"),
        control_socket.serving(planner, file),
    ):
        raise AssertionError("two of them")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(file))
    assert file.exists()  # a killed planner leaves its socket
    with control_socket.serving(planner, file):
        assert control_socket.send_request(file, "state")["connected"] is False


@pytest.mark.parametrize("said", [b"", b"garbage\n", b"[]\n", b"\xff\xfe\n", b"[" * 60_000 + b"\n"])
def test_invalid_requests_have_no_effect(planner: PlannerServer, tmp_path: Path, said: bytes) -> None:
    file = control_socket.socket_path(tmp_path, "limo")
    with control_socket.serving(planner, file):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(file))
            sock.sendall(said)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        assert control_socket.send_request(file, "state")["latched"] is None


@pytest.mark.integration
def test_a_stop_is_confirmed_only_by_the_vehicle(
    planner: PlannerServer, tmp_path: Path, unreachable: RobotConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = control_socket.socket_path(tmp_path, "limo")
    with (
        control_socket.serving(planner, file),
        planner.listening("127.0.0.1", 0) as (_, port),
        connected(port) as vehicle,
    ):
        unconfirmed = emergency.stop(unreachable, file, "test")
        assert (
            not unconfirmed.confirmed
            and "did not confirm" in unconfirmed.message
            and "link.host" in unconfirmed.message
        )
        assert vehicle.receive()[0] == "stop"  # type: ignore[index]
        monkeypatch.setattr(emergency, "STANDS_S", 30.0)
        done: list[emergency.EmergencyStopOutcome] = []
        thread = threading.Thread(target=lambda: done.append(emergency.stop(unreachable, file, "test")))
        thread.start()
        assert vehicle.receive()[0] == "stop"  # type: ignore[index]
        vehicle.send("stop", reason="stopped", latch=True)
        thread.join(60)
        assert done[0].confirmed and "the vehicle stands" in done[0].message
        assert emergency.release(unreachable, file).message == "released"
        until(lambda: planner.state()["latched"] is None)


def test_a_stop_without_planner_and_vehicle_is_reported_as_unconfirmed(
    tmp_path: Path, unreachable: RobotConfig
) -> None:
    done = emergency.stop(unreachable, tmp_path / "none.sock", "test")
    assert not done.confirmed and "no planner answers" in done.message and "link.host" in done.message


def test_a_release_without_a_connected_vehicle_is_reported(
    planner: PlannerServer, tmp_path: Path, unreachable: RobotConfig
) -> None:
    file = control_socket.socket_path(tmp_path, "limo")
    with control_socket.serving(planner, file):
        assert "not connected" in emergency.release(unreachable, file).message


class GatedEmergency:
    """Fake emergency.stop and release that wait for gates; `did`: order in which they ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[str] = []
        self.gates = {"stop": threading.Event(), "release": threading.Event()}
        self.begun = {"stop": threading.Event(), "release": threading.Event()}
        monkeypatch.setattr(emergency, "stop", lambda *_: self._do("stop"))
        monkeypatch.setattr(emergency, "release", lambda *_: self._do("release"))

    def _do(self, what: str) -> emergency.EmergencyStopOutcome:
        self.begun[what].set()
        assert self.gates[what].wait(60)
        self.did.append(what)
        return emergency.EmergencyStopOutcome(True, what)


def test_a_release_in_progress_does_not_undo_a_stop(
    monkeypatch: pytest.MonkeyPatch, unreachable: RobotConfig, tmp_path: Path
) -> None:
    gated = GatedEmergency(monkeypatch)
    planner_console = console.PlannerConsole(unreachable, tmp_path / "none.sock", io.StringIO())
    planner_console._press(b"r")
    assert gated.begun["release"].wait(60)
    planner_console._press(b" ")
    gated.gates["stop"].set()
    until(lambda: gated.did == ["stop"])  # at once
    gated.gates["release"].set()
    until(lambda: gated.did == ["stop", "release", "stop"])
    planner_console._stopping.join(60)
    assert planner_console.confirmed


def test_a_repeated_key_is_one_stop_and_no_release_overtakes_it(
    monkeypatch: pytest.MonkeyPatch, unreachable: RobotConfig, tmp_path: Path
) -> None:
    gated = GatedEmergency(monkeypatch)
    planner_console = console.PlannerConsole(unreachable, tmp_path / "none.sock", io.StringIO())
    for key in (b" ", b"   ", b"r", b" "):
        planner_console._press(key)
    assert planner_console.confirmed is False and "under way" in planner_console.note
    gated.gates["release"].set()
    gated.gates["stop"].set()
    planner_console._stopping.join(60)
    assert gated.did == ["stop"] and planner_console.confirmed


def test_quitting_waits_for_a_stop_in_progress(
    monkeypatch: pytest.MonkeyPatch, unreachable: RobotConfig, tmp_path: Path
) -> None:
    gated = GatedEmergency(monkeypatch)
    keys, terminal = pty.openpty()
    ended: list[bool] = []
    screen = io.StringIO()
    planner_console = console.PlannerConsole(unreachable, tmp_path / "none.sock", screen)
    running = threading.Thread(target=lambda: ended.append(planner_console.run(terminal)), daemon=True)
    running.start()
    until(lambda: "quit" in screen.getvalue())  # keys typed before are ignored
    os.write(keys, b" q")
    assert gated.begun["stop"].wait(60)
    assert running.is_alive() and not ended
    gated.gates["stop"].set()
    running.join(60)
    assert ended == [True] and gated.did == ["stop"]
    os.close(keys)
    os.close(terminal)


STATE: dict[str, Any] = {
    "robot": "limo", "state": "driving", "connected": True, "latched": None, "stands": False, "frame_age_s": 0.25,
    "cycle": 3, "words": "Keep going.", "order": {"steer": 0.1, "throttle": 0.5, "brake": 0.0, "word": "left"},
    "thinking_s": 0.3, "said": "", "counts": {"decisions": 3},
}  # fmt: skip


def test_the_console_removes_control_characters() -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07 go\r\non " + "x" * 500
    lines = console.lines_of({**STATE, "words": hostile, "said": hostile, "latched": hostile})
    assert all(line.isprintable() and len(line) <= 80 for line in lines)
    assert lines[0].startswith("limo: STOPPED")


def test_the_console_shows_the_state() -> None:
    text = "\n".join(console.lines_of(STATE))
    for part in ("limo: driving", "connected", "0.2 s ago", "Keep going.", "throttle 0.50", "left", "300 ms"):
        assert part in text
    disconnected = {**STATE, "order": None, "frame_age_s": None, "thinking_s": None, "words": "", "connected": False}
    assert "NOT CONNECTED" in "\n".join(console.lines_of(disconnected))
