"""CarlaServerRecord: a started server and its state, in one file per port, which only its supervisor replaces.

FOLDER/2000.json    the record; removed once the server has been ended
FOLDER/2000.log     output of the server and its supervisor; .log.1: of the previous run
FOLDER/2000.lock    locked while the supervisor runs

Its processes (Linux) have a token in their environment, which children inherit: a recorded pid may be another process
by now. A process without the token is never signalled.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

TOKEN = "AD2_CARLA_TOKEN"
GRACE_S, DRIVER_S = 10.0, 20.0  # until SIGKILL, and after it: a process in a driver call ends late
POLL_S = 0.05
# A server uses three consecutive ports, the traffic manager of its client a fourth (as in Scenic).
SERVER_PORTS = {"RPC": 0, "streaming": 1, "secondary": 2}
ALL_PORTS = {**SERVER_PORTS, "traffic manager": 6000}


class CarlaServerRecord(BaseModel):
    """What a server is started with, and its state."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
    port: int = Field(ge=1, le=65535)
    token: str = Field(pattern="^[0-9a-f]{32}$")  # in the environment of its processes
    gpu: int | None = Field(default=None, ge=0, le=1024)
    binary: str  # absolute path of CarlaUE4.sh
    extra: tuple[str, ...] = ()  # further words of its command
    hang_s: float = 300.0  # without an answer until a restart, also at the start: a large town loads for minutes
    backoff_s: float = 2.0  # before a restart; doubled for each start in a row without an answer
    stage: Literal["starting", "answers", "silent", "restarting", "failed"] = "starting"
    since: float = Field(default=0.0, ge=0, lt=1e11)  # time of this start, s since the epoch
    restarts: int = Field(default=0, ge=0, le=10**9)
    server_version: str = Field(default="", pattern="^[ -~]{0,40}$")
    reason: str = Field(default="", pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,1000}$")  # of the last restart or silence

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"

    @property
    def supervisor(self) -> str:
        """Token of its supervisor."""
        return f"{self.token}-supervisor"

    @property
    def command(self) -> list[str]:
        """Command line of the server, which stays in the foreground."""
        gpu = [] if self.gpu is None else [f"-graphicsadapter={self.gpu}"]
        return [self.binary, "-RenderOffScreen", "-nosound", f"-carla-rpc-port={self.port}", *gpu, *self.extra]

    def write(self, folder: Path) -> None:
        with atomic_write(folder / f"{self.port}.json") as out:
            out.write(self.model_dump_json(indent=1))


def read(folder: Path, port: int) -> CarlaServerRecord | None:
    """The record of a port; None if no server was started on it or it has been ended. Ad2Error: invalid file."""
    file = folder / f"{port}.json"
    try:
        record = CarlaServerRecord.model_validate_json(file.read_bytes())
        if record.port == port:
            return record
    except FileNotFoundError:
        return None
    except ValueError:
        pass
    raise Ad2Error(
        f"{file}: not a record of a CARLA server. Check with ps whether one of yours still runs, end it, and remove it"
    )


def read_all(folder: Path) -> list[CarlaServerRecord]:
    """All records, by port."""
    ports = sorted(int(f.stem) for f in folder.glob("*.json") if re.fullmatch(r"[0-9]{1,5}", f.stem))
    return [record for port in ports if (record := read(folder, port))]


def running(token: str) -> list[int]:
    """Pids of the running processes with this token. A zombie has no environment, another user's is not readable."""
    entry, found = f"{TOKEN}={token}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return sorted(found)


def end(token: str, grace_s: float = GRACE_S) -> list[int]:
    """Send SIGTERM to the processes with this token, SIGKILL after `grace_s`; returns the pids that were signalled.

    A pid cannot be reused between reading /proc and the signal: the kernel assigns all others first. They must be
    absent twice, since a process has no environment for an instant while it loads its program.
    """
    signalled: set[int] = set()
    deadline, absent = time.monotonic() + grace_s, 0
    while absent < 2:
        left, late_s = running(token), time.monotonic() - deadline
        absent = 0 if left else absent + 1
        if left and late_s > DRIVER_S:
            raise Ad2Error(
                f"processes {left} do not end, not even by SIGKILL: check them with ps, and the GPU's driver"
            )
        for pid in left if late_s > 0 else set(left) - signalled:
            signalled.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late_s > 0 else signal.SIGTERM)
        time.sleep(POLL_S)
    return sorted(signalled)


def taken(port: int, roles: dict[str, int]) -> str:
    """Message about a port of a server that another process uses; empty if all are free. `roles`: offsets by name."""
    for role, offset in roles.items():
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT of a dead server counts as free
            try:
                sock.bind(("", port + offset))
            except OSError:
                return f"port {port + offset} ({role} of the server on {port}) is in use by another process"
    return ""
