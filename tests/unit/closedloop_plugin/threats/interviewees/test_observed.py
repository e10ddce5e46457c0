"""Interviews of drivers without a language model: answers derived from their behaviour."""

from __future__ import annotations

import pytest
from support.threats.threat_requests import driven_state, scene

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.threats.base import Interviewee
from closedloop_plugin.threats.factories import make_interviewee
from closedloop_plugin.threats.interviewees.observed import AHEAD_M, STANDING, DriverObserver
from closedloop_plugin.threats.transcript import StageAnswer

pytestmark = pytest.mark.integration

RULES = profile("bench2advlm")
TEXTS = PromptTexts.load(None, "threats")


def driver_setup(spec: str) -> DriverSetup:
    recipe = FactoryRecipe("closedloop_plugin.agents.make:make_agent", {"spec": spec})
    return DriverSetup(make_agent(spec), agent_recipe=recipe)


def interviewee_of(spec: str, driver: DriverSetup | None = None) -> Interviewee:
    return make_interviewee(
        spec, driver=driver or driver_setup(spec), texts=TEXTS, cache=None, seed=0, profile=RULES, cameras=()
    )


def observed(driver: str) -> list[str]:
    interviewee = interviewee_of(driver)
    assert interviewee.source == "observed" and interviewee.observer is not None
    answers, _ = interviewee.observer.make().observe(driven_state())
    return [a.text for a in answers]


def test_the_expert_reacts_predicts_and_steers() -> None:
    perception, prediction, planning = observed("expert")
    assert "At 5 m/s it reacts to vehicles" in perception and "things on the road" in perception
    assert (
        "a car 25 m ahead in its lane, standing" in perception and "a child 15 m ahead 4 m to the right" in perception
    )
    assert "It reacts to a pedestrian who is about to cross" in prediction and "close behind it" in prediction
    assert "brakes" in planning and "It will go on along the road." in planning


def test_reactions_are_measured_at_the_speed_of_the_state() -> None:
    _, reactions = DriverObserver(driver_setup("expert").agent_recipe).observe(driven_state())
    assert reactions.speed == 5.0 and set(reactions.distances) == set(STANDING)
    assert all(d is not None and d in AHEAD_M for d in reactions.distances.values())
    _, blind = DriverObserver(driver_setup("steer-only").agent_recipe).observe(driven_state())
    assert set(blind.distances.values()) == {None} and not any(blind.moving.values())


def test_a_driver_that_cannot_be_probed_is_reported_so() -> None:
    in_words = interviewee_of("speaking-expert", DriverSetup(make_agent("speaking-expert")))
    assert "not probed" in in_words.describe()["kind"]
    answers, reactions = in_words.observer.make().observe(driven_state())  # type: ignore[union-attr]
    assert "At this moment it drives at 5.0 m/s." in answers[2].text and reactions.distances == {}


def test_the_answers_of_the_drive_are_returned() -> None:
    written = [StageAnswer(stage="perception", question="q", text="It looks at nobody")]
    assert interviewee_of("still").answer([scene(answers=written)]) == [written]


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
        "It does not look at the lane." in answers["speed-only"][0]
        and "it reacts to vehicles" in answers["speed-only"][0]
    )
