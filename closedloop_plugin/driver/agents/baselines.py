"""Trivial drivers that a benchmark must be able to distinguish. Those that use ground truth are marked privileged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import FULL_BRAKE, Control, Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents import expert, tracking
from closedloop_plugin.driver.agents.expert import ExpertDriver


class BaselineDriver:
    """Base class: one control per request, from `drive`."""

    name = ""
    privileged = False
    local = True
    cameras: tuple[Camera, ...] = ()

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "privileged": self.privileged}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [Decision(control=self.drive(request)) for request in requests]

    def drive(self, request: DecisionRequest) -> Control:
        raise NotImplementedError


class StationaryDriver(BaselineDriver):
    """Never moves."""

    name = "still"

    def drive(self, request: DecisionRequest) -> Control:
        return FULL_BRAKE


class StraightDriver(BaselineDriver):
    """Drives straight ahead at about 5 m/s without any input."""

    name = "straight"

    def drive(self, request: DecisionRequest) -> Control:
        throttle, brake = tracking.pedals(tracking.to_speed(5.0, request.observation.speed), request.observation.speed)
        return Control(0.0, throttle, brake)


class RandomDriver(BaselineDriver):
    """A random control every half second, seeded by the episode."""

    name = "random"

    def __init__(self) -> None:
        self._generators: dict[str, np.random.Generator] = {}
        self._held: dict[str, tuple[float, Control]] = {}

    def start(self, episode: str, seed: int) -> None:
        self._generators[episode] = np.random.default_rng([seed, 0x0D1CE])
        self._held.pop(episode, None)

    def end(self, episode: str) -> None:
        self._generators.pop(episode, None)
        self._held.pop(episode, None)

    def drive(self, request: DecisionRequest) -> Control:
        now = request.observation.time_s
        since, control = self._held.get(request.episode, (-1.0, Control()))
        if now - since >= 0.5:
            steer, throttle, brake = self._generators[request.episode].uniform([-1, 0, 0], [1, 1, 0.4])
            since, control = now, Control(steer, throttle, brake if throttle < 0.3 else 0.0)
            self._held[request.episode] = since, control
        return control


class SpeedOnlyDriver(ExpertDriver):
    """The expert's pedals without steering."""

    name = "speed only (privileged)"

    def _decide(self, request: DecisionRequest) -> Decision:
        decision = super()._decide(request)
        if decision.control is None:
            return decision
        return Decision(control=Control(0.0, decision.control.throttle, decision.control.brake))


class SteerOnlyDriver(ExpertDriver):
    """Follows the route and obeys signals and signs, but ignores all other actors."""

    name = "steer only (privileged)"

    def _decide(self, request: DecisionRequest) -> Decision:
        if request.truth is None or request.road is None:
            return Decision(error="this driver needs the truth and the road")
        state = self._states.setdefault(request.episode, expert.ExpertState())
        scene = expert.observe(request.truth, request.road, state)
        top, stop, _ = expert.speed_limit(scene, state)
        wanted = min(tracking.to_speed(top, scene.speed), stop)
        return Decision(control=tracking.control(request.truth.ego, request.road.path, scene.s, 0.0, wanted))
