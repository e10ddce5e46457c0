"""Reactions of the vehicle to faults, with everything real but its wheels: support/robots/fault_rig.py.

Stopping distances are measured at 0.3 m/s, from the fault to standstill, in the ground truth of the sandbox.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.robots.far_robot import until
from support.robots.fault_rig import FAULTS, MASTER, STANDSTILL, Fault, Rig, rig, strike_and_repair
from support.tiers import seeds

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"loop": lambda folder, found: rig(folder)}
HELD_S = 0.01  # a machine that stalls this long lengthens the stopping distance: the fault is repeated
ATTEMPTS = 5


def remaining_processes(folder: Path) -> list[str]:
    """Processes that work below `folder`, or have it in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            words = (entry / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
            if str(folder) in words or folder in (entry / "cwd").readlink().parents:
                found.append(words)
    return found


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("faults")
    with rig(folder) as started:
        yield started
    until(lambda: not remaining_processes(folder))


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_vehicle_stops_within_centimetres_and_drives_again(
    loop: Rig, fault: Fault, record_property: Callable[[str, object], None], seed: int
) -> None:
    time.sleep(random.Random(seed).uniform(0, 0.2))  # heartbeats, camera and wheels have periods of up to 50 ms
    record_property("most cm to standstill", round(100 * check(loop, fault), 1))


def check(loop: Rig, fault: Fault) -> float:
    """Cause the fault, and check where and by which node the vehicle stopped; returns the distance, m."""
    found = []
    for _ in range(ATTEMPTS):
        stop, _ = strike_and_repair(loop, fault)  # it also waits until the vehicle drives again
        found.append(stop)
        if (stop.distance_m < fault.most_m and stop.by.startswith(fault.by)) or stop.stall_s < HELD_S:
            break
    assert found[-1].distance_m < fault.most_m, found
    assert found[-1].by.startswith(fault.by), found
    return found[-1].distance_m


def check_standing(loop: Rig, seconds: float) -> None:
    """Check that it stands for this time."""
    start = loop.monitor.truths[-1].t
    loop.monitor.wait(lambda: loop.monitor.truths[-1].t > start + seconds, "the monitor reports")
    moved = [p for p in loop.monitor.truths if p.t > start and abs(p.v) >= STANDSTILL]  # braking ends at 1e-17 m/s
    assert not moved


@contextmanager
def emergency_stop(loop: Rig, *options: str) -> Iterator[str]:
    """`ad2 robot stop` for the block, then `--release`; yields its output."""
    done = loop.ad2("stop", *options)
    try:
        assert done.returncode == 0, done
        yield done.stdout
    finally:
        released = loop.ad2("stop", "--release", *options)
    assert released.returncode == 0, released


def test_robot_stop_holds_until_it_is_released(loop: Rig) -> None:
    loop.begin()
    with emergency_stop(loop) as output:
        assert "the vehicle stands" in output
        check_standing(loop, 1.0)
        assert loop.request("state")["state"] == "stopped"
    loop.begin()


def test_a_stop_set_on_board_outlives_the_client_and_cannot_be_released_by_the_planner(loop: Rig) -> None:
    loop.begin()
    with emergency_stop(loop, "--on-board") as output:
        assert "on board: stopped" in output
        check_standing(loop, 0.3)
        loop.client.kill()
        loop.replace_client()
        until(lambda: loop.request("state")["connected"] and "emergency stop" in loop.request("state")["said"])
        loop.request("release")
        check_standing(loop, 1.0)
    loop.begin()


def test_without_a_ros_master_the_vehicle_stops_and_a_new_client_needs_a_restarted_base(tmp_path: Path) -> None:
    with rig(tmp_path) as own:  # later tests cannot drive with it: the base does not register with the new master
        check(own, MASTER)
        own.client.kill()
        own.replace_client()
        until(lambda: "no node subscribes to /cmd_vel" in own.request("state")["said"])


def test_a_vehicle_in_the_wrong_mode_is_not_driven_and_the_planner_gets_the_reason(tmp_path: Path) -> None:
    with rig(tmp_path, mode=0) as started:
        until(lambda: started.client_events("hindered"))
        started.monitor.wait(lambda: started.monitor.truths, "the monitor reports")

        def reason_reported() -> bool:
            with suppress(Exception):  # the planner is still starting
                return "the vehicle is in mode 0, limo-ackermann is mode 1" in started.request("state")["said"]
            return False

        until(reason_reported)
        check_standing(started, 1.0)
        assert started.request("state")["cycle"] is None
