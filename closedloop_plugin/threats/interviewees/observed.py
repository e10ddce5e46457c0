"""Interviewee for drivers that do not use language: the threat is made from their drive alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.threats.base import InterviewScene
from closedloop_plugin.threats.transcript import StageAnswer

QUESTION = "not asked: a driver without words; its drive is observed"


class ObservedInterviewee:
    """A driver without language. `spec`: the value of --agent; `agent`: an instance, for its description.

    The answers only state its speed at each moment. They enter the prompt of a model fuser beside the drive's summary:
    their wording is part of the measurement.
    """

    source: Literal["said", "observed"] = "observed"

    def __init__(self, spec: str, agent: Agent) -> None:
        self.spec, self.agent = spec, agent

    def describe(self) -> dict[str, Any]:
        return {**self.agent.describe(), "spec": self.spec, "kind": "driver without words, observed"}

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        """See Interviewee.answer."""
        return [
            [
                StageAnswer(stage="perception", question=QUESTION, text="It does not answer in words."),
                StageAnswer(stage="prediction", question=QUESTION, text="It does not answer in words."),
                StageAnswer(
                    stage="planning",
                    question=QUESTION,
                    text=f"At this moment it drives at {scene.moment.speed:.1f} m/s.",
                ),
            ]
            for scene in scenes
        ]
