"""The expert and the baselines in the embedded world, on the demo routes: differences that a benchmark must show."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("scenic")

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents import baselines
from closedloop_plugin.driver.agents.expert import ExpertDriver
from closedloop_plugin.scenarios.suites.lookup import DEMO
from closedloop_plugin.scoring.referee.referee import Referee, RefereeOutcome
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

pytestmark = pytest.mark.integration

ROUTES = {r.scenario: r for r in read_routes(DEMO)}


def drive(agent: Agent, scenario: str, folder: Path, max_ticks: int = 1400) -> tuple[RefereeOutcome, list[str]]:
    """One episode with an agent in process; the referee's outcome and the scenario's events."""
    world, route = EmbeddedWorld(folder), ROUTES[scenario]
    observation = world.reset(EpisodeSetup(route, seed=3))
    referee = Referee(profile("bench2drive"), world.road, route)
    agent.start("e", 3)
    try:
        while referee.tick(world.truth()) is None and observation.tick < max_ticks:
            truth, road = (world.truth(), world.road) if agent.privileged else (None, None)
            (decision,) = agent.decide([DecisionRequest("e", observation, truth, road)])
            assert decision.control is not None, decision.error
            observation = world.step(decision.control.checked())
        return referee.outcome(), [name for _, name in world.truth().events]
    finally:
        agent.end("e")
        world.close()


@pytest.mark.parametrize("scenario", ["ParkedObstacle", "DynamicObjectCrossing", "SignalizedJunctionRightTurn"])
def test_the_expert_survives_what_the_blind_driver_hits(scenario: str, tmp_path: Path) -> None:
    good, events = drive(ExpertDriver(), scenario, tmp_path)
    assert {"trigger", "act"} <= set(events), "the scenario was met"
    assert (good.score_route, good.score_penalty) == (100, 1), good.infractions
    blind, _ = drive(baselines.SteerOnlyDriver(), scenario, tmp_path)
    assert blind.infractions["collisions_vehicle"] or blind.infractions["collisions_pedestrian"]


def test_baselines_drive_as_their_names_say(tmp_path: Path) -> None:
    still, _ = drive(baselines.StationaryDriver(), "ParkedObstacle", tmp_path, max_ticks=100)
    assert still.score_route < 5
    straight, _ = drive(baselines.StraightDriver(), "SignalizedJunctionRightTurn", tmp_path, max_ticks=600)
    assert straight.score_route < 90, "it does not turn"
    one, _ = drive(baselines.RandomDriver(), "ParkedObstacle", tmp_path, max_ticks=200)
    two, _ = drive(baselines.RandomDriver(), "ParkedObstacle", tmp_path, max_ticks=200)
    assert one == two, "random, but seeded"


def test_exactly_the_privileged_drivers_are_declared_privileged() -> None:
    for agent in (ExpertDriver(), baselines.SteerOnlyDriver(), baselines.SpeedOnlyDriver()):
        assert "privileged" in agent.name
        assert agent.describe()["privileged"] is True
    assert not any(
        a().privileged for a in (baselines.StationaryDriver, baselines.StraightDriver, baselines.RandomDriver)
    )
