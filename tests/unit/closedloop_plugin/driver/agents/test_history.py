"""AgentWithHistory: what requests contain, when it is discarded, and how much is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.closedloop.models import decision_request, privileged

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Control, Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.history import MOST, AgentWithHistory, with_history
from closedloop_plugin.driver.prompts.texts import BOUNDS
from lmms_eval_ad2.core.errors import Ad2Error

FRONT = Camera("front", 8, 4, 70.0, 0.8, 0.0, 1.6)


class RecordingAgent:
    """Answers with the request's tick, or as `failing` says. `seen`: all requests."""

    name, privileged, local = "recording", False, False

    def __init__(self, cameras: tuple[Camera, ...] = (FRONT,)) -> None:
        self.cameras, self.failing = cameras, False
        self.seen: list[DecisionRequest] = []
        self.episodes: list[str] = []

    def start(self, episode: str, seed: int) -> None:
        self.episodes.append(f"start {episode} {seed}")

    def end(self, episode: str) -> None:
        self.episodes.append(f"end {episode}")

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.seen += requests
        if self.failing:
            raise RuntimeError("lost")
        return [Decision({"action": f"said at {request.observation.tick}"}) for request in requests]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


def at(tick: int, episode: str = "e0", throttle: float | None = None) -> DecisionRequest:
    """A request whose front image, and the control applied before, depend on the tick."""
    request = decision_request(episode, tick=tick)
    image = np.full((4, 8, 3), tick, np.uint8)
    applied = None if throttle is None else Control(0.0, throttle, 0.0)
    return replace(request, observation=replace(request.observation, images=lambda name: image), applied=applied)


def ticks(request: DecisionRequest) -> list[int]:
    return [past.observation.tick for past in request.history]


def test_a_request_has_the_last_decisions_with_their_frames_answers_and_controls() -> None:
    inner = RecordingAgent()
    agent = with_history(inner, 2)
    agent.start("e0", 7)
    for tick, throttle in ((0, None), (2, 0.1), (4, 0.2), (6, 0.3)):
        agent.decide([at(tick, throttle=throttle)])
    assert [ticks(request) for request in inner.seen] == [[], [0], [0, 2], [2, 4]]
    last = inner.seen[-1].history
    assert [past.decision.texts["action"] for past in last] == ["said at 2", "said at 4"]
    assert [past.control for past in last] == [Control(0.0, 0.2, 0.0), Control(0.0, 0.3, 0.0)]  # that followed
    assert [int(past.observation.images("front")[0, 0, 0]) for past in last] == [2, 4]
    assert inner.episodes == ["start e0 7"]


def test_frames_are_copies_of_the_agents_cameras_only() -> None:
    inner = RecordingAgent()
    agent = with_history(inner, 1)
    first = at(0)
    agent.decide([first])
    first.observation.images("front")[:] = 99
    agent.decide([at(2)])
    (past,) = inner.seen[1].history
    assert past.observation.images("front").max() == 0
    with pytest.raises(Ad2Error, match="no image of camera 'back'"):
        past.observation.images("back")


def test_a_history_belongs_to_one_episode_from_its_start_to_its_end() -> None:
    inner = RecordingAgent()
    agent = with_history(inner, 3)
    for episode in ("a", "b"):
        agent.start(episode, 1)
    agent.decide([at(0, "a"), at(10, "b")])
    agent.decide([at(12, "b"), at(2, "a")])
    assert [ticks(request) for request in inner.seen[2:]] == [[10], [0]]
    agent.end("a")
    agent.start("b", 1)  # again, as after a world that was lost
    agent.decide([at(0, "a"), at(0, "b")])
    assert [ticks(request) for request in inner.seen[4:]] == [[], []]


def test_a_repeated_request_and_a_failed_call_leave_no_decision_behind() -> None:
    inner = RecordingAgent()
    agent = with_history(inner, 2)
    for tick in (0, 2, 4, 4):
        agent.decide([at(tick)])
    assert [ticks(request) for request in inner.seen[2:]] == [[0, 2], [0, 2]]
    inner.failing = True
    with pytest.raises(RuntimeError, match="lost"):
        agent.decide([at(6)])
    inner.failing = False
    agent.decide([at(8)])
    assert ticks(inner.seen[-1]) == [2, 4]


def test_the_history_of_a_privileged_request_has_no_truth() -> None:
    inner = RecordingAgent(cameras=())
    agent = with_history(inner, 1)
    for tick in (0, 2):
        request = privileged()
        agent.decide([replace(request, observation=replace(request.observation, tick=tick))])
    (past,) = inner.seen[1].history
    assert inner.seen[1].truth is not None and set(vars(past)) == {"observation", "decision", "control"}
    assert set(vars(past.observation)) == set(vars(request.observation))


def test_above_the_limit_the_episode_that_asked_least_recently_gets_errors_until_it_starts_again() -> None:
    inner = RecordingAgent()
    agent = AgentWithHistory(inner, 1, most_bytes=5 * 8 * 4 * 3)  # five frames
    for tick in (0, 2):
        assert not any(d.error for d in agent.decide([at(tick, "a"), at(tick, "b")]))
    agent.decide([at(0, "c")])  # the fifth
    agent.decide([at(2, "c")])  # the sixth
    first, second = agent.decide([at(4, "a"), at(4, "b")])
    assert first.error and "history was dropped" in first.error and second.error is None
    assert ticks(inner.seen[-1]) == [2] and inner.seen[-1].episode == "b"
    agent.end("c")
    agent.start("a", 1)
    assert agent.decide([at(0, "a")])[0].error is None


def test_an_agent_is_not_called_when_all_histories_were_dropped() -> None:
    batches: list[int] = []
    inner = RecordingAgent()
    answer = inner.decide
    inner.decide = lambda requests: batches.append(len(requests)) or answer(requests)  # type: ignore[method-assign,func-returns-value]
    agent = AgentWithHistory(inner, 1, most_bytes=8 * 4 * 3)  # one frame
    agent.decide([at(0, "a"), at(0, "b")])
    (decision,) = agent.decide([at(2, "a")])
    assert decision.error and "history was dropped" in decision.error
    assert batches == [2]


def test_a_wrong_number_of_decisions_is_passed_on() -> None:
    inner = RecordingAgent()
    inner.decide = lambda requests: []  # type: ignore[method-assign,assignment]
    assert with_history(inner, 1).decide([at(0)]) == []


def test_no_history_is_the_agent_itself_and_a_length_out_of_bounds_is_refused() -> None:
    inner = RecordingAgent()
    assert with_history(inner, 0) is inner
    assert with_history(inner, 3).describe() == {"name": "recording", "history": 3}
    for length in (-1, MOST + 1):
        with pytest.raises(Ad2Error, match=f"--config history={length}: from 0 to 64"):
            with_history(inner, length)
    with pytest.raises(Ad2Error, match=r"12\.2 GiB per episode, and at most 4 GiB"):
        with_history(RecordingAgent((replace(FRONT, width=8192, height=8192),)), MOST)


def test_a_file_of_prompts_can_ask_for_as_many_frames_as_are_kept() -> None:
    assert BOUNDS["driving"]["frames"] == (1, MOST + 1)
