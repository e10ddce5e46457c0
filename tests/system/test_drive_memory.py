"""Memory over many episodes: of a world process with the embedded simulator, and of a run with the fake world."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.closedloop.long_drive import MeasuringDriver, drive
from support.closedloop.runs import FAKE
from support.running import REPO
from support.tiers import count

pytestmark = [pytest.mark.soak, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

# Allowed after the first tenth of the episodes, of a world after two rounds of its routes at least. The parent process
# keeps the record of each episode until the end.
WORLD_GROWTH_MB, WORKER_GROWTH_MB, PARENT_GROWTH_MB, RECORD_MB = 10, 5, 5, 0.015


def drive_and_measure(folder: Path, n: int) -> list[tuple[float, float]]:
    """Drive `n` episodes with one worker; returns the memory of parent and worker after each, MB."""
    driver = MeasuringDriver()
    assert len(drive(folder, n, FAKE, driver, workers=1)) == n
    return driver.resident_mb


@pytest.mark.parametrize("collect", [False, True], ids=["drives", "collects"])
def test_a_world_process_does_not_grow_over_many_episodes(
    collect: bool, record_property: Callable[[str, object], None]
) -> None:
    episodes = count(200)
    command = [sys.executable, REPO / "benchmarks/drive_memory.py", str(episodes), *(["--collect"] if collect else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    early, late = found["early_mb"], found["late_mb"]
    assert late - early <= WORLD_GROWTH_MB, found
    record_property("episodes", episodes)
    record_property("most MB of growth", round(late - early, 1))


def test_a_run_does_not_grow_over_many_episodes(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """In a process of its own: other tests would change the memory of this one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, __file__, tmp_path / "run", str(count(3000))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    grown = [max(column) - column[len(column) // 10] for column in zip(*found, strict=True)]
    parent_mb, worker_mb = grown
    assert parent_mb <= PARENT_GROWTH_MB + RECORD_MB * len(found), f"in {len(found)} episodes {parent_mb} MB"
    assert worker_mb <= WORKER_GROWTH_MB, f"in {len(found)} episodes {worker_mb} MB"
    record_property("episodes", len(found))
    record_property("most MB of growth in the parent", round(parent_mb, 1))
    record_property("most MB of growth in the worker", round(worker_mb, 1))


if __name__ == "__main__":
    print(json.dumps(drive_and_measure(Path(sys.argv[1]), int(sys.argv[2]))))
