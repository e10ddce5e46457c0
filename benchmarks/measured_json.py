"""Command line of a benchmark, and the one form of its results that the page of figures is written from.

{"benchmark": "serve", "version": "0.9.0+1a2b3c4d5e6f", "date": "2026-11-29",
 "machine": "Python 3.11.9, x86_64, 2 cores", "scale": 1.0, "results": {"words": {"share": 0.97}}}
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.identity import code_label

Figures = dict[str, float]
DIGITS = 4  # significant ones of a stored figure


class UnavailablePart(Exception):
    """A part that this machine cannot measure; the text says what is missing."""


def run_benchmark(description: str, parts: Mapping[str, Callable[[float], Figures]]) -> int:
    """Measure the parts that the command line asks for; 1 if one failed. The calling script gives its name.

    parts: by name, a function of the scale. A part that fails or cannot be measured here does not stop the others.
    """
    options = _options(description, parts)
    measured = {
        "benchmark": Path(sys.argv[0]).stem,
        "version": code_label(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores",
        "scale": options.scale,
    }
    results: dict[str, Figures] = {}
    failed = False
    for name in options.only:
        print(f"{name} ...", flush=True)
        started = time.perf_counter()
        try:
            figures = parts[name](options.scale)
        except UnavailablePart as why:
            print(f"  left out: {why}", flush=True)
            continue
        except Exception:
            traceback.print_exc()
            failed = True
            continue
        results[name] = {figure: significant(value) for figure, value in figures.items()}
        for figure, value in results[name].items():
            print(f"  {figure:<36} {value:>12,g}", flush=True)
        print(f"  ({time.perf_counter() - started:.0f} s)", flush=True)
        if options.json:  # after each part, so that an interruption loses one
            options.json.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(options.json) as file:
                file.write(json.dumps({**measured, "results": results}, indent=1) + "\n")
    return int(failed)


def _options(description: str, parts: Mapping[str, object]) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default=",".join(parts), metavar="PART,...", help="default: %(default)s")
    p.add_argument(
        "--scale", type=float, default=1.0, metavar="X",
        help="multiplies rounds, items and durations: 4 measures about four times as long, 0.1 is a trial, whose "
        "figures performance_page.py does not take (default: 1, short runs whose ratios are stable)",
    )  # fmt: skip
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results, in the form that all benchmarks share")
    options = p.parse_args()
    options.only = options.only.split(",")
    if unknown := [name for name in options.only if name not in parts]:
        p.error(f"--only {','.join(unknown)}: known parts: {', '.join(parts)}")
    if not (math.isfinite(options.scale) and options.scale > 0):
        p.error(f"--scale {options.scale}: expected a number above 0")
    return options


def scaled(count: int, scale: float, least: int = 1) -> int:
    return max(least, round(count * scale))


def significant(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def in_own_process(script: str, *words: object, environment: Mapping[str, str] | None = None) -> Figures:
    """Figures that a benchmark's script prints as its last line. Raises RuntimeError with its errors if it fails."""
    done = subprocess.run(
        [sys.executable, script, *map(str, words)], capture_output=True, text=True, check=False,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{Path(script).name} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))
