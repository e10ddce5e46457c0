"""Parallel worlds with slow models: one that answers any batch in 200 ms, and an endpoint with random latencies.

The model in this process: 8 episodes in 8 world processes against 1. The endpoint: 8 and 32 worlds against the ideal of
independent ones, in which every world asks again as soon as its own reply has arrived.

All episodes have the same length (a car that creeps until the tick limit): with routes of different lengths the longest
one would bound the ratio. The start of the processes (in the embedded world import and compilation, seconds of a core
each) would outweigh the short episodes of a benchmark, so the rate of answers is compared while all worlds drive; it is
measured apart.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from measured_json import scaled

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, EndReason
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup

ANSWER_S, DECISION_HZ, WORKERS = 0.2, 2.0, 8
SECONDS, SHORTEST = 15, 10  # of each episode: 30 questions; all worlds must drive at the same time
SIGMA = 0.6  # of the logarithm of an endpoint's latency
FAKE = FactoryRecipe("closedloop_plugin.worlds.testing.fake_world:FakeWorld")


class SlowModel:
    """Answers any batch after 200 ms; the car creeps."""

    concurrent = False

    name, privileged, local = "slow", False, False
    cameras: tuple[Camera, ...] = ()

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[str]]] = []  # time of the request, its episodes

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def latency_s(self) -> float:
        return ANSWER_S

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.batches.append((time.perf_counter(), [request.episode for request in requests]))
        time.sleep(self.latency_s())
        return [
            Decision(control=Control(throttle=0.12 if request.observation.speed < 1.5 else 0.0)) for request in requests
        ]


class SlowEndpoint(SlowModel):
    """Answers each request after a latency of its own: log-normal, median 200 ms, sigma 0.6."""

    concurrent = True

    def __init__(self) -> None:
        super().__init__()
        self._random = random.Random(0)
        self.latencies: list[float] = []

    def latency_s(self) -> float:
        self.latencies.append(self._random.lognormvariate(math.log(ANSWER_S), SIGMA))
        return self.latencies[-1]


def measure(scale: float) -> dict[str, float]:
    """In the fake world: the runner alone."""
    _, alone = _run(FAKE, 1, SlowModel(), scale)
    seconds, model = _run(FAKE, WORKERS, SlowModel(), scale)
    return {
        "questions_per_batch": statistics.mean(len(keys) for _, keys in model.batches),
        "speedup": _rate(model, WORKERS) / _rate(alone, 1),
        "s_with_start": seconds,
    }


def measure_endpoint(scale: float) -> dict[str, float]:
    """In the fake world: answers per second while all worlds drive, against the ideal of independent worlds."""
    found: dict[str, float] = {}
    _, alone = _run(FAKE, 1, SlowEndpoint(), scale)
    times = sorted(at for at, _ in alone.batches)
    # s between a reply and the world's next request, without other worlds
    world_s = (times[-1] - times[0] - sum(alone.latencies[: len(times) - 1])) / (len(times) - 1)
    for workers in (8, 32):
        _, model = _run(FAKE, workers, SlowEndpoint(), scale)
        ideal = workers / (statistics.mean(model.latencies) + world_s)
        found[f"share_{workers}"] = _rate(model, workers) / ideal
    return found


def measure_embedded(scale: float) -> dict[str, float]:
    """In the embedded world without cameras: answers per second while all worlds drive."""
    with tempfile.TemporaryDirectory() as folder:
        world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": Path(folder)})
        _, alone = _run(world, 1, SlowModel(), scale)
        seconds, model = _run(world, WORKERS, SlowModel(), scale)
    return {
        "answers_per_s_of_one": _rate(alone, 1),
        "answers_per_s": _rate(model, WORKERS),
        "speedup": _rate(model, WORKERS) / _rate(alone, 1),
        "s_with_start": seconds,
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


M = TypeVar("M", bound=SlowModel)


def _run(world: FactoryRecipe, workers: int, model: M, scale: float) -> tuple[float, M]:
    """(wall time of a run with one episode per worker in s, the model with its log of batches)."""
    rules = profile("bench2drive")
    ticks = round(scaled(SECONDS, scale, least=SHORTEST) * rules.hz)
    route = suite("demo").routes[2]
    tasks = [EpisodeTask("demo", route.id, k, EpisodeSetup(route, k, max_ticks=ticks)) for k in range(workers)]
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
    assert ends == [(EndReason.TICK_LIMIT, ticks)] * workers, ends
    return seconds, model
