"""Processes of a server, by a token in their environment, which children inherit (Linux); ports; container engines.

A recorded pid may be another process by now; a process without the token is never signalled.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error

TOKEN = "AD2_CARLA_TOKEN"
GRACE_S, DRIVER_S = 10.0, 20.0  # until SIGKILL, and after it: a process in a driver call ends late
POLL_S, ENGINE_S = 0.05, 60.0
# A server uses three consecutive ports, the traffic manager of its client a fourth (as in Scenic).
SERVER_PORTS = {"RPC": 0, "streaming": 1, "secondary": 2}
ALL_PORTS = {**SERVER_PORTS, "traffic manager": 6000}


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


def run_engine(*words: str) -> str:
    """Run docker or podman; returns its output. Ad2Error: not installed, no answer, or an error."""
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(words, stdin=null, capture_output=True, text=True, errors="replace", timeout=ENGINE_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Ad2Error(f"{words[0]}: {exc}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
        raise Ad2Error(f"{' '.join(words[:2])}: {last}")
    return done.stdout
