"""Trivial drivers: what a benchmark must tell apart. The privileged ones know the route's exact line and say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from closedloop_plugin.agents import expert, tracking
from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.expert import ExpertDriver
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import FULL_BRAKE, Control, Decision


class BaselineDriver:
    """One control per ask, from `drive`."""

    name = ""
    privileged = False
    local = True
    cameras: tuple[Camera, ...] = ()

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "privileged": self.privileged}

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        return [Decision(control=self.drive(ask)) for ask in asks]

    def drive(self, ask: DecisionRequest) -> Control:
        raise NotImplementedError


class StationaryDriver(BaselineDriver):
    """Never moves."""

    name = "still"

    def drive(self, ask: DecisionRequest) -> Control:
        return FULL_BRAKE


class StraightDriver(BaselineDriver):
    """About 5 m/s, wheel in the middle, eyes shut."""

    name = "straight"

    def drive(self, ask: DecisionRequest) -> Control:
        throttle, brake = tracking.pedals(tracking.to_speed(5.0, ask.observation.speed), ask.observation.speed)
        return Control(0.0, throttle, brake)


class RandomDriver(BaselineDriver):
    """A random control every half second, seeded by the episode."""

    name = "random"

    def __init__(self) -> None:
        self._dice: dict[str, np.random.Generator] = {}
        self._held: dict[str, tuple[float, Control]] = {}

    def start(self, episode: str, seed: int) -> None:
        self._dice[episode] = np.random.default_rng([seed, 0x0D1CE])
        self._held.pop(episode, None)

    def end(self, episode: str) -> None:
        self._dice.pop(episode, None)
        self._held.pop(episode, None)

    def drive(self, ask: DecisionRequest) -> Control:
        now = ask.observation.time_s
        since, control = self._held.get(ask.episode, (-1.0, Control()))
        if now - since >= 0.5:
            steer, throttle, brake = self._dice[ask.episode].uniform([-1, 0, 0], [1, 1, 0.4])
            since, control = now, Control(steer, throttle, brake if throttle < 0.3 else 0.0)
            self._held[ask.episode] = since, control
        return control


class SpeedOnlyDriver(ExpertDriver):
    """The expert's pedals, the wheel in the middle."""

    name = "speed only (privileged)"

    def _one(self, ask: DecisionRequest) -> Decision:
        decision = super()._one(ask)
        if decision.control is None:
            return decision
        return Decision(control=Control(0.0, decision.control.throttle, decision.control.brake))


class SteerOnlyDriver(ExpertDriver):
    """Follows the route and obeys its lights and signs, blind to everybody else."""

    name = "steer only (privileged)"

    def _one(self, ask: DecisionRequest) -> Decision:
        if ask.truth is None or ask.road is None:
            return Decision(error="this driver needs the truth and the road")
        mind = self._minds.setdefault(ask.episode, expert.ExpertState())
        scene = expert.look(ask.truth, ask.road, mind)
        top, stop = expert.speed_limit(scene, mind)
        wanted = min(tracking.to_speed(top, scene.speed), stop)
        return Decision(control=tracking.control(ask.truth.ego, ask.road.path, scene.s, 0.0, wanted))
