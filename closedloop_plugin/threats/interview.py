"""Interviews on a route's first frames: worlds run side by side, the target is asked in batches while they run.

The ego stands still with its brake on and traffic moves; the first frame is of t = 1 s. A route's transcript is handed
over as soon as its answers are there, so a kill loses at most the routes under way.
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
from closedloop_plugin.threats.base import Interviewee, InterviewFrame
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.snapshot import write_jpeg
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import InterviewRecord, ThreatTranscript
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2 import __version__

FIRST_S, STEP_S = 1.0, 1.0  # when the first frame is taken, and between two
AT_ONCE = 32  # routes in one batch of the target
JPEG_QUALITY = 90
PATIENCE_S = 10.0  # after an error or Ctrl-C, for the batch under way


def interview(
    suite_name: str,
    routes: Sequence[Route],
    setups: Mapping[str, EpisodeSetup] | None,
    world: FactoryRecipe,
    teller: Interviewee,
    cameras: Sequence[Camera],
    folder: Path,
    keep: Callable[[ThreatTranscript], None],
    *,
    seed: int,
    frames: int = 1,
    workers: int = 1,
    profile: Profile,
    towns: Mapping[str, Path],
    quiet: bool = False,
) -> dict[str, str]:
    """Ask the target about every route; {route id: reason} of those whose world failed or whose scene was rejected.

    `keep` gets each transcript once, from one thread at a time; one whose answers failed too. `setups`: by route id,
    where an episode is not just its route. Ad2Error for what the user must mend; what was kept until then stays.
    """
    tasks = [_task(suite_name, route, setups, cameras, profile, towns, seed, frames, len(routes)) for route in routes]
    with tqdm(total=len(tasks), desc="interviews", unit="route", disable=quiet) as bar:

        def told(moments: Sequence[InterviewFrame], answers: Any) -> None:
            keep(_transcript(suite_name, moments, answers, teller, cameras, folder))
            bar.update()

        with _InterviewThread(teller, told) as asking:
            watcher = _FrameCollector(tuple(cameras), frames, {t.key: t.setup.route for t in tasks if t.setup.route})
            failed: dict[str, str] = {}

            def over(result: EpisodeResult) -> None:
                reason = _over(result, watcher, asking)
                if reason:
                    failed[result.record.route_id] = reason
                    bar.update()

            pool = WorldPool(_plan(world, teller, cameras, profile), PoolLimits(workers), watcher, None, over)
            pool.run(tasks)
    return failed


def _over(result: EpisodeResult, watcher: _FrameCollector, asking: _InterviewThread) -> str:
    """A world has ended: its frames wait for the target, or there are too few, and the reason why comes back."""
    moments = watcher.take(f"{result.record.route_id}_rep0")
    whole = len(moments) == watcher.frames
    if whole:
        asking.put(moments)
    asking.check()
    lack = f"{len(moments)} of {watcher.frames} frames, then: {result.record.end}"
    return "" if whole else short(result.record.reason or lack, 500)


def _task(
    suite: str,
    route: Route,
    setups: Mapping[str, EpisodeSetup] | None,
    cameras: Sequence[Camera],
    profile: Profile,
    towns: Mapping[str, Path],
    seed: int,
    frames: int,
    many: int,
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
    return EpisodeTask(suite, route.id, 0, setup, many > 1)


def _plan(world: FactoryRecipe, teller: Interviewee, cameras: Sequence[Camera], profile: Profile) -> WorkerConfig:
    """One question a second: each carries all images, and only those of whole seconds are looked at."""
    cast = EvaluationConditions(profile, DecisionRules(decision_hz=1.0 / STEP_S), teller.describe(), privileged=True)
    return WorkerConfig(world, cast, cameras=tuple(c.name for c in cameras))


class _FrameCollector:
    """The agent of the interviews: it brakes, and keeps what is to be shown."""

    name, privileged, local = "interviewer", True, False

    def __init__(self, cameras: tuple[Camera, ...], frames: int, routes: Mapping[str, Route]) -> None:
        self.cameras, self.frames, self._routes = cameras, frames, routes
        self._seen: dict[str, list[InterviewFrame]] = {}

    def start(self, episode: str, seed: int) -> None:
        self._seen[episode] = []

    def end(self, episode: str) -> None:
        """What was seen waits for `take`; of an episode that is tried again, `start` throws it away."""

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        for ask in asks:
            self._look(ask)
        return [Decision(control=FULL_BRAKE) for _ in asks]

    def _look(self, ask: DecisionRequest) -> None:
        seen = self._seen.setdefault(ask.episode, [])
        due = FIRST_S + len(seen) * STEP_S
        if len(seen) >= self.frames or ask.observation.time_s < due - 1e-6 or ask.truth is None or ask.road is None:
            return
        images = tuple(ask.observation.images(camera.name) for camera in self.cameras)
        seen.append(InterviewFrame(self._routes[ask.episode], ask.observation, ask.truth, ask.road, images))

    def take(self, episode: str) -> list[InterviewFrame]:
        return self._seen.pop(episode, [])


class _InterviewThread:
    """A thread that asks the target for all routes that wait, while worlds prepare the next ones."""

    def __init__(self, teller: Interviewee, told: Callable[[Sequence[InterviewFrame], Any], None]) -> None:
        self._teller, self._told = teller, told
        self._waiting: deque[list[InterviewFrame]] = deque()
        self._new = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="ad2-interviews", daemon=True)

    def __enter__(self) -> _InterviewThread:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        """Waits for the answers that are lacking; after an error or Ctrl-C only for the batch under way."""
        with self._new:
            self._closed = True
            if kind is not None:
                self._waiting.clear()
            self._new.notify()
        self._thread.join(None if kind is None else PATIENCE_S)
        if kind is None:
            self.check()

    def put(self, moments: list[InterviewFrame]) -> None:
        with self._new:
            self._waiting.append(moments)
            self._new.notify()

    def check(self) -> None:
        """Raise here what was raised in the thread."""
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while batch := self._next():
                for moments, answers in zip(batch, self._teller.tell(batch), strict=True):
                    self._told(moments, answers)
        except BaseException as exc:  # any: it is raised again where the user sees it
            self._error = exc

    def _next(self) -> list[list[InterviewFrame]]:
        """All that wait, AT_ONCE at most; [] at the end."""
        with self._new:
            while not self._waiting and not self._closed:
                self._new.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]


def _transcript(
    suite: str,
    moments: Sequence[InterviewFrame],
    answers: Any,
    teller: Interviewee,
    cameras: Sequence[Camera],
    folder: Path,
) -> ThreatTranscript:
    """With its frames written before it: frames/<route>_<k>.jpg of the first camera, _<k>_<camera>.jpg of others."""
    route, names, times = moments[0].route, [], []
    for k, moment in enumerate(moments):
        for number, (camera, image) in enumerate(zip(cameras, moment.images, strict=True)):
            name = f"frames/{route.id}_{k}{f'_{camera.name}' if number else ''}.jpg"
            write_jpeg(folder / name, Image.fromarray(image), JPEG_QUALITY)
            names.append(name)
            times.append(round(moment.observation.time_s, 3))
    told = InterviewRecord(
        agent=dict(teller.describe()), source=teller.source, frames=names, time_s=times, answers=list(answers)
    )
    site = site_of(suite, route, moments[0].road)
    return ThreatTranscript(route=route.id, site=site, interview=told, version=__version__)
