"""A driver without words: it is not asked, and its answers state only its speed."""

from __future__ import annotations

import pytest
from support.threats.threat_requests import scene

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.threats.factories import make_interviewee
from closedloop_plugin.threats.transcript import STAGES, InterviewMoment, InterviewRecord


@pytest.mark.parametrize("driver", ["steer-only", "expert", "speaking-expert"])
def test_the_answers_have_the_speed_of_their_moment_and_nothing_else(driver: str) -> None:
    interviewee = make_interviewee(
        f" {driver} ", driver=DriverSetup(make_agent(driver)), texts=PromptTexts.load(None, "threats"), cache=None,
        seed=0, profile=profile("bench2advlm"), cameras=(),
    )  # fmt: skip
    assert interviewee.source == "observed"
    assert interviewee.describe() | {"spec": driver, "kind": "driver without words, observed"} == interviewee.describe()
    first, second = interviewee.answer([scene("101"), scene("102", speed=0.0)])
    assert tuple(answer.stage for answer in first) == STAGES
    assert [a.text for a in first] == ["It does not answer in words."] * 2 + ["At this moment it drives at 5.0 m/s."]
    assert second[2].text == "At this moment it drives at 0.0 m/s."
    assert InterviewRecord(agent={}, source="observed", moments=[InterviewMoment(answers=first)]).complete


def test_a_transcript_with_reactions_to_probes_can_be_read() -> None:
    probed = {"speed": 8.0, "reactions": {"speed": 8.0, "distances": {"animals": None}, "moving": {}, "lights": None}}
    assert InterviewMoment.model_validate(probed) == InterviewMoment(speed=8.0)
