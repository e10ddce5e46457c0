"""The speaking expert's answers: words of the action question, and waypoints, from plans worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.closedloop.models import observation, privileged

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import RouteCommand
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.expert import ExpertPlan, observe
from closedloop_plugin.driver.agents.expert import ExpertState as State
from closedloop_plugin.driver.agents.make import answers_in_text, make_agent
from closedloop_plugin.driver.agents.planning.manoeuvre import LateralOffset
from closedloop_plugin.driver.agents.speaking_expert import PACES, STOP, SpeakingExpert, action, trajectory, travelled
from closedloop_plugin.driver.interpreters.parsing.waypoints import read_waypoints
from closedloop_plugin.driver.interpreters.rules import RuleInterpreter
from closedloop_plugin.driver.prompts.texts import PromptTexts
from lmms_eval_ad2.core.errors import Ad2Error

RULES = profile("bench2advlm")


def _plan(acceleration: float, speed: float = 5.0, target: float = 0.0, at: float = 0.0) -> ExpertPlan:
    """A plan on the straight road, `at` metres to the left of the route, with the lateral offset `target` from here."""
    request = privileged()
    assert request.truth is not None and request.road is not None
    truth = replace(request.truth, ego=replace(request.truth.ego, speed=speed, y=at))
    lateral = LateralOffset(start_s=20.0, start_d=at, target=target, length=0.1)
    return ExpertPlan(observe(truth, request.road, State()), acceleration, lateral, 5.0)


@pytest.mark.parametrize(
    ("speed", "acceleration", "pace"),
    [
        (5.0, -8.0, "Brake hard"), (5.0, -4.0, "Brake"), (5.0, -2.0, "Slow down"), (5.0, 0.0, "Keep the speed"),
        (3.0, 2.0, "Accelerate gently"), (1.0, 3.0, "Accelerate"), (0.0, 0.0, "Stop"), (0.0, -3.0, "Stop"),
        (1.5, -1.0, "Stop"), (0.0, 0.8, "Stop"), (0.0, 2.0, "Accelerate gently"),
    ],
)  # fmt: skip
def test_the_pace_is_that_of_the_planned_acceleration(speed: float, acceleration: float, pace: str) -> None:
    plan = _plan(acceleration, speed)
    assert action(plan, observation(speed=speed)) == f"{pace} and go straight."


@pytest.mark.parametrize(
    ("at", "target", "command", "direction"),
    [
        (0.0, 0.0, RouteCommand.LEFT, "turn left"), (0.0, 0.2, RouteCommand.FOLLOW, "go straight"),
        (0.0, 0.9, RouteCommand.FOLLOW, "steer slightly to the left"),
        (0.0, -3.5, RouteCommand.FOLLOW, "change lane to the right"),
        (2.0, 3.5, RouteCommand.FOLLOW, "go straight"),  # more than half a lane: the interpreter leads to its middle
        (3.4, 3.5, RouteCommand.FOLLOW, "go straight"), (3.4, 0.0, RouteCommand.FOLLOW, "change lane to the right"),
        (0.0, 0.0, RouteCommand.CHANGE_RIGHT, "change lane to the right"),
    ],
)  # fmt: skip
def test_the_direction_is_that_of_the_planned_offset(
    at: float, target: float, command: RouteCommand, direction: str
) -> None:
    plan = _plan(0.0, target=target, at=at)
    assert action(plan, observation(command=command)) == f"Keep the speed and {direction}."


def _phrases() -> Iterator[str]:
    yield from (STOP, *(phrase for phrase, _ in PACES))
    for at, target, command in ((0, 0, c) for c in RouteCommand):
        yield action(_plan(0.0, target=target, at=at), observation(command=command)).split(" and ")[1].rstrip(".")
    for target in (0.9, -0.9, 3.5, -3.5):
        yield action(_plan(0.0, target=target), observation()).split(" and ")[1].rstrip(".")


def test_every_phrase_is_on_the_list_of_the_action_question_and_none_has_a_number() -> None:
    question = DrivingPrompts(PromptTexts.load(), RULES).question("action", observation())
    listed = " ".join(re.findall(r"\(([^)]*)\)", question))
    words = re.sub(r"\s+", " ", listed)
    for phrase in _phrases():
        side = re.sub(r"to the (left|right)$", "to the left or right", phrase)
        assert side in words and not re.search(r"\d", phrase), phrase


def test_every_phrase_is_read_by_the_rules() -> None:
    interpreter = RuleInterpreter(RULES)
    for phrase in _phrases():
        interpreter.instruction(f"{phrase.capitalize()}.", observation())  # raises UnclearInstruction


def test_waypoints_follow_the_planned_acceleration_and_offset() -> None:
    """From 4 m/s at -2 m/s2: 1.75 m after 0.5 s, 3 m after 1 s, and 4 m in all; then it stands."""
    plan = _plan(-2.0, speed=4.0, target=1.0)
    points = read_waypoints(trajectory(plan))
    assert points == [(1.75, 1.0), (3.0, 1.0), (3.75, 1.0), (4.0, 1.0), (4.0, 1.0), (4.0, 1.0)]


def test_the_way_ends_at_standstill_or_at_top_speed() -> None:
    assert travelled(4.0, -2.0, 5.0, 9.0) == pytest.approx(4.0)
    assert travelled(3.0, 2.0, 5.0, 3.0) == pytest.approx(4.0 + 2 * 5.0)  # 1 s to 5 m/s, then 2 s
    assert travelled(6.0, 0.0, 5.0, 2.0) == pytest.approx(12.0)


def test_it_is_made_with_the_tasks_of_the_run_and_keeps_to_the_profiles_top_speed() -> None:
    agent = make_agent("speaking-expert", tasks=("action", "trajectory"), profile=RULES)
    assert isinstance(agent, SpeakingExpert) and agent.privileged and agent.local and agent.max_speed == 5.0
    (decision,) = agent.decide([privileged()])
    assert set(decision.texts) == {"action", "trajectory"} and decision.control is None
    assert agent.describe()["tasks"] == ["action", "trajectory"]
    assert answers_in_text("speaking-expert") and not answers_in_text("expert")
    with pytest.raises(Ad2Error, match="answers action and trajectory, not reasoning"):
        make_agent("speaking-expert", tasks=("reasoning",), profile=RULES)
