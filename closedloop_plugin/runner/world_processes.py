"""World processes and where they run: LocalEngine starts them on this machine, cluster.world_actors in a Ray cluster.

A process runs worker.py at the other end of a pipe. What it does, retries, store and scores are independent of the
engine.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from closedloop_plugin.runner.worker import WorkerConfig

TAIL_BYTES = 8000  # of a log, that are searched for its last line


@dataclass(frozen=True)
class ProcessDeath:
    """Why the pipe of a process has ended. `machine_lost`: neither world nor episode failed."""

    reason: str
    machine_lost: bool = False


class WorldProcess(Protocol):
    """A world process in the parent."""

    @property
    def pipe(self) -> Connection:
        """To the process; while the process has no place, no message arrives."""
        ...

    @property
    def waits_for(self) -> str:
        """What a process that has no place yet waits for; "" if it has one."""
        ...

    def close(self) -> None:
        """Close the pipe, whereupon the process ends."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until the process has ended."""
        ...

    def kill(self) -> None: ...

    def death(self) -> ProcessDeath:
        """The cause, after the end of the pipe."""
        ...


class WorldEngine(Protocol):
    """Starts world processes."""

    def start(self, config: WorkerConfig, log: Path | None) -> WorldProcess:
        """Start a process for the world of `config`. `log`: file for its output."""
        ...


class LocalEngine:
    """World processes on this machine."""

    def start(self, config: WorkerConfig, log: Path | None) -> LocalProcess:
        """Start a process. Not by multiprocessing, which would import the caller's main module again."""
        own_end, worker_end = socket.socketpair()
        command = [sys.executable, "-m", "closedloop_plugin.runner", str(worker_end.fileno()), str(os.getpid())]
        environment = {
            "OPENBLAS_NUM_THREADS": "1",  # worlds run in parallel, one core each
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYTHONUNBUFFERED": "1",
        }
        with worker_end, (log or Path(os.devnull)).open("wb") as out:
            process = subprocess.Popen(
                command,
                pass_fds=[worker_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
            )
        pipe = Connection(own_end.detach())
        pipe.send(config)
        return LocalProcess(process, pipe, log)


class LocalProcess:
    """See WorldProcess."""

    waits_for = ""

    def __init__(self, process: subprocess.Popen[bytes], pipe: Connection, log: Path | None = None) -> None:
        self.process, self.pipe, self.log = process, pipe, log

    def close(self) -> None:
        self.pipe.close()

    def wait(self, timeout_s: float) -> None:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        self.close()
        self.process.kill()
        self.process.wait()

    def death(self) -> ProcessDeath:
        self.wait(5.0)
        if (code := self.process.returncode) is None:
            return ProcessDeath("the world process closed its pipe")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ProcessDeath(f"the world process died ({how}){last_line(self.log)}")


def last_line(file: Path | None) -> str:
    """The last line of a log, as part of a reason."""
    if file is None or not file.is_file():
        return ""
    with file.open("rb") as log:  # only its end: a simulator may print a warning at every tick
        log.seek(max(0, file.stat().st_size - TAIL_BYTES))
        text = log.read(TAIL_BYTES).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it last printed: {lines[-1][:200]}" if lines else ""
