"""MixedDriver: turns by the seed, in the given share; the model is asked only what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.learn.collecting_drivers import MixedDriver


class CountingModel:
    """Answers with the number of its requests."""

    name, privileged, local, cameras = "model", False, False, ()

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "privileged": False}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.asked += [(request.episode, request.observation.time_s) for request in requests]
        return [Decision(texts={"action": f"model {request.episode}"}) for request in requests]


def _request(episode: str, time_s: float) -> DecisionRequest:
    def no_images(name: str) -> Any:
        raise AssertionError("it sees no image")

    return DecisionRequest(episode, Observation(0, time_s, 4.0, RouteCommand.FOLLOW, (8.0, 0.0), no_images))


def _mixed(share: float, monkeypatch: pytest.MonkeyPatch) -> MixedDriver:
    driver = MixedDriver(CountingModel(), share, profile("bench2advlm"))

    def speaks(requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [Decision(texts={"action": f"expert {request.episode}"}) for request in requests]

    monkeypatch.setattr(driver.expert, "decide", speaks)
    return driver


def _said(driver: MixedDriver, seed: int) -> list[str]:
    """What is said in two episodes at once, every 0.5 s."""
    driver.start("a", seed)
    driver.start("b", seed + 1)
    found = []
    for k in range(2000):
        for decision in driver.decide([_request("a", k / 2), _request("b", k / 2)]):
            found.append(decision.texts["action"])
    driver.end("a")
    driver.end("b")
    return found


def test_turns_follow_the_seed_and_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _mixed(0.3, monkeypatch)
    first = _said(driver, 1)
    assert first == _said(driver, 1) != _said(driver, 5)
    assert [text.split()[1] for text in first] == ["a", "b"] * 2000
    assert 0.25 < sum(text.startswith("expert") for text in first) / len(first) < 0.35
    alone = first[::2]
    changes = sum(a != b for a, b in pairwise(alone))
    assert 60 < changes < 160  # about 250 turns of 2 to 6 s, of which 2 x 0.3 x 0.7 change the speaker


def test_the_model_is_asked_only_what_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _mixed(0.5, monkeypatch)
    said = _said(driver, 1)
    assert isinstance(driver.agent, CountingModel)
    assert len(driver.agent.asked) == sum(text.startswith("model") for text in said)
    for share, speaker in ((0.0, "model"), (1.0, "expert")):
        assert {text.split()[0] for text in _said(_mixed(share, monkeypatch), 1)} == {speaker}


def test_it_names_itself_privileged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _mixed(0.5, monkeypatch).describe() == {"name": "model", "privileged": True, "expert_share": 0.5}
