"""The functions `evaluate` against the commands with the same options: processes of their own, in turns.

python benchmarks/library.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import resource
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
    """Ratios of the fastest runs, function to command, and the seconds of the function."""
    ad2 = str(Path(sys.executable).with_name("ad2"))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (code, words) in PAIRS.items():
            times: dict[str, list[tuple[float, float]]] = {"function": [], "command": []}
            for number in range(rounds):
                for kind in sorted(times, reverse=number % 2 == 1):  # each is first in every second round
                    out = f"{scratch}/{len(found)}-{number}-{kind}"
                    function = [sys.executable, "-c", code.format(out=out)]
                    times[kind].append(_seconds(function if kind == "function" else [ad2, *words, "--out", out]))
            # The fastest run of each: other work on the machine only makes them slower.
            called, commanded = (
                [min(column) for column in zip(*times[k], strict=True)] for k in ("function", "command")
            )
            found[f"{name}: function, s"] = called[0]
            found[f"{name}: wall time, function / command"] = called[0] / commanded[0]
            found[f"{name}: CPU time, function / command"] = called[1] / commanded[1]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default 5)")
    for label, value in measure(parser.parse_args().rounds).items():
        print(f"{label:70} {value:8.3f}")
