"""Benchmarks of the open loop.

    python benchmarks/open_loop.py [--only harness,scoring,startup] [--json FILE]

harness   our tasks against a minimal lmms-eval task over the same documents (no-op model, images decoded)
scoring   AD2-Bench at its full size, 70,000 records, and a tenth of it: time and peak memory
startup   `lmms-eval --tasks list` with and without our entry point
"""

from __future__ import annotations

import harness_cost
import scoring_size
import startup
from measured_json import run_benchmark

PARTS = {"harness": harness_cost.measure, "scoring": scoring_size.measure, "startup": startup.measure}

if __name__ == "__main__":
    raise SystemExit(run_benchmark(__doc__, PARTS))
