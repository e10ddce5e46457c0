"""DisturbedSpeaker: wrong words in turns by the seed, in the given share, marked; the expert's words between."""

from __future__ import annotations

from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.speaking_expert import SpeakingExpert
from closedloop_plugin.driver.interpreters.parsing.instruction import parse_instruction
from closedloop_plugin.learn.collecting_drivers import ASIDE, PACES, DisturbedSpeaker

RIGHT = "Keep the speed and turn left."


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> DisturbedSpeaker:
    monkeypatch.setattr(
        SpeakingExpert, "decide", lambda self, requests: [Decision(texts={"action": RIGHT}) for _ in requests]
    )
    return DisturbedSpeaker(profile("bench2advlm"))


def _request(time_s: float) -> DecisionRequest:
    def no_images(name: str) -> Any:
        raise AssertionError("it sees no image")

    return DecisionRequest("e", Observation(0, time_s, 4.0, RouteCommand.LEFT, (8.0, 0.0), no_images))


def _said(driver: DisturbedSpeaker, seed: int) -> list[Decision]:
    driver.start("e", seed)
    found = [driver.decide([_request(k / 2)])[0] for k in range(4000)]
    driver.end("e")
    return found


def test_wrong_words_are_reproducible_and_marked(driver: DisturbedSpeaker) -> None:
    first, again, other = (_said(driver, seed) for seed in (1, 1, 2))
    assert first == again != other
    wrong = [decision for decision in first if decision.thought.get("disturbed") == "words"]
    assert 0.3 < len(wrong) / len(first) < 0.5
    assert all(decision.texts == {"action": RIGHT} for decision in first if not decision.thought)


def test_all_words_are_on_the_list_and_most_keep_to_the_route(driver: DisturbedSpeaker) -> None:
    said = [d.texts["action"].rstrip(".").lower().split(" and ") for d in _said(driver, 3) if d.thought]
    assert {pace for pace, _ in said} == set(PACES)
    assert {way for _, way in said} == {*ASIDE, "turn left"}
    assert 0.6 < sum(way == "turn left" for _, way in said) / len(said) < 0.9
    for pace, way in said:
        parse_instruction(f"{pace} and {way}")  # raises UnclearInstruction
