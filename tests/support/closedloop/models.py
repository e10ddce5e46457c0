"""Observations, decision requests and fake models for the tests of agents and interpreters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, ActorKind, Decision, GroundTruth, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.maps.base import RoadMap, RouteSection

PNG_SIZE = (45, 80, 3)


def picture(name: str) -> np.ndarray:
    """An image with a dark lower half (road) and a light upper half (sky); the camera name sets the blue."""
    image = np.full(PNG_SIZE, 60, np.uint8)
    image[:22] = (150, 190, sum(map(ord, name)) % 256)
    return image


def observation(
    speed: float = 3.0,
    command: RouteCommand = RouteCommand.FOLLOW,
    target=(10.0, 0.0),
    tick: int = 4,
    route_offset: float | None = None,
) -> Observation:
    return Observation(tick, tick * 0.05, speed, command, target, picture, 13.9, route_offset)


def decision_request(episode: str = "e0", **known: Any) -> DecisionRequest:
    return DecisionRequest(episode, observation(**known))


def privileged(episode: str = "e0") -> DecisionRequest:
    """A request with ground truth, on an empty straight road of 200 m, 20 m from its start."""
    path = RoutePath([(0.0, 0.0), (200.0, 0.0)])
    road = RoadMap(Path("none.xodr"), "corridor", "T", "0" * 64, path, (RouteSection(0.0, 200.0, "invented"),))
    ego = Actor(
        id="ego", kind=ActorKind.CAR, x=20.0, y=0.0, yaw=0.0, speed=5.0, length=4.5, width=1.9, height=1.5, role="ego"
    )
    return DecisionRequest(episode, observation(speed=5.0), GroundTruth(4, 0.2, ego), road)


def decision_of(**texts: str) -> Decision:
    return Decision(texts)


class FakeModel:
    """A ModelBackend that answers by a function of the question (text or ModelReply). `calls`: batches of questions."""

    def __init__(self, answer: Callable[[ModelQuestion], str | ModelReply], name: str = "fake") -> None:
        self.answer, self.name = answer, name
        self.calls: list[list[ModelQuestion]] = []

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        self.calls.append(list(questions))
        answers = [self.answer(q) for q in questions]
        return [a if isinstance(a, ModelReply) else ModelReply(a, seconds=0.25) for a in answers]

    def describe(self) -> dict[str, Any]:
        return {"backend": "fake", "model": self.name}
