"""Time of `ad2 drive run` of the expert in the embedded world, against that of another checkout, in turns.

    python benchmarks/drive_against.py CHECKOUT [--parts 10 [--driven 3]]

Everything is included: imports, worker processes, maps, records. Each checkout has its own data home, empty at the
start, so that its caches hold what it has driven here. The suite is driven in parts, each by both checkouts in turn,
which go first alternately: what else runs on the machine then affects both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closedloop_plugin.scenarios.suites.lookup import BENCH2DRIVE, EMBEDDED, VARIABLE, routes_home

PROFILE, WORKERS = "bench2advlm", 2
CHANGING = ("system_s", "version", "world")  # fields of a record that are not the drive's


@dataclass
class MeasuredCheckout:
    """Time of a checkout's runs, s, and its records by route."""

    code: Path
    home: Path
    wall_s: float = 0.0
    cpu_s: float = 0.0
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def drive(self, shard: str) -> None:
        """Drive one part of the suite."""
        out = self.home / shard.replace("/", "-")
        command = [
            sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", "run", "--suite", EMBEDDED, "--agent", "expert",
            "--profile", PROFILE, "--workers", str(WORKERS), "--shard", shard, "--out", str(out),
        ]  # fmt: skip
        routes = os.environ.get(VARIABLE) or str(routes_home() / f"{BENCH2DRIVE}.xml")
        environment = {**os.environ, VARIABLE: routes, "AD2_HOME": str(self.home), "PYTHONPATH": str(self.code)}
        start = time.perf_counter()
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, cwd=self.home, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)  # with the world processes, for which the command has waited
        self.wall_s += time.perf_counter() - start
        self.cpu_s += usage.ru_utime + usage.ru_stime
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            sys.exit(f"failed: {' '.join(command)}\n{(self.home / 'log').read_text()[-2000:]}")
        for row in (out / "episodes.jsonl").read_text("utf-8").splitlines():
            record = json.loads(row)
            self.records[record["route_id"]] = {k: v for k, v in record.items() if k not in CHANGING}


def compare(other: Path, parts: int, driven: int | None) -> dict[str, float]:
    """Wall and processor time of both, their ratios, and how many records differ.

    parts: of the suite; driven: how many of them are driven (default: all).
    """
    with tempfile.TemporaryDirectory() as folder:
        before, now = (
            MeasuredCheckout(code.resolve(), Path(folder, name))
            for name, code in (("other", other), ("this", Path(__file__).parent.parent))
        )
        before.home.mkdir()
        now.home.mkdir()
        for part in range(driven or parts):
            for checkout in (before, now) if part % 2 == 0 else (now, before):
                checkout.drive(f"{part + 1}/{parts}")
        return _figures(before, now)


def _figures(before: MeasuredCheckout, now: MeasuredCheckout) -> dict[str, float]:
    n = len(now.records)
    score = "score_composed"
    return {
        "routes": n,
        "other checkout: wall time, s": before.wall_s,
        "this checkout: wall time, s": now.wall_s,
        "other checkout: processor time, s an episode": before.cpu_s / n,
        "this checkout: processor time, s an episode": now.cpu_s / n,
        "wall time: ratio this / other": now.wall_s / before.wall_s,
        "processor time: ratio this / other": now.cpu_s / before.cpu_s,
        "routes with another score": sum(before.records[k][score] != now.records[k][score] for k in now.records),
        "records that differ": sum(before.records[k] != now.records[k] for k in now.records),
    }


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkout", type=Path, help="root of another version, e.g. a git worktree")
    p.add_argument("--parts", type=int, default=1, help="of the suite, driven by both checkouts in turns")
    p.add_argument("--driven", type=int, help="how many of the parts are driven (default: all)")
    options = p.parse_args()
    for key, value in compare(options.checkout, options.parts, options.driven).items():
        print(f"{key:<56} {value:,.3f}")
