"""Episode: the simulation loop of one episode, as a generator of decision requests.

A pool, a test or a harness sends the responses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.record import INFRACTIONS, PROGRAM, PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.state import STATUS, Control, EndReason, EpisodeFault, GroundTruth, Observation
from closedloop_plugin.core.visibility import VisibleBodies
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.decisions import ControlScheduler, DecisionResponse, DecisionRules, TimedDecision
from closedloop_plugin.runner.faults import fault_of
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.scoring.ability import of_type
from closedloop_plugin.scoring.margins import SafetyMargins
from closedloop_plugin.scoring.metric_log import MetricLog
from closedloop_plugin.scoring.referee.referee import Referee
from closedloop_plugin.worlds.base import InvalidScene, World, not_played_in, shown_by
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.files import file_sha256

if TYPE_CHECKING:
    from closedloop_plugin.maps.base import RoadMap


MOST_REASON = 1000  # characters, for exceptions of others are of any length


class TickObserver(Protocol):
    """Is called at every tick without influence on the episode: tracks, frames, videos, heartbeats."""

    def __call__(self, tick: EpisodeTick) -> None: ...


@dataclass(frozen=True)
class EpisodeTick:
    """One tick. `control`: applied in the step to this tick. `decision`: its origin, at its first step only.

    `infractions`: kinds of those that this tick brought (record.INFRACTIONS).
    `road`: the map of the episode. `shown`: perception conditions that the world's pictures can show. `visible`: what a
    camera's picture of this tick shows of each body, if the world can measure it (before the next step).
    """

    observation: Observation
    truth: GroundTruth
    control: Control
    decision: TimedDecision | None = None
    road: RoadMap | None = None
    shown: tuple[str, ...] = ()
    visible: VisibleBodies | None = None
    infractions: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvaluationConditions:
    """Driver and rules, the same for all episodes of a run."""

    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    agent: Mapping[str, Any] = field(default_factory=dict)  # Agent.describe()
    interpreter: Mapping[str, Any] | None = None
    privileged: bool = False
    version: str = __version__  # of this package, with the commit if it is known


@dataclass(frozen=True)
class EpisodeResult:
    """Results of an episode; metric_info and track are JSON values, written to the folders of these names."""

    record: EpisodeRecord
    metric_info: Any = None
    track: Any = None


def run_episode(
    world: World,
    task: EpisodeTask,
    conditions: EvaluationConditions,
    respond: Callable[[DecisionRequest], DecisionResponse],
    observers: Sequence[TickObserver] = (),
    on_decision: Callable[[TimedDecision], None] = lambda decision: None,
) -> EpisodeResult:
    """Run one episode to its end. Raises Ad2Error and WorldError; every other outcome is in the record.

    `on_decision`: called for every decision, in order, when its control is no longer applied.
    """
    episode = Episode(world, task, conditions, observers)
    episode.controls.on_closed = on_decision
    requests = episode.requests()
    try:
        request = next(requests)
        while True:
            request = requests.send(respond(request))
    except StopIteration as end:
        return end.value


class Episode:
    """State of a running episode."""

    def __init__(
        self, world: World, task: EpisodeTask, conditions: EvaluationConditions, observers: Sequence[TickObserver] = ()
    ) -> None:
        self.world, self.task, self.conditions, self.observers = world, task, conditions, observers
        self.controls = ControlScheduler(conditions.profile, conditions.rules, task.driver_seed)
        self.log = MetricLog()
        self.margins = SafetyMargins()
        self.referee: Referee | None = None
        self.truth: GroundTruth | None = None

    def requests(self) -> Generator[DecisionRequest, DecisionResponse, EpisodeResult]:
        """Yields a DecisionRequest, is sent its DecisionResponse, and so on; returns the EpisodeResult."""
        started = time.perf_counter()
        fault: EpisodeFault | None = None
        try:
            end, reason = yield from self._drive()
            fault = self.controls.fault if end is EndReason.AGENT_FAILED else None
        except (InvalidScene, Ad2Error) as exc:
            fault = EpisodeFault.MAP if fault_of(exc) is EpisodeFault.MAP else EpisodeFault.PROGRAM
            of_route = fault is EpisodeFault.MAP and self.task.setup.route is not None
            if isinstance(exc, Ad2Error) and not (self.task.one_of_many or of_route):
                raise  # neither a wrong program of a suite nor the map of one of its routes ends the run
            end, reason = EndReason.INVALID, str(exc)
        return self._result(end, reason, fault, time.perf_counter() - started)

    def _drive(self) -> Generator[DecisionRequest, DecisionResponse, tuple[EndReason, str]]:
        world, controls = self.world, self.controls
        observation = world.reset(self.task.setup)
        control: Control | None = None
        self.referee = Referee(self.conditions.profile, world.road, self.task.setup.route)
        end = self._record_tick(observation, Control())
        while end is None:
            if controls.due(observation.tick):
                response = yield self._request(observation, control)
                controls.take(response, observation.tick, observation)
                if controls.end:
                    return controls.end, controls.reason
            if world.done is not None:
                return self._ended(world.done)
            before = controls.current
            control = controls.control(observation.tick, observation.speed)
            observation = world.step(control)
            end = self._record_tick(observation, control, None if controls.current is before else controls.current)
        return end, ""

    def _record_tick(
        self, observation: Observation, control: Control, decision: TimedDecision | None = None
    ) -> EndReason | None:
        """Pass the tick to logs, the referee and observers: why the episode ends with it, or None."""
        assert self.referee is not None
        self.truth = truth = self.world.truth()
        self.log.add(truth)
        self.margins.add(truth)
        self.controls.counts.update(f"crossed {mark}" for mark in truth.crossed)
        world, end = self.world, self.referee.tick(truth)
        tick = EpisodeTick(
            observation, truth, control, decision, road=world.road, shown=shown_by(world),
            visible=getattr(world, "visible_bodies", None), infractions=self.referee.latest,
        )  # fmt: skip
        for observe in self.observers:
            observe(tick)
        return end

    def _request(self, observation: Observation, applied: Control | None) -> DecisionRequest:
        privileged = self.conditions.privileged
        return DecisionRequest(
            episode=self.task.key,
            observation=observation,
            truth=self.truth if privileged else None,
            road=self.world.road if privileged else None,
            applied=applied,
        )

    def _ended(self, why: str) -> tuple[EndReason, str]:
        """The simulation ended by itself, which is the regular end of a user's program; status: see _result."""
        assert self.truth is not None
        setup = self.task.setup
        # Decided by the tick, not by the text: for a program's own `terminate after` it is a time limit too.
        own = setup.program is not None and self.truth.tick < setup.max_ticks
        return (EndReason.COMPLETED if own else EndReason.TICK_LIMIT), why

    def _result(self, end: EndReason, reason: str, fault: EpisodeFault | None, system_s: float) -> EpisodeResult:
        record = blank_record(
            task=self.task, conditions=self.conditions, end=end, reason=reason, fault=fault,
            backend=self.world.backend, version=self.world.version,
        )  # fmt: skip
        known: dict[str, Any] = {
            "system_s": system_s, "counts": dict(self.controls.counts), "decisions": self.controls.finish(),
        }  # fmt: skip
        if left := not_played_in(self.world):
            known["world"] = {**record.world, "not_played": dict(left)}
        if self.referee and self.truth:
            outcome, truth, road = self.referee.outcome(), self.truth, self.world.road
            known |= {
                "infractions": outcome.infractions,
                "score_route": outcome.score_route,
                "score_penalty": outcome.score_penalty,
                "score_composed": outcome.score_composed,
                "places": outcome.places,
                "junctions_passed": outcome.junctions_passed,
                "route_length_m": road.path.length,
                "town": record.town or road.town,  # of a program that names its own map
                "game_s": truth.time_s,
                "ticks": truth.tick,
                "map": {
                    "source": road.source,
                    "sha256": road.sha256,
                    "pieces": [[p.start_m, p.end_m, p.geometry] for p in road.pieces],
                    "invented": list(road.invented),
                    "experimental": road.experimental,
                },
                "events": [list(e) for e in truth.events],
                "drawn": dict(self.world.drawn),
                "weather": asdict(self.world.weather),
                "comfort": self.log.comfort(),
                "margins": self.margins.to_json(),
            }
        if end is EndReason.COMPLETED and reason and known.get("score_route", 0.0) < 100.0:
            known["status"] = PROGRAM_ENDED  # it ran correctly, but the route was not completed
        # Through JSON, so that the record equals the one that a resumed run reads.
        record = EpisodeRecord.from_json(EpisodeRecord(**{**vars(record), **known}).to_json())
        return EpisodeResult(record, self.log.to_json())


