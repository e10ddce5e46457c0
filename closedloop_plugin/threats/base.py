"""The two doors of making a threat: who tells (the target, in an interview), and who fuses (answers -> ThreatSpec)."""

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
    """One first frame of a route: what the car's cameras show, and what the world knows (for a witness only)."""

    route: Route
    observation: Observation
    truth: GroundTruth
    road: RoadMap
    images: tuple[np.ndarray, ...] = ()  # (H, W, 3) uint8 RGB, in the order of the cameras


class Interviewee(Protocol):
    """The target. `source`: "said" of a model, "observed" of a driver without words, about whom we report."""

    source: Literal["said", "observed"]

    def tell(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        """For each route its first frames (one or more); for each the answers at transcript.STAGES, in order. A model's
        failure is an Answer with an error, and the stages after it are not asked (error "not asked")."""
        ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ThreatRequest:
    """A scenario that is wanted: the route's interview, and the attempts that failed before, with their verdicts."""

    transcript: ThreatTranscript
    number: int  # of the attempt, from 0
    seed: int
    images: tuple[np.ndarray, ...] = ()  # the interview's frames


class Fuser(Protocol):
    """Three answers -> one threat description -> a ThreatSpec that fits the site."""

    name: str

    def make(self, wishes: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """One Attempt a wish, in order: with a spec for which site.fit finds nothing wrong, or with `refused`. A
        model's failure is a refused Attempt, not an exception; Ad2Error only for what the user must mend."""
        ...

    def describe(self) -> dict[str, Any]: ...
