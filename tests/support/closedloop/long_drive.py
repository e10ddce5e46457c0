"""A drive of many episodes whose worlds die or hang and whose model is slow or fails, at moments set by a seed.

As a script it drives them in a process of its own, so that its memory can be measured:

    python long_drive.py FOLDER EPISODES FAULTS      prints a LongDrive as JSON
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from support.closedloop.doubles import TextFollower
from support.closedloop.runs import run_into, tasks, worker_config

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner import run as runner
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask

ROUTES, TICKS, WORKERS = 6, 20, 4  # of the demo suite; steps of an episode; world processes
READER = FactoryRecipe("support.closedloop.doubles:Reader")
HOW = ("die",) * 7 + ("hang",) * 3


@dataclass(frozen=True)
class LongDrive:
    """After each try of an episode: resident memory of the parent and of the largest world process; `files` open in
    the parent. `lost`: reasons for which worlds were replaced. `left`: processes that the drive has left.
    """

    resident_mb: list[tuple[float, float]]
    files: list[int]
    lost: list[str]
    left: list[int]


@dataclass(frozen=True)
class FaultPlan:
    """`worlds`: seed of an episode -> (how, tick). `models`: key of an episode -> (slow or failing, tick)."""

    worlds: Mapping[int, tuple[str, int]]
    models: Mapping[str, tuple[str, int]]


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def children() -> list[int]:
    """Processes that the main thread of this one has started and that were not waited for."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def episodes(n: int) -> list[EpisodeTask]:
    return tasks(math.ceil(n / ROUTES), max_ticks=TICKS)[:n]


def planned(n: int, faults: int, seed: int = 1) -> FaultPlan:
    """`faults` of `n` episodes lose their world, seven in ten by SIGKILL; for as many others the model has trouble."""
    rng = random.Random(seed)
    hit = rng.sample(episodes(n), 2 * faults)
    ticks = [rng.randrange(TICKS) for _ in hit]
    worlds = {task.setup.seed: (HOW[i % 10], ticks[i]) for i, task in enumerate(hit[:faults])}
    models = {task.key: (("slow", "fail")[i % 2], ticks[faults + i]) for i, task in enumerate(hit[faults:])}
    return FaultPlan(worlds, models)


class MeasuringDriver(TextFollower):
    """Drives in the parent process; after each episode it measures this process and its world processes."""

    def __init__(self, plan: Mapping[str, tuple[str, int]] | None = None) -> None:
        super().__init__()
        self.plan = plan or {}
        self.resident_mb: list[tuple[float, float]] = []
        self.files: list[int] = []

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._changed(r, d) for r, d in zip(requests, super().decide(requests), strict=True)]

    def _changed(self, request: DecisionRequest, decision: Decision) -> Decision:
        how, tick = self.plan.get(request.episode, ("", -1))
        if tick != request.observation.tick:
            return decision
        if how == "slow":
            time.sleep(0.05)
            return decision
        return Decision(error="the model failed")

    def end(self, episode: str) -> None:
        super().end(episode)
        self.batches.clear()
        self.log.clear()
        self.resident_mb.append((resident_mb(os.getpid()), max(map(resident_mb, children()))))
        self.files.append(len(list(Path("/proc/self/fd").iterdir())))


class PromptPool(WorldPool):
    """For a world that hangs, its clock is advanced past the time limit: no test waits, no slow machine is misjudged.

    `marks`: folder of PlannedFaults. `lost`: reasons for which worlds were replaced.
    """

    marks: ClassVar[Path]
    lost: ClassVar[list[str]] = []

    def _check_timeouts(self) -> None:
        for worker in self._workers:
            mark = self.marks / f"pid{worker.process.process.pid}"
            if mark.exists() and not worker.pipe.poll():
                mark.unlink()
                worker.last_message = -math.inf
        super()._check_timeouts()

    def _replace_lost(self, worker: Any, reason: str, machine_lost: bool = False) -> None:
        self.lost.append(reason)
        super()._replace_lost(worker, reason, machine_lost)


def drive(
    folder: Path, n: int, world: FactoryRecipe, driver: MeasuringDriver, workers: int = WORKERS
) -> list[EpisodeRecord]:
    """Drive `n` episodes with this world and a driver in this process."""
    config = worker_config(world, name="bench2advlm", agent=None, interpreter=READER, interprets=True)
    return run_into(folder, episodes(n), config, driver, limits=PoolLimits(workers=workers))


def faulty_drive(folder: Path, n: int, faults: int) -> LongDrive:
    """Drive `n` episodes, of which `faults` lose their world and `faults` have trouble with the model."""
    plan = planned(n, faults)
    driver = MeasuringDriver(plan.models)
    marks = folder.with_name(f"{folder.name}.marks")
    marks.mkdir()
    PromptPool.marks = marks
    world = FactoryRecipe("support.closedloop.doubles:PlannedFaults", {"plan": plan.worlds, "marks": str(marks)})
    with mock.patch.object(runner, "WorldPool", PromptPool):
        drive(folder, n, world, driver)
    return LongDrive(driver.resident_mb, driver.files, PromptPool.lost, children())


if __name__ == "__main__":
    print(json.dumps(asdict(faulty_drive(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
