"""The control socket of a planner, and the emergency stop through planner and ssh."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from support.robots.far_robot import until
from support.robots.vehicle_end import TOKEN, connected

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.baselines import StraightDriver
from closedloop_plugin.robots.planner import control
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig, find_robot
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer timeouts, because a busy test machine may pause for seconds."""
    monkeypatch.setattr(control, "ANSWER_S", 30.0)


@pytest.fixture
def planner() -> Iterator[PlannerServer]:
    server = PlannerServer(StraightDriver(), None, profile("bench2advlm"), find_robot("sandbox").vehicle, TOKEN)
    worker = threading.Thread(target=server.work)
    worker.start()
    yield server
    server.close()
    worker.join(60)


def serving(planner: PlannerServer, file: Path) -> AbstractContextManager[tuple[str, int]]:
    return planner.listening("127.0.0.1", 0, file)


@pytest.fixture
def unreachable() -> RobotConfig:
    """A robot without an ssh host."""
    robot = find_robot("sandbox")
    return replace(robot, link=replace(robot.link, host=""))


def test_the_socket_works_in_a_deep_folder_and_is_removed(planner: PlannerServer, tmp_path: Path) -> None:
    file = control.socket_path(tmp_path / ("deep" * 20) / ("deeper" * 20), "limo")
    with serving(planner, file):
        assert control.send_request(file, "state")["state"] == "waiting for the vehicle"
        assert control.send_request(file, "stop", "why not")["latched"] == "why not"
        assert control.send_request(file, "release")["latched"] is None
        assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
        with pytest.raises(Ad2Error, match="no such request"):
            control.send_request(file, "explode")
    assert not file.exists()
    with pytest.raises(control.NoPlanner, match="ad2 robot plan starts one"):
        control.send_request(file, "state")


def test_a_second_planner_is_refused_but_the_socket_of_a_killed_one_is_replaced(
    planner: PlannerServer, tmp_path: Path
) -> None:
    file = control.socket_path(tmp_path, "limo")
    with (
        serving(planner, file),
        pytest.raises(Ad2Error, match="a planner of limo is running already"),
        serving(planner, file),
    ):
        raise AssertionError("two of them")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(file))
    assert file.exists()  # a killed planner leaves its socket
    with serving(planner, file):
        assert control.send_request(file, "state")["connected"] is False


@pytest.mark.parametrize("said", [b"", b"garbage\n", b"[]\n", b"\xff\xfe\n", b"[" * 60_000 + b"\n"])
def test_invalid_requests_have_no_effect(planner: PlannerServer, tmp_path: Path, said: bytes) -> None:
    file = control.socket_path(tmp_path, "limo")
    with serving(planner, file):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(file))
            sock.sendall(said)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        assert control.send_request(file, "state")["latched"] is None


def test_a_stop_is_confirmed_only_by_the_vehicle(
    planner: PlannerServer, tmp_path: Path, unreachable: RobotConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = control.socket_path(tmp_path, "limo")
    with (
        serving(planner, file) as (_, port),
        connected(port) as vehicle,
    ):
        unconfirmed = control.stop(unreachable, file, "test")
        assert (
            not unconfirmed.confirmed
            and "did not confirm" in unconfirmed.message
            and "link.host" in unconfirmed.message
        )
        assert vehicle.receive()[0] == "stop"  # type: ignore[index]
        monkeypatch.setattr(control, "STANDS_S", 30.0)
        done: list[control.EmergencyStopOutcome] = []
        thread = threading.Thread(target=lambda: done.append(control.stop(unreachable, file, "test")))
        thread.start()
        assert vehicle.receive()[0] == "stop"  # type: ignore[index]
        vehicle.send("stop", reason="stopped", latch=True)
        thread.join(60)
        assert done[0].confirmed and "the vehicle stands" in done[0].message
        assert control.release(unreachable, file).message == "released"
        until(lambda: planner.state()["latched"] is None)


def test_a_stop_without_planner_and_vehicle_is_reported_as_unconfirmed(
    tmp_path: Path, unreachable: RobotConfig
) -> None:
    done = control.stop(unreachable, tmp_path / "none.sock", "test")
    assert not done.confirmed and "no planner answers" in done.message and "link.host" in done.message


def test_a_release_without_a_connected_vehicle_is_reported(
    planner: PlannerServer, tmp_path: Path, unreachable: RobotConfig
) -> None:
    file = control.socket_path(tmp_path, "limo")
    with serving(planner, file):
        assert "not connected" in control.release(unreachable, file).message
