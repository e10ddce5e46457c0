"""Processes that are ours for sure, and their end. Linux: /proc says who is who.

A pid is given out anew. So a server is known by two things that are not: its leader by pid, start and boot, with
everything in the session that it leads; and each process of it by a random token in its environment, which children
inherit. What carries neither is never signalled.
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
    """A process, and no other that ever had its number."""

    pid: int
    start: int  # clock ticks since boot: field 22 of /proc/PID/stat
    boot: str  # of the machine; tells another machine, and the time before a reboot


def mark_of(pid: int) -> ProcessIdentity | None:
    """None: no such process. A zombie still holds its pid and has a mark."""
    stat = _stat(pid)
    return ProcessIdentity(pid, int(stat[19]), boot()) if stat else None


def boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def alive(mark: ProcessIdentity) -> bool:
    stat = _stat(mark.pid)
    return bool(stat) and stat[0] not in "ZX" and mark_of(mark.pid) == mark


def ours(leader: ProcessIdentity | None, token: str) -> list[int]:
    """The living processes of a server: the session of its leader, and whoever carries its token."""
    leads = leader is not None and mark_of(leader.pid) == leader
    carried = f"{TOKEN}={token}".encode()
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        stat = _stat(int(folder.name))
        if not stat or stat[0] in "ZX":
            continue
        if (leader and leads and int(stat[3]) == leader.pid) or carried in _environment(folder):
            found.append(int(folder.name))
    return found


def end(leader: ProcessIdentity | None, token: str, grace_s: float) -> list[int]:
    """SIGTERM to all of a server, SIGKILL to what is left after `grace_s`; the pids that were signalled.

    Between the look into /proc and the signal a pid cannot come round: the kernel hands all others out first.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + grace_s
    give_up = deadline + 20.0  # a process in the middle of a driver call dies late
    while left := ours(leader, token):
        now = time.monotonic()
        if now > give_up:
            raise Ad2Error(f"processes {left} do not end, not even by SIGKILL: see them with ps, and the GPU's driver")
        for pid in left:
            if now > deadline or pid not in signalled:
                _signal(pid, signal.SIGKILL if now > deadline else signal.SIGTERM)
                signalled.add(pid)
        time.sleep(POLL_S)
    return sorted(signalled)


def terminate(mark: ProcessIdentity) -> None:
    """SIGTERM to this process, if it lives."""
    if alive(mark):
        _signal(mark.pid, signal.SIGTERM)


def wait_for(mark: ProcessIdentity, grace_s: float) -> None:
    """Until this process has ended; SIGKILL after `grace_s`."""
    deadline = time.monotonic() + grace_s
    while alive(mark):
        if time.monotonic() > deadline:
            _signal(mark.pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
    except PermissionError:
        raise Ad2Error(f"process {pid} belongs to another user, who started this server and can end it") from None


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from field 3 on; the name before it may hold anything. Empty: gone."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    return text.rpartition(b")")[2].decode("ascii", "replace").split()


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # another user's, or gone
