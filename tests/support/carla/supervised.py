"""Servers started by `ad2 carla up` with real supervisors, where CarlaUE4.sh is a stand-in (standin.py)."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path
from typing import Any

from support.carla.standin import free_ports, until

from closedloop_plugin.carla.servers import lifecycle
from closedloop_plugin.carla.servers.record import CarlaServerRecord, read, running

BACKOFF_S = 0.2


def make_record(**values: Any) -> CarlaServerRecord:
    return CarlaServerRecord(**{"port": 2000, "token": secrets.token_hex(16), "backoff_s": BACKOFF_S, **values})


def make_records(carla: Path, number: int = 1, **values: Any) -> list[CarlaServerRecord]:
    """Servers on free ports, with the stand-in in the folder `carla`."""
    what = {"binary": str(carla / "CarlaUE4.sh"), **values}
    return [make_record(port=port, **what) for port in free_ports(number)]


def up(records: list[CarlaServerRecord], folder: Path, wait_s: float = 60.0) -> list[CarlaServerRecord]:
    """Start servers; returns their records after the wait."""
    lifecycle.up(records, folder, wait_s, lambda answering, seconds: None)
    return [record for asked in records if (record := read(folder, asked.port))]


def starts(carla: Path) -> list[int]:
    """Pids of the simulators that were started, in order."""
    file = carla / "starts"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def server_pids(record: CarlaServerRecord) -> list[int]:
    return running(record.token)


def kill_supervisor(record: CarlaServerRecord) -> None:
    for pid in running(record.supervisor):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not lifecycle.is_watched(record))


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
