"""Peak memory of a piece of work, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.running import PATIENCE_S, environment

# VmHWM and not ru_maxrss, which a process inherits from the one that started it.
_PRELUDE = """
import gc, json, os, sys

def kib(name, pid="self"):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))
"""
_MEASURE = """
gc.collect()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # VmHWM begins again at the present value
before = kib("VmRSS")
try:
    outcome = str(work(*sys.argv[1:]))
except Exception as exc:
    outcome = f"{type(exc).__name__}: {exc}"
print(json.dumps([(kib("VmHWM") - before) >> 10, outcome[:1000]]))
"""


def need_proc() -> None:
    """Skip on systems without Linux's /proc."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory is measured with /proc")


def peak_of(script: str, *arguments: str | Path) -> tuple[int, str]:
    """(MiB, outcome) of `work(*arguments)`, which `script` defines: its memory beyond that after the imports, and its
    result or exception as text. Import in `script`, not in `work`."""
    need_proc()
    search = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + script + _MEASURE, *map(str, arguments)],
        env=environment(PYTHONPATH=search), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    mebibytes, outcome = json.loads(done.stdout.splitlines()[-1])
    return int(mebibytes), str(outcome)


def peak_kib(pid: int) -> int:
    """Peak memory of a running process so far."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
