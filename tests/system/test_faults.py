"""What the vehicle does when something breaks, over everything real but its wheels: support/robots/fault_rig.py.

The ways are measured at 0.3 m/s, from the moment of the fault to standstill, on the sandbox's own truth.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.robots.far_robot import until
from support.robots.fault_rig import FAULTS, MASTER, Fault, Rig, rig, struck

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"loop": lambda folder, found: rig(folder)}
HELD_S = 0.01  # a machine that is this late has added to the way itself: then the fault is struck again
ATTEMPTS = 5


def left(folder: Path) -> list[str]:
    """Processes that still work below `folder`, or know of it."""
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
    with rig(folder) as made:
        yield made
    until(lambda: not left(folder))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_stands_within_centimetres_and_drives_on(loop: Rig, fault: Fault) -> None:
    check(loop, fault)


def check(loop: Rig, fault: Fault) -> None:
    found = []
    for _ in range(ATTEMPTS):
        stop, _ = struck(loop, fault)  # it also waits until the vehicle drives again
        found.append(stop)
        if (stop.way_m < fault.most_m and stop.by.startswith(fault.by)) or stop.held_s < HELD_S:
            break
    assert found[-1].way_m < fault.most_m, found
    assert found[-1].by.startswith(fault.by), found


def stands_for(loop: Rig, seconds: float) -> None:
    """Check that it does not move for this time."""
    begun = loop.monitor.truths[-1].t
    loop.monitor.wait(lambda: loop.monitor.truths[-1].t > begun + seconds, "the monitor reports")
    moved = [p for p in loop.monitor.truths if p.t > begun and p.v]
    assert not moved


def test_ad2_robot_stop_holds_until_it_is_released(loop: Rig) -> None:
    loop.begin()
    stopped = loop.ad2("stop")
    assert stopped.returncode == 0 and "the vehicle stands" in stopped.stdout, stopped
    stands_for(loop, 1.0)
    assert loop.request("state")["state"] == "stopped"
    assert loop.ad2("stop", "--release").returncode == 0
    loop.begin()


def test_a_stop_set_on_board_outlives_the_client_and_the_planner_cannot_undo_it(loop: Rig) -> None:
    loop.begin()
    stopped = loop.ad2("stop", "--on-board")
    assert stopped.returncode == 0 and "on board: stopped" in stopped.stdout, stopped
    stands_for(loop, 0.3)
    loop.client.kill()
    loop.replace_client()
    until(lambda: loop.request("state")["connected"] and "emergency stop" in loop.request("state")["said"])
    loop.request("release")
    stands_for(loop, 1.0)
    assert loop.ad2("stop", "--release", "--on-board").returncode == 0
    loop.begin()


def test_without_a_ros_master_it_stands_and_only_a_new_client_needs_the_base_to_be_restarted(loop: Rig) -> None:
    check(loop, MASTER)
    loop.client.kill()
    loop.replace_client()
    until(lambda: "nobody listens to /cmd_vel" in loop.request("state")["said"])


def test_a_vehicle_in_the_wrong_mode_is_not_driven_and_the_planner_hears_why(tmp_path: Path) -> None:
    with rig(tmp_path, mode=0) as made:
        until(lambda: made.client_events("hindered"))
        made.monitor.wait(lambda: made.monitor.truths, "the monitor reports")

        def told() -> bool:
            with suppress(Exception):  # the planner is still on its way
                return "the vehicle is in mode 0, limo-ackermann is mode 1" in made.request("state")["said"]
            return False

        until(told)
        stands_for(made, 1.0)
        assert made.request("state")["cycle"] is None
