"""Benchmarks of the closed loop, as ratios measured in one run.

    python benchmarks/closed_loop.py [--only world,overhead,waiting,waiting-embedded,memory] [--json FILE]
    python benchmarks/closed_loop.py --against CHECKOUT [--parts 10 [--driven 3]]

world              steps/s of the embedded world without camera against Scenic's bare Newtonian simulator on the same
                   scene: >= 0.7; with an 800 x 450 front camera and 4 actors: >= 60 steps/s on one core
overhead           share of the loop itself in a step (referee, logs, track, records; without world and agent): < 0.05
waiting            a model that answers any batch in 200 ms: 8 workers get >= 7.5 times the answers of one
waiting-endpoint   an endpoint with log-normal latencies (median 200 ms), 8 and 32 workers: >= 0.95 of the ideal rate
waiting-embedded   the same in the embedded world, while all 8 worlds drive
memory             one world process over 200 episodes: constant
--against          instead: embedded220 with the expert and two workers, everything included, by this checkout and by
                   another one in turns (with the same packages installed): <= 0.5 of the time of version 0.1.0
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import decision_files
import drive_against
import drive_memory
import drive_overhead
import drive_waiting
import world_rate

PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "world": world_rate.measure,
    "overhead": drive_overhead.measure,
    "decisions": decision_files.measure,
    "waiting": drive_waiting.measure,
    "waiting-endpoint": drive_waiting.measure_endpoint,
    "waiting-embedded": drive_waiting.measure_embedded,
    "memory": drive_memory.measure,
}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default=",".join(PARTS))
    p.add_argument("--json", type=Path)
    p.add_argument("--against", type=Path, metavar="CHECKOUT")
    p.add_argument("--parts", type=int, default=1, help="of the suite, driven by both checkouts in turns")
    p.add_argument("--driven", type=int, help="how many of the parts are driven")
    args = p.parse_args()
    parts = PARTS
    if args.against:
        parts = {"against": lambda: drive_against.measure(args.against, args.parts, args.driven)}
        args.only = "against"
    names = args.only.split(",")
    if unknown := [name for name in names if name not in parts]:
        p.error(f"--only {','.join(unknown)}: known parts: {', '.join(parts)}")
    results: dict[str, dict[str, float]] = {}
    for name in names:
        print(f"{name} ...", flush=True)
        results[name] = parts[name]()
        for key, value in results[name].items():
            print(f"  {key:<56} {value:,.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
