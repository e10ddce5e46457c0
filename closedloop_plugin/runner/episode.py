"""One episode: the loop itself. A generator of questions, so that a pool, a test or a harness can answer them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.core.routes import sha256
from closedloop_plugin.core.state import STATUS, Control, EndReason, GroundTruth, Observation
from closedloop_plugin.runner.decisions import ControlScheduler, DecisionResponse, DecisionRules
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.scoring.margins import SafetyMargins
from closedloop_plugin.scoring.metric_log import MetricLog
from closedloop_plugin.scoring.referee.referee import Referee
from closedloop_plugin.worlds.base import InvalidScene, World
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error

# Status of a user's program that ended itself before the car was through: neither a success nor a failure of the car.
PROGRAM = "program"  # stands for the scenario type in its record
PROGRAM_ENDED = "Ended by its program"


def unharmed(record: EpisodeRecord) -> bool:
    """A success, or clean until its program ended itself: that one need not let the car through to its way's end."""
    return record.success or (record.status == PROGRAM_ENDED and record.clean)


class TickObserver(Protocol):
    """Sees every tick and takes no part: tracks, frames, videos, heartbeats."""

    def __call__(self, seen: EpisodeTick) -> None: ...


@dataclass(frozen=True)
class EpisodeTick:
    """One moment of an episode. `control` is what led here; `answer` only where one was just given."""

    observation: Observation
    truth: GroundTruth
    control: Control
    answer: DecisionResponse | None = None


@dataclass(frozen=True)
class EvaluationConditions:
    """Who drives, under which rules: the same for all episodes of a run."""

    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    agent: Mapping[str, Any] = field(default_factory=dict)  # Agent.describe()
    interpreter: Mapping[str, Any] | None = None
    privileged: bool = False


@dataclass(frozen=True)
class EpisodeResult:
    """What an episode leaves behind; the files are JSON values by their folder's name."""

    record: EpisodeRecord
    metric_info: Any = None
    track: Any = None


def run_episode(
    world: World,
    task: EpisodeTask,
    cast: EvaluationConditions,
    ask: Callable[[DecisionRequest], DecisionResponse],
    watchers: Sequence[TickObserver] = (),
) -> EpisodeResult:
    """Drive one episode to its end. Ad2Error and WorldError pass through; everything else is in the record."""
    questions = Episode(world, task, cast, watchers).questions()
    try:
        question = next(questions)
        while True:
            question = questions.send(ask(question))
    except StopIteration as end:
        return end.value


