"""The Agent protocol. Contract: tests/contracts/test_agents.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Decision, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap


@dataclass(frozen=True)
class DecisionRequest:
    """Request of one episode for a decision. `truth` and `road` are set only for a privileged agent."""

    episode: str  # unique key, under which an agent may keep state between start and end
    observation: Observation
    truth: GroundTruth | None = None
    road: RoadMap | None = None


class Agent(Protocol):
    """The fast system: from an observation to a decision."""

    name: str  # in tables, e.g. "expert (privileged)", "lmms:qwen2_5_vl"
    privileged: bool  # uses ground truth
    local: bool  # True: cheap, no model; one instance per world process. False: one in the parent process, batched
    cameras: tuple[Camera, ...]  # that it needs

    def start(self, episode: str, seed: int) -> None: ...

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """One Decision per request, in order. A failure of the model is Decision(error=...), not an exception."""
        ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Name, model, model_args, hash of the prompts, tasks; part of every result."""
        ...
