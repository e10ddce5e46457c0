"""Benchmarks of the closed loop.

    python benchmarks/closed_loop.py [--only world,overhead,waiting,waiting-embedded,memory] [--json FILE]

world              steps/s of the embedded world without camera against Scenic's bare Newtonian simulator on the same
                   scene, and with an 800 x 450 front camera and four other cars
overhead           share of the loop itself in a step (referee, logs, track, records, decision files; without world and
                   agent)
waiting            a model that answers any batch in 200 ms: answers of 8 workers against those of one
waiting-endpoint   an endpoint with log-normal latencies (median 200 ms), 8 and 32 workers: share of the ideal rate
waiting-embedded   the same in the embedded world, while all 8 worlds drive
memory             one world process over 100 episodes

benchmarks/drive_against.py compares the drives of two checkouts.
"""

from __future__ import annotations

import drive_memory
import drive_overhead
import drive_waiting
import world_rate
from measured_json import run_benchmark

PARTS = {
    "world": world_rate.measure,
    "overhead": drive_overhead.measure,
    "waiting": drive_waiting.measure,
    "waiting-endpoint": drive_waiting.measure_endpoint,
    "waiting-embedded": drive_waiting.measure_embedded,
    "memory": drive_memory.measure,
}

if __name__ == "__main__":
    raise SystemExit(run_benchmark(__doc__, PARTS))
