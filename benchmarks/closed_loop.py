"""What the closed loop costs, as ratios measured in one run.

    python benchmarks/closed_loop.py [--only world] [--json FILE]

world     steps/s of the embedded world without camera against Scenic's bare Newtonian simulator on the same scene:
          >= 0.7; with an 800 x 450 front camera and 4 actors: >= 60 steps/s on one core
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import world_rate

PARTS: dict[str, Callable[[], dict[str, float]]] = {"world": world_rate.measure}


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
            print(f"  {key:<52} {value:,.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
