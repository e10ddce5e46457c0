"""The Agent protocol. Contract: tests/contracts/test_agents.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Control, Decision, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap


@dataclass(frozen=True)
class PastDecision:
    """An earlier decision of the same episode. Nothing in it is privileged."""

    observation: Observation  # as then; `images` has the cameras of the agent, (H, W, 3) uint8 RGB
    decision: Decision
    control: Control | None  # of the last step before the next decision, so after post-processing; None: not known


@dataclass(frozen=True)
class DecisionRequest:
    """Request of one episode for a decision. `truth` and `road` are set only for a privileged agent."""

    episode: str  # unique key, under which an agent may keep state between start and end
    observation: Observation
    truth: GroundTruth | None = None
    road: RoadMap | None = None
    applied: Control | None = None  # control of the step to this tick; None before the first step, or if not known
    history: tuple[PastDecision, ...] = ()  # the last decisions, at most --config history=N, the earliest first


class Agent(Protocol):
    """The fast system: from an observation to a decision."""

    name: str  # in tables, e.g. "expert (privileged)", "lmms:qwen2_5_vl"
    privileged: bool  # uses ground truth
    local: bool  # True: cheap, no model; one instance per world process. False: one in the parent process
    cameras: tuple[Camera, ...]  # that it needs
    # Optional, see is_concurrent:
    # concurrent: bool = False  # calls may come from several threads at once, so that each request is answered alone

    def start(self, episode: str, seed: int) -> None: ...

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """One Decision per request, in order. A failure of the model is Decision(error=...), not an exception."""
        ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Name, model, model_args, hash of the prompts, tasks; part of every result."""
        ...


def is_concurrent(system: object) -> bool:
    """Whether a fast or slow system, or a model, takes calls from several threads at once, as an endpoint does.

    If not (the default), it is called in one thread, with all requests that wait.
    """
    return bool(getattr(system, "concurrent", False))
