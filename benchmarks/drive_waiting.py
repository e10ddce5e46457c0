"""Many worlds, one slow model: 8 episodes in 8 world processes against one, the model answering in 200 ms a batch.

The episodes are of one length (a car that creeps along until the tick limit): with routes of different lengths the
longest alone would bound the ratio, whatever the runner does. Start-up of the world processes is counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.agents.base import Ask
from closedloop_plugin.profiles import profile
from closedloop_plugin.runner.episode import Cast, Result
from closedloop_plugin.runner.pilot import Rules
from closedloop_plugin.runner.pool import Limits, Pool
from closedloop_plugin.runner.recipe import Recipe
from closedloop_plugin.runner.task import Task
from closedloop_plugin.runner.worker import Plan
from closedloop_plugin.state import Control, Decision, EndReason
from closedloop_plugin.suites import suite
from closedloop_plugin.worlds.base import Setup

ANSWER_S, DECISION_HZ, EPISODES = 0.2, 2.0, 8
SECONDS = 12.0  # of each episode: 24 questions
FAKE = Recipe("closedloop_plugin.worlds.fake:FakeWorld")


class SlowModel:
    """Answers any batch in 200 ms: creep."""

    name, privileged, local, cameras = "slow", False, False, ()

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.first = 0.0  # when the first question was there

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, asks: Sequence[Ask]) -> list[Decision]:
        self.first = self.first or time.perf_counter()
        self.batches.append(len(asks))
        time.sleep(ANSWER_S)
        return [Decision(control=Control(throttle=0.12 if ask.observation.speed < 1.5 else 0.0)) for ask in asks]


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        embedded = Recipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": Path(folder)})
        return _both("fake world", FAKE) | _both("embedded world, no camera", embedded)


def _both(label: str, world: Recipe) -> dict[str, float]:
    one, asked_one, _ = _run(world, 1)
    many, asked_many, batch = _run(world, EPISODES)
    return {
        f"{label}: one worker, s": one,
        f"{label}: {EPISODES} workers, s": many,
        f"{label}: questions in a batch": batch,
        f"{label}: times faster": one / many,
        f"{label}: times faster, from the first question on": asked_one / asked_many,
    }


def _run(world: Recipe, workers: int) -> tuple[float, float, float]:
    """(wall seconds, those from the first question on, mean batch)."""
    rules = profile("bench2drive")
    ticks = round(SECONDS * rules.hz)
    route = suite("demo").routes[2]
    tasks = [Task("demo", route.id, k, Setup(route, k, max_ticks=ticks)) for k in range(EPISODES)]
    model = SlowModel()
    results: list[Result] = []
    plan = Plan(world, Cast(rules, Rules(decision_hz=DECISION_HZ), model.describe()))
    start = time.perf_counter()
    Pool(plan, Limits(workers=workers), model, None, results.append).run(tasks)
    end = time.perf_counter()
    ends = [(r.record.end, r.record.ticks) for r in results]
    assert ends == [(EndReason.TICK_LIMIT, ticks)] * EPISODES, ends
    return end - start, end - model.first, sum(model.batches) / len(model.batches)


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:<70} {value:,.3f}", file=sys.stdout, flush=True)
