"""Reliable identification and termination of a server's processes, by /proc (Linux).

PIDs are reused. So a server is identified by its session leader (PID, start time and boot id) with all processes of
that session, and by a random token in the environment, which child processes inherit. A process with neither is never
signalled.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lmms_eval_ad2.errors import Ad2Error

PROC = Path("/proc")
TOKEN = "AD2_CARLA_TOKEN"
POLL_S = 0.05


@dataclass(frozen=True)
class ProcessIdentity:
    """Identity of a process that distinguishes it from others with the same PID."""

    pid: int
    start: int  # clock ticks since boot: field 22 of /proc/PID/stat
    boot: str  # boot id of the machine: differs between machines and after a reboot


def identity_of(pid: int) -> ProcessIdentity | None:
    """Identity of a process, zombies included; None if there is none."""
    stat = _stat(pid)
    return ProcessIdentity(pid, int(stat[19]), boot()) if stat else None


def boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def alive(identity: ProcessIdentity) -> bool:
    stat = _stat(identity.pid)
    return bool(stat) and stat[0] not in "ZX" and identity_of(identity.pid) == identity


def server_processes(leader: ProcessIdentity | None, token: str) -> list[int]:
    """PIDs of a server's running processes: those in the session of its leader and those with its token."""
    leader_exists = leader is not None and identity_of(leader.pid) == leader
    token_entry = f"{TOKEN}={token}".encode()
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        stat = _stat(int(folder.name))
        if not stat or stat[0] in "ZX":
            continue
        if (leader and leader_exists and int(stat[3]) == leader.pid) or token_entry in _environment(folder):
            found.append(int(folder.name))
    return found


def end(leader: ProcessIdentity | None, token: str, grace_s: float) -> list[int]:
    """Send SIGTERM to a server's processes, SIGKILL after `grace_s`. Returns the PIDs that were signalled.

    A PID cannot be reused between reading /proc and the signal: the kernel assigns all others first.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + grace_s
    give_up = deadline + 20.0  # a process in a driver call ends late
    while left := server_processes(leader, token):
        now = time.monotonic()
        if now > give_up:
            raise Ad2Error(
                f"processes {left} do not end, not even by SIGKILL: check them with ps, and the GPU's driver"
            )
        for pid in left:
            if now > deadline or pid not in signalled:
                _signal(pid, signal.SIGKILL if now > deadline else signal.SIGTERM)
                signalled.add(pid)
        time.sleep(POLL_S)
    return sorted(signalled)


def terminate(identity: ProcessIdentity) -> None:
    """Send SIGTERM to a process if it is running."""
    if alive(identity):
        _signal(identity.pid, signal.SIGTERM)


def wait_for(identity: ProcessIdentity, grace_s: float) -> None:
    """Wait until a process has ended; send SIGKILL after `grace_s`."""
    deadline = time.monotonic() + grace_s
    while alive(identity):
        if time.monotonic() > deadline:
            _signal(identity.pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # already ended
    except PermissionError:
        raise Ad2Error(f"process {pid} belongs to another user, who must end this server") from None


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from field 3 on, since the name in field 2 may contain anything. Empty: no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    return text.rpartition(b")")[2].decode("ascii", "replace").split()


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # another user's, or ended
