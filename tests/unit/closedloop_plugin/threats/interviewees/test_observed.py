"""Interviews of drivers without a language model: answers derived from their behaviour."""

from __future__ import annotations

import pytest
from support.threats.threat_requests import interview_frame

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.threats.factories import make_interviewee
from closedloop_plugin.threats.interviewees.observed import ObservedInterviewee
from lmms_eval_ad2.errors import Ad2Error

pytestmark = pytest.mark.integration

RULES = profile("bench2advlm")
TEXTS = PromptTexts.load(None, "threats")


def observed(driver: str) -> list[str]:
    interviewee = make_interviewee(driver, texts=TEXTS, cache=None, seed=0, profile=RULES, cameras=())
    assert isinstance(interviewee, ObservedInterviewee) and interviewee.source == "observed"
    return [a.text for a in interviewee.answer([[interview_frame()]])[0]]


def test_the_expert_reacts_predicts_and_steers() -> None:
    perception, prediction, planning = observed("expert")
    assert "It sees vehicles, cyclists, pedestrians, animals and things on the road" in perception
    assert (
        "a car 25 m ahead in its lane, standing" in perception and "a child 15 m ahead 4 m to the right" in perception
    )
    assert "It reacts to a pedestrian who is about to cross" in prediction and "close behind it" in prediction
    assert "brakes" in planning and "It will go on along the road." in planning


@pytest.mark.parametrize("driver", ["still", "straight", "random", "steer-only"])
def test_blind_drivers_are_recognised(driver: str) -> None:
    perception, prediction, _ = observed(driver)
    assert perception.startswith("It looks at nobody") and "It does not look at a car 25 m ahead" in perception
    assert prediction.startswith("It expects nothing of others.") and "It reacts" not in prediction
    assert ("It follows the line of its lane." in perception) == (driver == "steer-only")


def test_observed_answers_differ_between_drivers() -> None:
    answers = {
        driver: tuple(observed(driver))
        for driver in ("expert", "still", "straight", "random", "steer-only", "speed-only")
    }
    assert len(set(answers.values())) == 6
    assert "does not accelerate" in answers["still"][2] and "a matter of chance" in answers["random"][2]
    assert (
        "It does not look at the lane." in answers["speed-only"][0] and "It sees vehicles" in answers["speed-only"][0]
    )


def test_probing_does_not_change_the_driver() -> None:
    agent = make_agent("expert")
    assert ObservedInterviewee("expert", agent).answer([[interview_frame()]])[0][0].question.startswith("observed: ")
    assert agent._states == {}  # type: ignore[attr-defined]


def test_an_unknown_driver_is_refused_at_the_start() -> None:
    with pytest.raises(Ad2Error, match="no agent 'expret'; did you mean 'expert'"):
        make_interviewee("expret", texts=TEXTS, cache=None, seed=0, profile=RULES, cameras=())