def blank_record(
    task: EpisodeTask,
    conditions: EvaluationConditions,
    end: EndReason,
    reason: str,
    backend: str,
    version: str,
    fault: EpisodeFault | None = None,
) -> EpisodeRecord:
    """The record of an episode of which only the end is known; all measured values are zero."""
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
        agent=dict(conditions.agent),
        interpreter=None if conditions.interpreter is None else dict(conditions.interpreter),
        profile=conditions.profile.name,
        world={"backend": backend, "version": version, "waiting": conditions.rules.latency.label}
        | _program(task)
        | _changed(task, conditions),
        map={},
        weather=asdict(weather) if weather else {},
        reason=one_line(reason)[:MOST_REASON],
        fault=fault or "",
        version=conditions.version,
    )


def _program(task: EpisodeTask) -> dict[str, str]:
    """Hash of the program's text, since its name does not identify it; whether the standard scenario of its route's
    type plays under it ("kept", "replaced"); which draw it is."""
    setup = task.setup
    if setup.program is None:
        return {}
    found = {"program": file_sha256(setup.program)[:12]} if setup.program.is_file() else {}
    if setup.route is not None and of_type(setup.route.scenario):
        found["standard"] = "kept" if setup.keeps_standard else "replaced"
    return found | ({"draw": task.draw} if task.draw else {})


def _changed(task: EpisodeTask, conditions: EvaluationConditions) -> dict[str, Any]:
    """Deviations of this run from its profile; empty without any.

    Scores with different `changed` are never averaged; another decision rate is only recorded.
    """
    rules, profile = conditions.rules, conditions.profile
    deviations = {
        "unread replies end the episode": rules.policy == "strict",
        "no background traffic": not task.setup.traffic,
    }
    text = ", ".join(name for name, applies in deviations.items() if applies)
    rate = rules.decision_hz or profile.decision_hz
    return ({"changed": text} if text else {}) | ({"decision_hz": rate} if rate != profile.decision_hz else {})
