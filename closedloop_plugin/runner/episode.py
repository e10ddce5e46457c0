"""Episode: the simulation loop of one episode, as a generator of decision requests.

A pool, a test or a harness sends the responses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from closedloop_plugin.core.state import Control, EndReason, EpisodeFault, GroundTruth, Observation
from closedloop_plugin.core.visibility import VisibleBodies
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.decisions import ControlScheduler, DecisionResponse, TimedDecision
from closedloop_plugin.runner.episode_record import EpisodeRecorder, EpisodeResult
from closedloop_plugin.runner.faults import fault_of
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.worlds.base import InvalidScene, World, shown_by
from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from closedloop_plugin.maps.base import RoadMap


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
        self.recorder = EpisodeRecorder(world, task, conditions)

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
        return self.recorder.result(end, reason, fault, self.controls, time.perf_counter() - started)

    def _drive(self) -> Generator[DecisionRequest, DecisionResponse, tuple[EndReason, str]]:
        world, controls = self.world, self.controls
        observation = world.reset(self.task.setup)
        control: Control | None = None
        self.recorder.begin()
        end = self._tick(observation, Control())
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
            end = self._tick(observation, control, None if controls.current is before else controls.current)
        return end, ""

    def _tick(
        self, observation: Observation, control: Control, decision: TimedDecision | None = None
    ) -> EndReason | None:
        """Pass the tick to the recorder and to observers: why the episode ends with it, or None."""
        world, recorder = self.world, self.recorder
        end = recorder.tick(self.controls.counts)
        tick = EpisodeTick(
            observation, recorder.truth, control, decision, road=world.road, shown=shown_by(world),
            visible=getattr(world, "visible_bodies", None), infractions=recorder.referee.latest,
        )  # fmt: skip
        for observe in self.observers:
            observe(tick)
        return end

    def _request(self, observation: Observation, applied: Control | None) -> DecisionRequest:
        privileged = self.conditions.privileged
        return DecisionRequest(
            episode=self.task.key,
            observation=observation,
            truth=self.recorder.truth if privileged else None,
            road=self.world.road if privileged else None,
            applied=applied,
        )

    def _ended(self, why: str) -> tuple[EndReason, str]:
        """The simulation ended by itself, the regular end of a user's program; its status is the recorder's."""
        setup = self.task.setup
        # Decided by the tick, not by the text: for a program's own `terminate after` it is a time limit too.
        own = setup.program is not None and self.recorder.truth.tick < setup.max_ticks
        return (EndReason.COMPLETED if own else EndReason.TICK_LIMIT), why
