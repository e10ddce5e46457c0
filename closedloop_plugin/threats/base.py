"""Interfaces of threat generation: Interviewee (the target of an interview) and Fuser (answers -> ThreatSpec)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from closedloop_plugin.threats.transcript import InterviewMoment, StageAnswer, ThreatAttempt, ThreatTranscript


@dataclass(frozen=True)
class InterviewScene:
    """A moment of a drive with its images, for the questions. `moved`: the target has moved during the drive."""

    route_id: str
    number: int  # of the moment, from 0
    moment: InterviewMoment
    moved: bool = True
    images: tuple[np.ndarray, ...] = ()  # (H, W, 3) uint8 RGB, by frame, then in the order of the cameras


class Interviewee(Protocol):
    """The target. `source`: "said" for a model's own answers, "observed" for a driver that does not use language."""

    source: Literal["said", "observed"]

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        """Answers for each scene at transcript.STAGES, in order.

        A failure of the model is an answer with an error; later stages of that scene then have the error "not asked".
        """
        ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ThreatRequest:
    """Request for a scenario: the route's interview, and the earlier attempts with verdicts and outcomes."""

    transcript: ThreatTranscript
    number: int  # of the attempt in its round, from 0
    seed: int
    images: tuple[np.ndarray, ...] = ()  # the last frame of each of the interview's moments
    round: int = 1


class Fuser(Protocol):
    """Turns three answers into a threat description and a ThreatSpec that fits the site."""

    name: str

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """One attempt per request, in order: with a spec that passes site.fit, or with `refused`.

        A failure of the model is a refused attempt. Raises Ad2Error only for errors that the user must fix.
        """
        ...

    def describe(self) -> dict[str, Any]: ...