class Episode:
    """The state of one episode under way."""

    def __init__(
        self, world: World, task: EpisodeTask, cast: EvaluationConditions, watchers: Sequence[TickObserver] = ()
    ) -> None:
        self.world, self.task, self.cast, self.watchers = world, task, cast, watchers
        self.pilot = ControlScheduler(cast.profile, cast.rules, task.setup.seed)
        self.log = MetricLog()
        self.margins = SafetyMargins()
        self.referee: Referee | None = None
        self.truth: GroundTruth | None = None

    def questions(self) -> Generator[DecisionRequest, DecisionResponse, EpisodeResult]:
        """Yields each question, is sent its answer, returns the Result."""
        started = time.perf_counter()
        try:
            end, reason = yield from self._drive()
        except InvalidScene as exc:
            end, reason = EndReason.INVALID, str(exc)
        except Ad2Error as exc:
            if not self.task.one_of_many:
                raise
            end, reason = EndReason.INVALID, str(exc)  # one wrong program of a suite does not end the others
        return self._result(end, reason, time.perf_counter() - started)

    def _drive(self) -> Generator[DecisionRequest, DecisionResponse, tuple[EndReason, str]]:
        world, pilot = self.world, self.pilot
        seen = world.reset(self.task.setup)
        self.referee = Referee(self.cast.profile, world.road, self.task.setup.route)
        end = self._look(seen, Control())
        while end is None:
            answer = None
            if pilot.due(seen.tick):
                answer = yield self._question(seen)
                pilot.take(answer, seen.tick)
                if pilot.end:
                    return pilot.end, pilot.reason
            if world.done is not None:
                return self._ended(world.done)
            control = pilot.control(seen.tick, seen.speed)
            seen = world.step(control)
            end = self._look(seen, control, answer)
        return end, ""

    def _look(self, seen: Observation, control: Control, answer: DecisionResponse | None = None) -> EndReason | None:
        """The referee's word on this tick, after every log has it."""
        assert self.referee is not None
        self.truth = truth = self.world.truth()
        self.log.add(truth)
        self.margins.add(truth)
        self.pilot.counts.update(f"crossed {mark}" for mark in truth.crossed)
        for watch in self.watchers:
            watch(EpisodeTick(seen, truth, control, answer))
        return self.referee.tick(truth)

    def _question(self, seen: Observation) -> DecisionRequest:
        privileged = self.cast.privileged
        return DecisionRequest(
            self.task.key, seen, self.truth if privileged else None, self.world.road if privileged else None
        )

    def _ended(self, why: str) -> tuple[EndReason, str]:
        """The simulation ended itself: for a user's program that is its regular end, see _result for its status."""
        assert self.truth is not None
        setup = self.task.setup
        # By the tick, not by its words: a program's own `terminate after` speaks of a time limit too.
        own = setup.program is not None and self.truth.tick < setup.max_ticks
        return (EndReason.COMPLETED if own else EndReason.TICK_LIMIT), why

    def _result(self, end: EndReason, reason: str, system_s: float) -> EpisodeResult:
        record = blank_record(self.task, self.cast, end, reason, self.world.backend, self.world.version)
        known: dict[str, Any] = {"system_s": system_s, "counts": dict(self.pilot.counts)}
        if self.referee and self.truth:
            outcome, truth, path = self.referee.outcome(), self.truth, self.world.road
            known |= {
                "infractions": outcome.infractions,
                "score_route": outcome.score_route,
                "score_penalty": outcome.score_penalty,
                "score_composed": outcome.score_composed,
                "places": outcome.places,
                "junctions_passed": outcome.junctions_passed,
                "route_length_m": path.path.length,
                "game_s": truth.time_s,
                "ticks": truth.tick,
                "map": {
                    "source": path.source,
                    "sha256": path.sha256,
                    "pieces": [[p.start_m, p.end_m, p.geometry] for p in path.pieces],
                    "invented": list(path.invented),
                    "experimental": path.experimental,
                },
                "events": [list(e) for e in truth.events],
                "drawn": dict(self.world.drawn),
                "weather": asdict(self.world.weather),
                "comfort": self.log.comfort(),
                "margins": self.margins.to_json(),
            }
        if end is EndReason.COMPLETED and reason and known.get("score_route", 0.0) < 100.0:
            known["status"] = PROGRAM_ENDED  # it ran as it should, but nobody says that the car arrived
        # Through JSON: what is in memory is then exactly what a resumed run reads back.
        record = EpisodeRecord.from_json(EpisodeRecord(**{**vars(record), **known}).to_json())
        return EpisodeResult(record, self.log.to_json())


def blank_record(
    task: EpisodeTask, cast: EvaluationConditions, end: EndReason, reason: str, backend: str, version: str
) -> EpisodeRecord:
    """The record of an episode of which nothing is known but how it ended: everything else is zero."""
    setup, route = task.setup, task.setup.route
    weather = setup.weather or (route.weather if route else None)
    return EpisodeRecord(
        suite=task.suite,
        route_id=task.route_id,
        repetition=task.repetition,
        seed=setup.seed,
        scenario=route.scenario if route else PROGRAM,
        scenario_name=route.scenario_name if route else task.route_id,
        town=route.town if route else (setup.town.stem if setup.town else ""),
        end=str(end),
        status=STATUS[end],
        infractions={name: [] for name in INFRACTIONS},
        score_route=0.0,
        score_penalty=1.0,
        score_composed=0.0,
        route_length_m=route.length if route else 0.0,
        game_s=0.0,
        system_s=0.0,
        ticks=0,
        agent=dict(cast.agent),
        interpreter=None if cast.interpreter is None else dict(cast.interpreter),
        profile=cast.profile.name,
        world={"backend": backend, "version": version, "waiting": cast.rules.latency.label}
        | _program(task)
        | _changed(task, cast),
        map={},
        weather=asdict(weather) if weather else {},
        reason=reason,
        version=__version__,
    )


def _program(task: EpisodeTask) -> dict[str, str]:
    """Which text was played, of a user's program or a generated one: its name says nothing of that."""
    file = task.setup.program
    return {"program": sha256(file)[:12]} if file and file.is_file() else {}


def _changed(task: EpisodeTask, cast: EvaluationConditions) -> dict[str, Any]:
    """What this run does otherwise than its profile; nothing for a run by the rules. Scores of runs with different
    `changed`, words, never go into one mean; how often the model was asked is only written down."""
    rules = cast.rules
    said = {"unread replies end the episode": rules.policy == "strict", "no background traffic": not task.setup.traffic}
    text = ", ".join(name for name, is_so in said.items() if is_so)
    rate = rules.decision_hz or cast.profile.decision_hz
    return ({"changed": text} if text else {}) | ({"decision_hz": rate} if rate != cast.profile.decision_hz else {})
