"""The functions `evaluate` against the commands with the same options: processes of their own, in turns.

python benchmarks/library.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRIVE = "import closedloop_plugin; print(closedloop_plugin.evaluate('expert', workers=2, out={out!r}))"
EVAL = "import lmms_eval_ad2; print(lmms_eval_ad2.evaluate('ad2_chance', 'ad2demo_*', out={out!r}))"
PAIRS = {
    "six demo routes, expert, two worlds": (
        DRIVE, ["drive", "run", "--suite", "demo", "--agent", "expert", "--workers", "2"],
    ),
    "ad2demo_*, ad2_chance": (EVAL, ["eval", "--model", "ad2_chance", "--tasks", "ad2demo_*"]),
}  # fmt: skip


def _seconds(command: list[str]) -> tuple[float, float]:
    """(wall, CPU) seconds of a command with its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Ratios of the medians, function to command, and the seconds of the function."""
    ad2 = str(Path(sys.executable).with_name("ad2"))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (code, words) in PAIRS.items():
            called, commanded = [], []
            for number in range(rounds):
                out = f"{scratch}/{len(found)}-{number}"
                called.append(_seconds([sys.executable, "-c", code.format(out=f"{out}f")]))
                commanded.append(_seconds([ad2, *words, "--out", f"{out}c"]))
            wall, cpu = (
                statistics.median(x[k] for x in called) / statistics.median(x[k] for x in commanded) for k in (0, 1)
            )
            found[f"{name}: function, s"] = statistics.median(x[0] for x in called)
            found[f"{name}: wall time, function / command"] = wall
            found[f"{name}: CPU time, function / command"] = cpu
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default 5)")
    for label, value in measure(parser.parse_args().rounds).items():
        print(f"{label:70} {value:8.3f}")
