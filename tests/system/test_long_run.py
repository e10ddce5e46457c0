"""Long runs: a drive whose worlds are killed or hang in every tenth episode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.closedloop.long_drive import WORKERS, LongDrive, MeasuringDriver, drive, episodes, planned
from support.closedloop.long_drive import __file__ as LONG_DRIVE
from support.closedloop.runs import FAKE, comparable
from support.tiers import count

from closedloop_plugin.runner.store import read_records

pytestmark = [pytest.mark.soak, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

# Growth after the first tenth of the episodes, MB. The parent process keeps the record of each episode until the end.
WORKER_GROWTH_MB, PARENT_GROWTH_MB, RECORD_MB = 5, 5, 0.015


def grown(values: Sequence[float]) -> float:
    """How much more the largest value after the first tenth is than the largest in it."""
    tenth = len(values) // 10
    return max(values[tenth:]) - max(values[:tenth])


def test_every_episode_is_accounted_for_if_a_tenth_of_the_worlds_die_or_hang(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    n, faults = count(1000), count(100)
    plan = planned(n, faults)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, LONG_DRIVE, tmp_path / "faulty", str(n), str(faults)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = LongDrive(**json.loads(done.stdout.splitlines()[-1]))
    calm = drive(tmp_path / "calm", n, FAKE, MeasuringDriver(plan.models))

    stored = read_records(tmp_path / "faulty")
    assert Counter((r.route_id, r.repetition) for r in stored) == Counter(
        (t.route_id, t.repetition) for t in episodes(n)
    )
    assert {r.seed: r.counts.get("retries", 0) for r in stored} == {r.seed: int(r.seed in plan.worlds) for r in calm}
    assert comparable(stored) == comparable(calm)
    failing = sum(how == "fail" for how, _ in plan.models.values())
    assert sum(r.counts.get("agent_errors", 0) for r in stored) == failing

    hung = sum("hung" in reason for reason in found.lost)
    assert len(found.lost) == faults, found.lost
    assert hung == sum(how == "hang" for how, _ in plan.worlds.values())
    assert found.left == []
    parent_mb, worker_mb = (grown(column) for column in zip(*found.resident_mb, strict=True))
    assert parent_mb <= PARENT_GROWTH_MB + RECORD_MB * n
    assert worker_mb <= WORKER_GROWTH_MB
    assert grown(found.files) <= WORKERS, "more open files than the pipes of worlds that start late"
    for name, value in {"episodes": n, "killed worlds": faults - hung, "hung worlds": hung}.items():
        record_property(name, value)
    record_property("most MB of growth in the parent", round(parent_mb, 1))
    record_property("most MB of growth in a worker", round(worker_mb, 1))
