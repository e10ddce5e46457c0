"""DisturbedExpert: the expert with disturbances, so that collected frames show errors and their recoveries.

A driver that has only seen perfect driving does not know what to do after its own first error (Ross et al. 2011). Every
few seconds one disturbance changes the control for a moment: the wheel is turned, the pedals are held as they were (a
late reaction), or the car speeds up or brakes without a reason. The labels remain those of the undisturbed expert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.expert import ExpertDriver

PAUSE_S = (2.0, 7.0)  # from the end of a disturbance to the next one
KINDS = ("steer", "late", "faster", "slower")
LENGTH_S = {"steer": (0.3, 0.8), "late": (0.4, 1.2), "faster": (0.5, 1.5), "slower": (0.5, 1.5)}
STEER = (0.08, 0.35)  # of the full angle, to either side


@dataclass
class ControlDisturbance:
    """One disturbance of an episode: from `begin` to `end` s. `steer`: right > 0. `held`: the control before it."""

    kind: str
    begin: float
    end: float
    steer: float = 0.0
    held: Control = COAST


class DisturbedExpert(ExpertDriver):
    """See the head of this file. `profile`: its highest speed also limits the disturbances."""

    name = "disturbed-expert (privileged)"

    def __init__(self, profile: Profile) -> None:
        super().__init__(max_speed=math.inf if profile.max_speed is None else profile.max_speed)
        self.profile = profile
        self._draws: dict[str, Random] = {}
        self._next: dict[str, ControlDisturbance] = {}

    def start(self, episode: str, seed: int) -> None:
        super().start(episode, seed)
        self._draws[episode] = Random(seed)
        self._next[episode] = _drawn(self._draws[episode], 0.0)

    def end(self, episode: str) -> None:
        super().end(episode)
        self._draws.pop(episode, None)
        self._next.pop(episode, None)

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._disturbed(request, self._decide(request)) for request in requests]

    def _disturbed(self, request: DecisionRequest, decision: Decision) -> Decision:
        if decision.control is None:
            return decision
        now, waiting = request.observation.time_s, self._next[request.episode]
        if now >= waiting.end:
            waiting = self._next[request.episode] = _drawn(self._draws[request.episode], now)
        if now < waiting.begin:
            waiting.held = decision.control
            return decision
        control = _changed(decision.control, waiting, request.observation.speed, self.max_speed)
        return replace(decision, control=control, thought={**decision.thought, "disturbed": waiting.kind})


def _drawn(draw: Random, now: float) -> ControlDisturbance:
    kind = draw.choice(KINDS)
    begin = now + draw.uniform(*PAUSE_S)
    side = draw.choice((-1.0, 1.0))
    return ControlDisturbance(kind, begin, begin + draw.uniform(*LENGTH_S[kind]), steer=side * draw.uniform(*STEER))


def _changed(control: Control, disturbance: ControlDisturbance, speed: float, max_speed: float) -> Control:
    if disturbance.kind == "steer":
        return replace(control, steer=control.steer + disturbance.steer).checked()
    if disturbance.kind == "late":
        return replace(disturbance.held, steer=control.steer)
    if disturbance.kind == "slower":
        return replace(control, throttle=0.0, brake=max(control.brake, 0.3))
    return replace(control, throttle=0.0 if speed > max_speed else 0.6, brake=0.0)
