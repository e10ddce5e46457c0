"""The emergency stop latch and the actuation gate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.io import VehicleIO
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import PLANNER, VEHICLE, EmergencyStopLatch
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

GO = {"twist": {"vx": 0.3, "vy": 0.0, "wz": 0.0}}


def test_a_stop_holds_for_every_process_until_it_is_released(tmp_path: Path) -> None:
    one, other = EmergencyStopLatch(tmp_path), EmergencyStopLatch(tmp_path)
    assert one.held() is None and other.held() is None
    stop = one.set(PLANNER, "a  person\non the floor")
    assert one.held() == other.held() == EmergencyStopLatch(tmp_path).held() == "a person on the floor"
    assert not one.confirmed(stop)
    other.confirm()
    assert one.confirmed(stop)
    assert one.release(PLANNER) and one.held() is None and other.held() is None
    assert one.set(PLANNER, "again") != stop and other.held() == "again"


def test_the_planner_cannot_release_a_stop_set_on_the_vehicle(tmp_path: Path) -> None:
    latch = EmergencyStopLatch(tmp_path)
    latch.set(PLANNER, "first")
    stop = latch.set(VEHICLE, "second")
    assert latch.held() == "second"
    assert latch.set(PLANNER, "third") == stop and latch.held() == "second"
    assert not latch.release(PLANNER) and latch.held() == "second"
    assert latch.release(VEHICLE) and latch.held() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"by": "nobody"}', b"[" * 5000])
def test_an_unreadable_stop_file_holds(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stop.json").write_bytes(content)
    latch = EmergencyStopLatch(tmp_path)
    assert latch.held() and not latch.release(PLANNER)
    latch.confirm()
    assert latch.confirmed("")
    assert latch.release(VEHICLE) and latch.held() is None


def test_a_stop_that_cannot_be_written_holds_in_this_process(tmp_path: Path) -> None:
    latch = EmergencyStopLatch(tmp_path / "missing")
    latch.set(PLANNER, "no disk")
    assert latch.held() == "no disk"
    latch.confirm()
    assert latch.release(PLANNER) and latch.held() is None


class Wheels(VehicleIO):
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def publish(self, actuation: dict[str, Any]) -> None:
        self.sent.append(actuation)


@pytest.mark.parametrize("name", ["limo-ackermann", "jetbot-dusty-ros1"])
def test_the_gate_blocks_late_stopped_and_unknown_actuations(tmp_path: Path, name: str) -> None:
    vehicle = VEHICLES[name].to_onboard()
    go = {"word": "forward"} if vehicle["kind"] == "word" else GO
    wheels, latch, journal = Wheels(), EmergencyStopLatch(tmp_path), OnboardJournal("test", lambda line: None)
    gate = ActuationGate(wheels, vehicle, latch, journal)
    later = time.monotonic() + 1000

    assert gate.publish(go, later) and wheels.sent[-1] == go
    assert not gate.publish(go, time.monotonic()) and wheels.sent[-1] == gate.zero != go
    assert not gate.publish({"word": "backflip"}, later) and wheels.sent[-1] == gate.zero
    assert journal.counts["no actuation"] == 1
    stop = latch.set(VEHICLE, "stop")
    assert not gate.publish(go, later) and wheels.sent[-1] == gate.zero
    assert latch.confirmed(stop), "zeros have left"
    latch.release(VEHICLE)
    assert gate.publish(go, later) and wheels.sent[-1] == go


def test_the_gate_clamps_actuations(tmp_path: Path) -> None:
    vehicle = VEHICLES["limo-differential"].to_onboard()
    wheels = Wheels()
    ActuationGate(wheels, vehicle, EmergencyStopLatch(tmp_path), OnboardJournal("test", lambda line: None)).publish(
        {"twist": {"vx": 50.0, "vy": 0.0, "wz": 0.0}}, time.monotonic() + 1000
    )
    assert wheels.sent == [{"twist": {"vx": vehicle["limits"]["speed"], "vy": 0.0, "wz": 0.0}}]
