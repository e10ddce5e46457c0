"""The Agent. Its contract: tests/contracts/test_agents.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Decision, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap


@dataclass(frozen=True)
class DecisionRequest:
    """One waiting episode's question. `truth` and `road` are filled only for an agent with `privileged`."""

    episode: str  # unique key: an agent may keep state by it between start and end
    observation: Observation
    truth: GroundTruth | None = None
    road: RoadMap | None = None


class Agent(Protocol):
    name: str  # as it stands in tables, e.g. "expert (privileged)", "lmms:qwen2_5_vl"
    privileged: bool
    local: bool  # True: cheap, no model; built anew in each world process. False: one, in the parent, batched
    cameras: tuple[Camera, ...]  # which it wants; () for none

    def start(self, episode: str, seed: int) -> None: ...

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        """One Decision an ask, in order. A model's failure is Decision(error=...), not an exception."""
        ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Name, model, model_args, prompts' hash, tasks: goes into every result."""
        ...
