"""Speed-up by parallel worlds with one slow model: 8 episodes in 8 world processes against 1; 200 ms per batch.

All episodes have the same length (a car that creeps until the tick limit): with routes of different lengths the longest
one would bound the ratio. "Times faster" is a ratio of wall times, which include the start of all processes. In the
embedded world that start (import and compilation, about 3 s of a core each) would outweigh the short episodes of a
benchmark, so the rate of answers is compared while all worlds drive.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, EndReason
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.episode import EpisodeResult, EvaluationConditions
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup

ANSWER_S, DECISION_HZ, EPISODES = 0.2, 2.0, 8
SECONDS = 15.0  # of each episode: 30 questions
FAKE = FactoryRecipe("closedloop_plugin.testing.fake_world:FakeWorld")


class SlowModel:
    """Answers any batch after 200 ms; the car creeps."""

    name, privileged, local = "slow", False, False
    cameras: tuple[Camera, ...] = ()

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[str]]] = []  # time of the request, its episodes

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.batches.append((time.perf_counter(), [request.episode for request in requests]))
        time.sleep(ANSWER_S)
        return [
            Decision(control=Control(throttle=0.12 if request.observation.speed < 1.5 else 0.0)) for request in requests
        ]


def measure() -> dict[str, float]:
    """In the fake world: the runner alone, including the start of its processes."""
    one, _ = _run(FAKE, 1, EPISODES)
    many, model = _run(FAKE, EPISODES, EPISODES)
    return {
        "fake world: 1 worker, s": one,
        f"fake world: {EPISODES} workers, s": many,
        "fake world: questions in a batch": statistics.mean(len(keys) for _, keys in model.batches),
        "fake world: times faster": one / many,
    }


def measure_embedded() -> dict[str, float]:
    """In the embedded world without cameras: answers per second while all worlds drive."""
    with tempfile.TemporaryDirectory() as folder:
        world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": Path(folder)})
        _, alone = _run(world, 1, 1)
        many, model = _run(world, EPISODES, EPISODES)
    return {
        f"embedded world: {EPISODES} workers, s with start-up": many,
        "embedded world: 1 worker, answers/s": _rate(alone, 1),
        f"embedded world: {EPISODES} workers, answers/s": _rate(model, EPISODES),
        "embedded world: times faster while all drive": _rate(model, EPISODES) / _rate(alone, 1),
    }


def _rate(model: SlowModel, episodes: int) -> float:
    """Answers/s between the latest first request and the earliest last request of the episodes."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for at, keys in model.batches:
        for key in keys:
            first.setdefault(key, at)
            last[key] = at
    assert len(first) == episodes
    start, end = max(first.values()), min(last.values())
    assert end > start, "the first episode ended before the last began: increase SECONDS"
    return sum(len(keys) for at, keys in model.batches if start <= at < end) / (end - start)


def _run(world: FactoryRecipe, workers: int, episodes: int) -> tuple[float, SlowModel]:
    """(wall time of the run in s, the model with its log of batches)."""
    rules = profile("bench2drive")
    ticks = round(SECONDS * rules.hz)
    route = suite("demo").routes[2]
    tasks = [EpisodeTask("demo", route.id, k, EpisodeSetup(route, k, max_ticks=ticks)) for k in range(episodes)]
    model = SlowModel()
    results: list[EpisodeResult] = []
    config = WorkerConfig(world, EvaluationConditions(rules, DecisionRules(decision_hz=DECISION_HZ), model.describe()))
    start = time.perf_counter()
    WorldPool(
        worker_config=config,
        limits=PoolLimits(workers=workers),
        agent=model,
        interpreter=None,
        on_result=results.append,
    ).run(tasks)
    seconds = time.perf_counter() - start
    ends = [(r.record.end, r.record.ticks) for r in results]
    assert ends == [(EndReason.TICK_LIMIT, ticks)] * episodes, ends
    return seconds, model


if __name__ == "__main__":
    for key, value in (measure() | measure_embedded()).items():
        print(f"{key:<70} {value:,.3f}", flush=True)
