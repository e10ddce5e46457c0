"""Time that our entry point adds to `lmms-eval --tasks list`, from alternating runs with and without it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 7
CODE = """
import sys, importlib.metadata as m
if {hide}:
    original = m.entry_points
    def keep(found):
        return m.EntryPoints(e for e in found if not e.value.startswith("lmms_eval_ad2"))
    def without(**kw):
        found = original(**kw)
        if isinstance(found, dict):
            return type(found)({{group: keep(points) for group, points in found.items()}})
        return keep(found)
    m.entry_points = without
sys.argv = ["lmms-eval", "--tasks", "list"]
from lmms_eval.cli.dispatch import main
main()
"""


def _run(hide: bool) -> tuple[float, bool]:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(hide=hide)], capture_output=True, text=True, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    seconds = time.perf_counter() - started
    assert done.returncode == 0 and "mmmu_val" in done.stdout, done.stderr[-2000:]
    return seconds, "ad2_relation" in done.stdout


def measure() -> dict[str, float]:
    with_us, without = [], []
    for _ in range(ROUNDS):
        seconds, listed = _run(hide=False)
        assert listed, "our tasks are not listed"
        with_us.append(seconds)
        seconds, listed = _run(hide=True)
        assert not listed, "the comparison still has our plugin"
        without.append(seconds)
    return {
        "without us, s": statistics.median(without),
        "with us, s": statistics.median(with_us),
        "added, s (median of pairs)": statistics.median(a - b for a, b in zip(with_us, without, strict=True)),
    }
