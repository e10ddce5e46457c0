"""CARLA servers that die again and again: each is restarted, and `down` leaves no process."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.carla.standin import binary, until
from support.carla.supervised import is_running, kill_supervisor, make_records, server_pids, starts, up
from support.tiers import seeds

from closedloop_plugin.carla.servers import lifecycle
from closedloop_plugin.carla.servers.record import CarlaServerRecord, read_all

SERVERS, DEATHS = 3, 6
PATIENCE_S = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    lifecycle.down(tmp_path / "home")


def kill_one(carla: Path, entry: CarlaServerRecord, way: str) -> None:
    """Let a server die. `exit`: whichever server sees the file first; `script`: its child, the simulator, stays."""
    if way == "exit":
        (carla / "die").touch()
        until(lambda: not (carla / "die").exists())
        return
    pids, simulators = server_pids(entry), starts(carla)
    os.kill(next(pid for pid in pids if (pid in simulators) == (way == "simulator")), signal.SIGKILL)


def mentioning(folder: Path) -> list[str]:
    """Command lines of running processes that contain the path `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended
            if entry.name.isdigit() and is_running(int(entry.name)):
                found.append((entry / "cmdline").read_text("utf-8", "replace").replace("\0", " "))
    return [line for line in found if str(folder) in line]


@pytest.mark.parametrize("seed", seeds(30))
def test_after_many_deaths_all_servers_answer_and_down_leaves_no_process(
    tmp_path: Path, folder: Path, record_property: Callable[[str, object], None], seed: int
) -> None:
    carla, dice, killed = tmp_path / "carla", random.Random(seed), seed % SERVERS
    binary(carla)
    up(make_records(carla, SERVERS, backoff_s=0.05), folder)
    for death in range(1, DEATHS + 1):
        kill_one(carla, dice.choice(read_all(folder)), dice.choice(["simulator", "script", "exit"]))
        until(lambda death=death: sum(e.restarts for e in read_all(folder)) >= death, PATIENCE_S)
        until(lambda: all(e.stage == "answers" for e in read_all(folder)), PATIENCE_S)
    for entry in read_all(folder)[:killed]:
        kill_supervisor(entry)
    assert len(lifecycle.down(folder)) == SERVERS and read_all(folder) == []
    assert not any(is_running(pid) for pid in starts(carla))
    until(lambda: not mentioning(carla))  # the supervisors end after their servers
    record_property("deaths of a server", DEATHS)
    record_property("killed supervisors", killed)
    record_property("starts", len(starts(carla)))
