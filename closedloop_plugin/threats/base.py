"""Interfaces of threat generation: Interviewee (the target of an interview) and Fuser (answers -> ThreatSpec)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.threats.transcript import StageAnswer, ThreatAttempt, ThreatTranscript


@dataclass(frozen=True)
class InterviewFrame:
    """A frame at the start of a route: camera images and, for observed drivers only, the ground truth."""

    route: Route
    observation: Observation
    truth: GroundTruth
    road: RoadMap
    images: tuple[np.ndarray, ...] = ()  # (H, W, 3) uint8 RGB, in the order of the cameras


class Interviewee(Protocol):
    """The target. `source`: "said" for a model's own answers, "observed" for a driver that does not use language."""

    source: Literal["said", "observed"]

    def answer(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        """Answers of each route at transcript.STAGES, in order. `scenes`: one or more frames per route.

        A failure of the model is an answer with an error; later stages of that route then have the error "not asked".
        """
        ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ThreatRequest:
    """Request for a scenario: the route's interview and the failed earlier attempts with their verdicts."""

    transcript: ThreatTranscript
    number: int  # of the attempt, from 0
    seed: int
    images: tuple[np.ndarray, ...] = ()  # the interview's frames


class Fuser(Protocol):
    """Turns three answers into a threat description and a ThreatSpec that fits the site."""

    name: str

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """One attempt per request, in order: with a spec that passes site.fit, or with `refused`.

        A failure of the model is a refused attempt. Raises Ad2Error only for errors that the user must fix.
        """
        ...

    def describe(self) -> dict[str, Any]: ...
