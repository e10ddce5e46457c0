"""Peak memory of a running command: of its processes, and of the GPU. Sampled once a second from another thread."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

PERIOD_S = 1.0
NO_GPU, NOT_USED, UNKNOWN = "no GPU", "not used", "unknown"


class MemorySampler:
    """Peaks between entering and leaving, in MiB; shorter ones than a second may be missed.

    session: process id of a session leader. host_mib: the sum over the session's processes of the proportional set
    size (shared pages count once in all); None without Linux's /proc. gpu: a GPU's index or UUID for nvidia-smi.
    gpu_mib: the memory in use on that GPU by all programs. None: not measured.
    """

    def __init__(self, session: int, gpu: str | None) -> None:
        self.session, self.gpu = session, gpu
        self.host_mib: int | None = None
        self.gpu_mib: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.host_mib = larger(self.host_mib, session_mib(self.session))
            if self.gpu is not None:
                self.gpu_mib = larger(self.gpu_mib, gpu_used_mib(self.gpu))
            if self._ended.wait(PERIOD_S):
                return


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two values of which either may be missing."""
    return max((value for value in (one, other) if value is not None), default=None)


def session_mib(session: int) -> int | None:
    """Proportional set size of all processes of a session, MiB; None if there is none, or no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the command's name in parentheses: state, parent, group, session.
            if int((folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[3]) != session:
                continue
            lines = (folder / "smaps_rollup").read_text("utf-8").splitlines()
        except (OSError, IndexError, ValueError):
            continue  # it has ended
        found += [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    return sum(found) >> 10 if found else None


def gpu_of(device: str) -> tuple[str | None, str]:
    """(the GPU that a torch device means, as nvidia-smi names it, or None; why there is none)."""
    if not shutil.which("nvidia-smi"):
        return None, NO_GPU
    if device == "cpu":
        return None, NOT_USED
    number = int(device.partition(":")[2] or 0)  # "none": the wrapper is not told, and takes the first one
    visible = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    if visible:
        return (visible[number], "") if number < len(visible) else (None, UNKNOWN)
    return str(number), ""


def gpu_used_mib(gpu: str) -> int | None:
    """Memory in use on a GPU, MiB; None if nvidia-smi does not report it."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", gpu]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return int(done.stdout.strip())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
