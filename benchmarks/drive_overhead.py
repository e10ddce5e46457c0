"""Cost of the closed loop itself: an episode without the world's step, ground truth and images, and without the agent.

Measured in processor time, to which other processes on the machine do not add. The expert decides at every step, so
that the decision files are as large as they get; a model takes much longer and writes less often.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measured_json import scaled

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import Control, Decision, GroundTruth, Observation
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.expert import ExpertDriver
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner import worker
from closedloop_plugin.runner.decision_files import DecisionFiles, DecisionLog
from closedloop_plugin.runner.decisions import DecisionRules, TimedDecision
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.runner.worker import DecisionResponder, WorkerConfig, drive
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup, ParameterDomain
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

CAMERA = Camera("front", 800, 450, 70.0, 0.8, 0.0, 1.6)
ROUTES = 3  # of the demo suite


class Clock:
    """Processor time of this thread, s, and number of calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def time(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        start = time.thread_time()
        try:
            return call(*args)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - start
            self.calls[name] = self.calls.get(name, 0) + 1


class TimedWorld:
    """The embedded world with timed calls."""

    def __init__(self, world: EmbeddedWorld, clock: Clock) -> None:
        self.world, self.clock = world, clock
        self.backend, self.version = world.backend, world.version

    def reset(self, setup: EpisodeSetup) -> Observation:
        return self.clock.time("reset", self.world.reset, setup)

    def step(self, control: Control) -> Observation:
        return self.clock.time("step", self.world.step, control)

    def truth(self) -> GroundTruth:
        return self.clock.time("truth", self.world.truth)

    @property
    def road(self) -> RoadMap:
        return self.world.road

    @property
    def done(self) -> str | None:
        return self.world.done

    @property
    def drawn(self) -> Mapping[str, Any]:
        return self.world.drawn

    @property
    def weather(self) -> Weather:
        return self.world.weather

    def space(self, setup: EpisodeSetup) -> Mapping[str, ParameterDomain]:
        return self.world.space(setup)

    def close(self) -> None:
        self.world.close()


class TimedLog(DecisionLog):
    """A DecisionLog that measures itself and the files that get its blocks. `spent_s`: of all logs, processor time."""

    spent_s = 0.0

    def __call__(self, decision: TimedDecision) -> None:
        start = time.thread_time()
        super().__call__(decision)
        TimedLog.spent_s += time.thread_time() - start


class TimedExpert(ExpertDriver):
    """The expert. With `use_camera` it also reads the image, as a model does."""

    def __init__(self, clock: Clock, use_camera: bool) -> None:
        super().__init__()
        self.clock, self.use_camera = clock, use_camera

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        if self.use_camera:
            image = self.clock.time("picture", requests[0].observation.images, CAMERA.name)
            assert isinstance(image, np.ndarray)
        return self.clock.time("agent", super().decide, requests)


def measure(scale: float) -> dict[str, float]:
    out: dict[str, float] = {}
    worker.DecisionLog = TimedLog  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        world = EmbeddedWorld(Path(folder, "maps"))
        for label, cameras in (("camera", (CAMERA,)), ("blind", ())):
            found = _drive(world, scaled(ROUTES, scale), cameras, DecisionFiles(Path(folder, label)))
            out |= {f"{label}_{name}": value for name, value in found.items()}
        world.close()
    return out


def _drive(world: EmbeddedWorld, routes: int, cameras: tuple[Camera, ...], files: DecisionFiles) -> dict[str, float]:
    """Whole episodes through the worker's `drive`: referee, metric log, track, records, decision files.

    A step is the time of an episode without its reset and without the agent.
    """
    rules = profile("bench2drive")
    clock = Clock()
    TimedLog.spent_s = 0.0
    config = WorkerConfig(
        FactoryRecipe(""),
        EvaluationConditions(rules, DecisionRules(), {}, None, True),
        track=FactoryRecipe("closedloop_plugin.report.track_log:TrackLog"),
    )
    responder = DecisionResponder(config, TimedExpert(clock, bool(cameras)), None, None)
    start = time.thread_time()
    for route in suite("demo").routes[:routes]:
        task = EpisodeTask("demo", route.id, 0, EpisodeSetup(route, 1, cameras))
        files.begin(task.key)
        drive(TimedWorld(world, clock), task, config, responder, keep_block=partial(files.add, task.key))
        files.keep(task.key)
    total = time.thread_time() - start
    ticks = clock.calls["step"]
    agent_s = clock.seconds["agent"] + clock.seconds["reset"]
    world_s = sum(clock.seconds.get(name, 0.0) for name in ("step", "truth", "picture"))
    own = total - agent_s - world_s
    return {
        "ticks": ticks,
        "step_us": 1e6 * clock.seconds["step"] / ticks,
        "truth_us": 1e6 * clock.seconds["truth"] / ticks,
        "picture_us": 1e6 * clock.seconds.get("picture", 0.0) / ticks,
        "agent_us": 1e6 * clock.seconds["agent"] / ticks,
        "loop_us": 1e6 * own / ticks,
        "loop_share": own / (own + world_s),
        "decision_files_share": TimedLog.spent_s / (own + world_s),
        "bytes_per_decision": sum(file.stat().st_size for file in files.folder.iterdir()) / clock.calls["agent"],
    }
