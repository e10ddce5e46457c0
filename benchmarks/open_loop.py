"""Benchmarks of the open loop, as ratios measured in one run.

    python benchmarks/open_loop.py [--only harness,judge,scoring,startup] [--json FILE]

harness   our tasks against a minimal lmms-eval task over the same documents (no-op model, images decoded): <= 1.10
judge     10,000 items against a local endpoint with 100 ms latency, 64 in flight: >= 0.90 of the ideal rate;
          for comparison a thread pool with the openai client
scoring   70,000 AD2-Bench records: records/s and peak memory, against 7,000
startup   time added to `lmms-eval --tasks list`: < 0.3 s
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness_cost
import judge_rate
import scoring_size
import startup

PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "harness": harness_cost.measure,
    "judge": judge_rate.measure,
    "scoring": scoring_size.measure,
    "startup": startup.measure,
}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default=",".join(PARTS))
    p.add_argument("--json", type=Path)
    args = p.parse_args()
    results: dict[str, dict[str, float]] = {}
    for name in args.only.split(","):
        print(f"{name} ...", flush=True)
        results[name] = PARTS[name]()
        for key, value in results[name].items():
            print(f"  {key:<44} {value:,.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
