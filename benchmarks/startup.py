"""Processor time that our entry point adds to `lmms-eval --tasks list`, from alternating runs with and without it.

Not wall time, whose noise of seconds is larger than what is added. The least of each counts: other work on the machine
only adds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from measured_json import scaled

ROUNDS = 2
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
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(hide=hide)], capture_output=True, text=True, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0 and "mmmu_val" in done.stdout, done.stderr[-2000:]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, "ad2_relation" in done.stdout


def measure(scale: float) -> dict[str, float]:
    with_us, without = [], []
    for _ in range(scaled(ROUNDS, scale)):
        seconds, listed = _run(hide=False)
        assert listed, "our tasks are not listed"
        with_us.append(seconds)
        seconds, listed = _run(hide=True)
        assert not listed, "the comparison still has our plugin"
        without.append(seconds)
    return {
        "without_cpu_s": min(without),
        "with_cpu_s": min(with_us),
        "added_cpu_s": min(with_us) - min(without),
        "ratio": min(with_us) / min(without),
    }
