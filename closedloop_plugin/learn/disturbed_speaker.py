"""DisturbedSpeaker: the speaking expert, whose words are wrong for some seconds at a time.

A model that learned from good drives only is lost where its own words first lead it: it stands on a free road, too near
an obstacle or between two lanes. Random words lead there without a model, and the labels say how to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.speaking_expert import DIRECTIONS, SpeakingExpert

WRONG = 0.4  # share of the turns
TURN_S = (1.0, 5.0)  # length of a turn
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
    """See the head of this file. It needs an interpreter."""

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
            turn.end = now + turn.draw.uniform(*TURN_S)
        if turn.pace is None or decision.error is not None:
            return decision
        text = f"{turn.pace.capitalize()} and {turn.aside or DIRECTIONS[request.observation.command]}."
        return replace(decision, texts={"action": text}, thought={**decision.thought, "disturbed": "words"})
