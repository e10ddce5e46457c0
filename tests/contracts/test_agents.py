"""Contract tests that every Agent must pass."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from support.closedloop.models import FakeModel, decision_request, privileged

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.history import with_history
from closedloop_plugin.driver.agents.make import BUILT_IN, cameras_of, make_agent
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.agents.model_backend import ModelReply
from closedloop_plugin.driver.prompts.texts import PromptTexts
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration

RULES = profile("bench2advlm")


def _model_agent(model: FakeModel, fine_grained: str = "off") -> ModelAgent:
    cameras = cameras_of("front@80x45", RULES)
    return ModelAgent(model, DrivingPrompts(PromptTexts.load(), RULES), cameras, ("action", "threat"), fine_grained)


@pytest.fixture(params=[*BUILT_IN, "talker", "talker with suffixes", "talker with a history", "failing talker",
                        "endpoint"])  # fmt: skip
def agent(request: pytest.FixtureRequest):
    name = request.param
    if name in BUILT_IN:
        module = f"closedloop_plugin.driver.agents.{BUILT_IN[name][0]}"
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not there")
        yield make_agent(name)
    elif name == "endpoint":
        with serve(reply="Slow down.") as server:
            yield make_agent(f"endpoint:m@{server.url}", cameras="front@80x45")
    else:
        answer = ModelReply(error="timeout") if name.startswith("failing") else "Slow down with speed = 0.5"
        model = _model_agent(FakeModel(lambda q: answer), "question" if "suffixes" in name else "off")
        yield with_history(model, 2 if name.endswith("history") else 0)


def test_it_has_the_attributes_that_the_runner_reads(agent: Agent) -> None:
    assert isinstance(agent.name, str) and agent.name
    assert isinstance(agent.privileged, bool) and isinstance(agent.local, bool)
    assert all(c.width > 0 and c.height > 0 for c in agent.cameras)
    assert ("privileged" in agent.name) == agent.privileged


def test_decide_returns_one_decision_per_request_in_order(agent: Agent) -> None:
    requests = [privileged(f"e{i}") for i in range(3)]
    for request in requests:
        agent.start(request.episode, 7)
    decisions = agent.decide(requests)
    assert len(decisions) == 3
    for decision in decisions:
        assert decision.error is not None or decision.control is not None or decision.texts
        assert decision.latency_s >= 0
        if decision.control is not None:
            decision.control.checked()
            assert np.isfinite([decision.control.steer, decision.control.throttle, decision.control.brake]).all()
        assert all(isinstance(t, str) for t in decision.texts.values())
        json.dumps(dict(decision.thought), default=str)
    for request in requests:
        agent.end(request.episode)


def test_no_requests_give_no_decisions(agent: Agent) -> None:
    assert agent.decide([]) == []


def test_equal_seeds_and_observations_give_equal_decisions(agent: Agent) -> None:
    def run() -> list:
        agent.start("same", 3)
        decisions = [agent.decide([privileged("same")])[0] for _ in range(4)]
        agent.end("same")
        return [(d.control, dict(d.texts), d.error) for d in decisions]

    assert run() == run()


def test_missing_ground_truth_gives_an_error_decision_not_an_exception(agent: Agent) -> None:
    if not agent.privileged:
        pytest.skip("looks at no truth")
    agent.start("blind", 1)
    (decision,) = agent.decide([decision_request("blind")])
    assert decision.error and decision.control is None


def test_an_episode_that_never_started_can_end(agent: Agent) -> None:
    agent.end("unknown")


def test_description_is_json_serializable(agent: Agent) -> None:
    description = agent.describe()
    assert description["name"] == agent.name
    assert json.loads(json.dumps(description)) == description
