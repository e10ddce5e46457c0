"""Drivers whose drives are collected, so that frames show errors and their recoveries.

A driver that has only seen perfect driving does not know what to do after its own first error (Ross et al. 2011). The
labels remain those of the undisturbed expert, whoever drives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents.expert import ExpertDriver
from closedloop_plugin.driver.agents.speaking_expert import DIRECTIONS, SpeakingExpert

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
    """The expert with disturbances: every few seconds one changes the control for a moment. The wheel is turned, the
    pedals are held as they were (a late reaction), or the car speeds up or brakes without a reason.

    profile: its highest speed also limits the disturbances.
    """

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


WRONG = 0.4  # share of the turns
WRONG_TURN_S = (1.0, 5.0)  # length of a turn
PACES = {
    "stop": 6,
    "keep the speed": 3,
    "accelerate gently": 3,
    "slow down": 2,
    "accelerate": 2,
    "brake hard": 2,
    "brake": 1,
}  # weights
ASIDE = ("change lane to the left", "change lane to the right", "steer slightly to the left",
         "steer slightly to the right")  # fmt: skip
ASIDE_SHARE = 0.25  # of the wrong turns; the others keep to the route


@dataclass
class WordTurn:
    """What is said in one episode until `end` s; None: what the expert says."""

    draw: Random
    pace: str | None = None
    aside: str | None = None
    end: float = 0.0


class DisturbedSpeaker(SpeakingExpert):
    """The speaking expert, whose words are wrong for some seconds at a time. It needs an interpreter.

    A model that learned from good drives only is lost where its own words first lead it: it stands on a free road, too
    near an obstacle or between two lanes. Random words lead there without a model, and the labels say how to continue.
    """

    name = "disturbed-speaker (privileged)"

    def __init__(self, profile: Profile) -> None:
        super().__init__(("action",), profile)
        self._turns: dict[str, WordTurn] = {}

    def start(self, episode: str, seed: int) -> None:
        super().start(episode, seed)
        self._turns[episode] = WordTurn(Random(seed))

    def end(self, episode: str) -> None:
        super().end(episode)
        self._turns.pop(episode, None)

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._disturbed(r, decision) for r, decision in zip(requests, super().decide(requests), strict=True)]

    def _disturbed(self, request: DecisionRequest, decision: Decision) -> Decision:
        turn, now = self._turns[request.episode], request.observation.time_s
        if now >= turn.end:
            wrong = turn.draw.random() < WRONG
            turn.pace = turn.draw.choices([*PACES], [*PACES.values()])[0] if wrong else None
            turn.aside = turn.draw.choice(ASIDE) if turn.draw.random() < ASIDE_SHARE else None
            turn.end = now + turn.draw.uniform(*WRONG_TURN_S)
        if turn.pace is None or decision.error is not None:
            return decision
        text = f"{turn.pace.capitalize()} and {turn.aside or DIRECTIONS[request.observation.command]}."
        return replace(decision, texts={"action": text}, thought={**decision.thought, "disturbed": "words"})


TURN_S = (2.0, 6.0)  # length of a turn


@dataclass
class DriverTurns:
    """Who speaks in one episode, until `end` s."""

    draw: Random
    expert: bool = False
    end: float = 0.0


class MixedDriver:
    """`agent`, in whose place the expert answers in a `share` (0 to 1) of the turns. It is called in this process.

    An untrained driver stops or leaves the road soon, and all frames of its drives are alike. Where the expert speaks
    for some seconds, the next error happens elsewhere (beta of DAgger).
    """

    privileged = True
    local = False

    def __init__(self, agent: Agent, share: float, profile: Profile) -> None:
        self.agent, self.share = agent, share
        self.expert = SpeakingExpert(("action",), profile)
        self.name, self.cameras = f"{agent.name}, in {share:.0%} of turns the speaking expert", agent.cameras
        self._turns: dict[str, DriverTurns] = {}

    def start(self, episode: str, seed: int) -> None:
        self.agent.start(episode, seed)
        self.expert.start(episode, seed)
        self._turns[episode] = DriverTurns(Random(seed))

    def end(self, episode: str) -> None:
        self.agent.end(episode)
        self.expert.end(episode)
        self._turns.pop(episode, None)

    def describe(self) -> dict[str, Any]:
        return {**self.agent.describe(), "privileged": True, "expert_share": self.share}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide. The agent is asked only what it answers."""
        taught = [self._expert_speaks(request) for request in requests]
        own = [request for request, expert in zip(requests, taught, strict=True) if not expert]
        said = iter(self.agent.decide(own) if own else ())
        return [
            self.expert.decide([request])[0] if expert else next(said)
            for request, expert in zip(requests, taught, strict=True)
        ]

    def _expert_speaks(self, request: DecisionRequest) -> bool:
        turns, now = self._turns[request.episode], request.observation.time_s
        if now >= turns.end:
            turns.expert = turns.draw.random() < self.share
            turns.end = now + turns.draw.uniform(*TURN_S)
        return turns.expert
