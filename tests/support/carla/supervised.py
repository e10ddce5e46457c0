"""Servers started by `ad2 carla up` with real supervisors, where CarlaUE4.sh is a stand-in (standin.py)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.carla.standin import free_ports, until

from closedloop_plugin.carla.servers import lifecycle, processes
from closedloop_plugin.carla.servers.spec import CarlaServerSpec, server_specs
from closedloop_plugin.carla.servers.state import CarlaServerRecord

BACKOFF_S = 0.2


def make_specs(carla: Path, number: int = 1, **more: float) -> list[CarlaServerSpec]:
    return server_specs(free_ports(number), [], binary=str(carla / "CarlaUE4.sh"), backoff_s=BACKOFF_S, **more)


def up(specs: list[CarlaServerSpec], folder: Path, wait_s: float = 60.0) -> list[CarlaServerRecord]:
    return lifecycle.up(specs, folder, wait_s, lambda answering, seconds: None)


def starts(carla: Path) -> list[int]:
    """Pids of the simulators that were started, in order."""
    file = carla / "starts"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def kill_supervisor(entry: CarlaServerRecord) -> None:
    os.kill(entry.supervisor.pid, signal.SIGKILL)
    until(lambda: not processes.alive(entry.supervisor))


def is_running(pid: int) -> bool:
    found = processes.identity_of(pid)
    return found is not None and processes.alive(found)
