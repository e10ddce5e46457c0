"""MixedDriver: a driver in words and the speaking expert take turns.

An untrained driver stops or leaves the road soon, and all frames of its drives are alike. Where the expert speaks for
some seconds, the next error happens elsewhere (beta of DAgger, Ross et al. 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents.speaking_expert import SpeakingExpert

TURN_S = (2.0, 6.0)  # length of a turn


@dataclass
class DriverTurns:
    """Who speaks in one episode, until `end` s."""

    draw: Random
    expert: bool = False
    end: float = 0.0


class MixedDriver:
    """`agent`, in whose place the expert answers in a `share` (0 to 1) of the turns. It is called in this process."""

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
