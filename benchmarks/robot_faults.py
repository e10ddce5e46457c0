"""Stopping distance of a vehicle at 0.3 m/s after each fault, time until it drives again, and overhead of the loop.

    python benchmarks/robot_faults.py [REPETITIONS]

The rig of tests/system/test_faults.py: real sshd, ssh, rosmaster and rospy on loopback, `ad2 robot plan`,
the deployed client with its relay, and the sandbox's LIMO. Needs sshd and rospy (docs/robots-sandbox.md). Prints the
worst of three repetitions as a Markdown table. The distances assume that a LIMO brakes as in the sandbox.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

try:
    from support.robots.fault_rig import FAULTS, MASTER, Rig, rig, strike_and_repair
except ModuleNotFoundError as missing:  # the rig is part of the tests
    print(f"{missing}: install the extra for development, pip install -e '.[dev]'", file=sys.stderr)
    raise SystemExit(2) from None

REPETITIONS = 3


def measure(loop: Rig, repetitions: int) -> None:
    print("| fault | first zero, ms | way to standstill, cm | drives again, s |\n|---|---|---|---|", flush=True)
    for fault in (*FAULTS, MASTER):
        found = [strike_and_repair(loop, fault) for _ in range(repetitions)]
        zero, way = max(s.zero_s for s, _ in found), max(s.distance_m for s, _ in found)
        print(f"| {fault.name} | {1000 * zero:.0f} | {100 * way:.1f} | {max(a for _, a in found):.1f} |", flush=True)


def overhead(loop: Rig) -> None:
    spent = sorted(1000 * s for s in loop.overheads())
    last = spent[int(0.95 * len(spent))]
    print(f"\noverhead of {len(spent)} cycles: median {statistics.median(spent):.1f} ms, 95 % within {last:.1f} ms")
    early = sum(line["times"] for line in loop.client_events("refused") if line["reason"].startswith("stopped: "))
    print(f"motions that the client ended early, faults included: {early}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ad2_faults_") as folder, rig(Path(folder)) as made:
        measure(made, int(sys.argv[1]) if sys.argv[1:] else REPETITIONS)
        overhead(made)
