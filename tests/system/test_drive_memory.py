"""Memory over many episodes: of a world process with the embedded simulator, and of a run with the fake world."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.closedloop.doubles import TextFollower
from support.closedloop.runs import run_into, tasks, worker_config
from support.running import REPO
from support.tiers import count

from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe

pytestmark = [pytest.mark.soak, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

# Allowed after the first tenth of the episodes. The parent process keeps the record of each episode until the end.
WORLD_GROWTH_MB, WORKER_GROWTH_MB, PARENT_GROWTH_MB, RECORD_MB = 20, 5, 5, 0.015
ROUTES, TICKS = 6, 20  # of the demo suite; steps of an episode


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class MeasuringDriver(TextFollower):
    """Drives in the parent process; after each episode it measures this process and its world process."""

    def __init__(self) -> None:
        super().__init__()
        self.resident_mb: list[tuple[float, ...]] = []

    def end(self, episode: str) -> None:
        super().end(episode)
        self.batches.clear()
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        self.resident_mb.append((resident_mb(os.getpid()), *(resident_mb(int(pid)) for pid in children)))


def drive_and_measure(folder: Path, n: int) -> list[tuple[float, ...]]:
    """Drive `n` episodes with one worker; returns the memory of parent and worker after each, MB."""
    driver = MeasuringDriver()
    reader = FactoryRecipe("support.closedloop.doubles:Reader")
    config = worker_config(name="bench2advlm", agent=None, interpreter=reader, interprets=True)
    records = run_into(folder, tasks(n // ROUTES, max_ticks=TICKS), config, driver, limits=PoolLimits(workers=1))
    assert len(records) == n // ROUTES * ROUTES
    return driver.resident_mb


def test_a_world_process_does_not_grow_over_many_episodes(record_property: Callable[[str, object], None]) -> None:
    episodes = count(200)
    command = [sys.executable, REPO / "benchmarks/drive_memory.py", str(episodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    early, *_, late = (mb for name, mb in found.items() if name.startswith("resident after"))
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
