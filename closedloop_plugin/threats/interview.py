"""Interviews about the first frames of routes: worlds run in parallel while the target answers in batches.

The ego is stationary with its brake applied while traffic moves; the first frame is taken at t = 1 s. A route's
transcript is stored as soon as its answers arrive, so a kill loses at most the routes in progress.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import FULL_BRAKE, Decision
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.episode import EpisodeResult, EvaluationConditions
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, episode_seed
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.threats.base import Interviewee, InterviewFrame
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.snapshot import write_jpeg
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import InterviewRecord, ThreatTranscript
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.storage.code_state import code_label

FIRST_S, STEP_S = 1.0, 1.0  # time of the first frame, and between frames
BATCH = 32  # maximum number of routes per call of the target
JPEG_QUALITY = 90
JOIN_TIMEOUT_S = 10.0  # waiting for the batch in progress after an error or Ctrl-C


def interview(
    *,
    suite_name: str,
    routes: Sequence[Route],
    setups: Mapping[str, EpisodeSetup] | None,
    world: FactoryRecipe,
    interviewee: Interviewee,
    cameras: Sequence[Camera],
    folder: Path,
    keep: Callable[[ThreatTranscript], None],
    seed: int,
    frames: int = 1,
    workers: int = 1,
    engine: WorldEngine | None = None,
    profile: Profile,
    towns: Mapping[str, Path],
    quiet: bool = False,
) -> dict[str, str]:
    """Interview the target about every route; return {route id: reason} of routes without frames.

    `keep` is called once per transcript, from one thread at a time, also if its answers failed. `setups`: by route id,
    for episodes that are more than their route. Raises Ad2Error for errors that the user must fix; transcripts kept
    until then remain.
    """
    tasks = [
        _task(suite=suite_name, route=route, setups=setups, cameras=cameras, profile=profile, towns=towns,
              seed=seed, frames=frames, n_routes=len(routes))
        for route in routes
    ]  # fmt: skip
    with tqdm(total=len(tasks), desc="interviews", unit="route", disable=quiet) as bar:

        def answered(scene: Sequence[InterviewFrame], answers: Any) -> None:
            keep(_transcript(suite_name, scene, answers, interviewee, cameras, folder))
            bar.update()

        with _InterviewThread(interviewee, answered) as thread:
            collector = _FrameCollector(tuple(cameras), frames, {t.key: t.setup.route for t in tasks if t.setup.route})
            failed: dict[str, str] = {}

            def finished(result: EpisodeResult) -> None:
                reason = _enqueue(result, collector, thread)
                if reason:
                    failed[result.record.route_id] = reason
                    bar.update()

            config = _worker_config(world, interviewee, cameras, profile)
            WorldPool(
                worker_config=config, limits=PoolLimits(workers), engine=engine or LocalEngine(), agent=collector,
                interpreter=None, on_result=finished, on_wait=lambda note: bar.disable or bar.write(f"worlds: {note}"),
            ).run(tasks)  # fmt: skip
    return failed


def _enqueue(result: EpisodeResult, collector: _FrameCollector, thread: _InterviewThread) -> str:
    """Queue the frames of a finished world for the target; the reason if there are too few, else ""."""
    scene = collector.take(f"{result.record.route_id}_rep0")
    complete = len(scene) == collector.frames
    if complete:
        thread.put(scene)
    thread.check()
    missing = f"{len(scene)} of {collector.frames} frames, then: {result.record.end}"
    return "" if complete else short(result.record.reason or missing, 500)


def _task(
    *,
    suite: str,
    route: Route,
    setups: Mapping[str, EpisodeSetup] | None,
    cameras: Sequence[Camera],
    profile: Profile,
    towns: Mapping[str, Path],
    seed: int,
    frames: int,
    n_routes: int,
) -> EpisodeTask:
    base = setups[route.id] if setups and route.id in setups else EpisodeSetup(route, 0, town=towns.get(route.town))
    setup = replace(
        base,
        route=route,
        seed=episode_seed(seed, route.id, 0),
        cameras=tuple(cameras),
        timestep=1.0 / profile.hz,
        max_ticks=math.ceil((FIRST_S + (frames - 1) * STEP_S) * profile.hz),
    )
    return EpisodeTask(suite, route.id, 0, setup, n_routes > 1)


def _worker_config(
    world: FactoryRecipe, interviewee: Interviewee, cameras: Sequence[Camera], profile: Profile
) -> WorkerConfig:
    """One decision per second: each transfers all images, and only those of whole seconds are used."""
    rules = DecisionRules(decision_hz=1.0 / STEP_S)
    conditions = EvaluationConditions(profile, rules, interviewee.describe(), privileged=True)
    return WorkerConfig(world, conditions, cameras=tuple(c.name for c in cameras))


class _FrameCollector:
    """Agent that applies the brake and collects the frames of the interviews."""

    name, privileged, local = "interviewer", True, False

    def __init__(self, cameras: tuple[Camera, ...], frames: int, routes: Mapping[str, Route]) -> None:
        self.cameras, self.frames, self._routes = cameras, frames, routes
        self._collected: dict[str, list[InterviewFrame]] = {}

    def start(self, episode: str, seed: int) -> None:
        self._collected[episode] = []

    def end(self, episode: str) -> None:
        """Frames are kept for `take`; if the episode is repeated, `start` discards them."""

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        for request in requests:
            self._collect(request)
        return [Decision(control=FULL_BRAKE) for _ in requests]

    def _collect(self, request: DecisionRequest) -> None:
        frames = self._collected.setdefault(request.episode, [])
        due = FIRST_S + len(frames) * STEP_S
        observation, truth, road = request.observation, request.truth, request.road
        if len(frames) >= self.frames or observation.time_s < due - 1e-6 or truth is None or road is None:
            return
        images = tuple(observation.images(camera.name) for camera in self.cameras)
        frames.append(InterviewFrame(self._routes[request.episode], observation, truth, road, images))

    def take(self, episode: str) -> list[InterviewFrame]:
        return self._collected.pop(episode, [])


class _InterviewThread:
    """Thread that interviews the target about waiting routes while the worlds prepare the next ones."""

    def __init__(self, interviewee: Interviewee, answered: Callable[[Sequence[InterviewFrame], Any], None]) -> None:
        self._interviewee, self._answered = interviewee, answered
        self._waiting: deque[list[InterviewFrame]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="ad2-interviews", daemon=True)

    def __enter__(self) -> _InterviewThread:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        """Wait for the outstanding answers; after an error or Ctrl-C only for the batch in progress."""
        with self._changed:
            self._closed = True
            if kind is not None:
                self._waiting.clear()
            self._changed.notify()
        self._thread.join(None if kind is None else JOIN_TIMEOUT_S)
        if kind is None:
            self.check()

    def put(self, scene: list[InterviewFrame]) -> None:
        with self._changed:
            self._waiting.append(scene)
            self._changed.notify()

    def check(self) -> None:
        """Re-raise an exception of the thread."""
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while batch := self._next():
                for scene, answers in zip(batch, self._interviewee.answer(batch), strict=True):
                    self._answered(scene, answers)
        except BaseException as exc:  # any exception: check() re-raises it in the main thread
            self._error = exc

    def _next(self) -> list[list[InterviewFrame]]:
        """The next batch of waiting routes, at most BATCH; [] at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]


def _transcript(
    suite: str,
    scene: Sequence[InterviewFrame],
    answers: Any,
    interviewee: Interviewee,
    cameras: Sequence[Camera],
    folder: Path,
) -> ThreatTranscript:
    """The transcript; first its frames are written: <route>_<k>.jpg (first camera), <route>_<k>_<camera>.jpg."""
    route, names, times = scene[0].route, [], []
    for k, frame in enumerate(scene):
        for number, (camera, image) in enumerate(zip(cameras, frame.images, strict=True)):
            name = f"frames/{route.id}_{k}{f'_{camera.name}' if number else ''}.jpg"
            write_jpeg(folder / name, Image.fromarray(image), JPEG_QUALITY)
            names.append(name)
            times.append(round(frame.observation.time_s, 3))
    record = InterviewRecord(
        agent=dict(interviewee.describe()), source=interviewee.source, frames=names, time_s=times, answers=list(answers)
    )
    site = site_of(suite, route, scene[0].road)
    return ThreatTranscript(route=route.id, site=site, interview=record, version=code_label())
