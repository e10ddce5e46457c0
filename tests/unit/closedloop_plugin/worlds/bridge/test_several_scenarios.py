"""Routes with no scenario, an unknown one, or several: one scene with the actors of all that are played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import RouteScenario
from closedloop_plugin.core.state import Control, StopLine
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.program_setup import not_played, program_of, stage_for
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

pytestmark = pytest.mark.integration

BLOCKED = suite("demo").routes[0]
SECOND = (BLOCKED.points[-1][0] - 30.0, BLOCKED.points[-1][1], BLOCKED.trigger[2])


def with_scenarios(*scenarios: RouteScenario) -> EpisodeSetup:
    route = replace(BLOCKED, scenario="", scenario_name="", params={}, scenarios=scenarios)
    if len(scenarios) == 1:
        only = scenarios[0]
        route = replace(route, scenario=only.kind, scenario_name=only.name, params=dict(only.params))
    return EpisodeSetup(route, seed=3, traffic=False)


AT_START = (*BLOCKED.points[2], BLOCKED.trigger[2])
FIRST = RouteScenario("ParkedObstacle", "P_1", AT_START, {"distance": 40.0})
LATER = RouteScenario("ControlLoss", "C_1", SECOND, {})
UNKNOWN = RouteScenario("RoadBlocked", "R_1", BLOCKED.trigger, {"objects": {"a": "id=x"}})


@pytest.mark.parametrize("scenarios", [(), (UNKNOWN,)])
def test_a_route_without_a_program_is_driven_alone(tmp_path: Path, scenarios: tuple[RouteScenario, ...]) -> None:
    world = EmbeddedWorld(tmp_path)
    world.reset(with_scenarios(*scenarios))
    assert world.truth().actors == () and world.done is None
    assert dict(world.not_played) == ({"R_1": "no program for scenario type 'RoadBlocked'"} if scenarios else {})
    for _ in range(3):
        world.step(Control(throttle=0.5))
    world.close()


def test_all_known_scenarios_of_a_route_are_in_one_scene_with_their_own_places_and_events(tmp_path: Path) -> None:
    setup = with_scenarios(FIRST, LATER, UNKNOWN)
    layout, program = program_of(setup)
    road = road_for(setup.route, layout, folder=tmp_path)  # type: ignore[arg-type]
    stage = stage_for(setup, road)
    assert program.name == "route.scenic" and list(not_played(setup, road)) == ["R_1"]
    assert [(one.kind, one.label, one.params) for one in stage.parts] == [
        ("ParkedObstacle", "P_1", {"distance": 40.0}), ("ControlLoss", "C_1", {})
    ]  # fmt: skip
    assert stage.parts[1].trigger_s == pytest.approx(road.path.locate(*SECOND[:2])[0])
    world = EmbeddedWorld(tmp_path)
    world.reset(setup)
    kinds = {str(actor.kind) for actor in world.truth().actors}
    assert {"car", "debris"} <= kinds
    for _ in range(10):
        world.step(Control(throttle=0.4))
    assert "P_1 trigger" in {name for _, name in world.truth().events}
    world.close()


def test_one_known_scenario_beside_unknown_ones_is_in_the_scene_near_its_trigger(tmp_path: Path) -> None:
    setup = with_scenarios(UNKNOWN, FIRST)
    layout, program = program_of(setup)
    road = road_for(setup.route, layout, folder=tmp_path)  # type: ignore[arg-type]
    (part,) = stage_for(setup, road).parts
    assert (program.name, part.kind, part.label, part.params) == (
        "route.scenic", "ParkedObstacle", "P_1", {"distance": 40.0}
    )  # fmt: skip
    part.ego_s = part.trigger_s - 151.0
    assert not part.in_scene


def test_a_junction_that_does_not_lie_ahead_leaves_its_scenario_out(tmp_path: Path) -> None:
    turn = RouteScenario("T_Junction", "T_1", BLOCKED.trigger, {})
    setup = with_scenarios(turn, UNKNOWN)
    road = replace(road_for(BLOCKED, program_of(setup)[0], folder=tmp_path), source="town", facts={"topology": "town"})
    assert stage_for(setup, road).parts == ()
    assert not_played(setup, road)["T_1"] == "no junction lies ahead of its trigger point"


@pytest.mark.parametrize(("trigger_s", "kept"), [(20.0, ["own", "cross"]), (45.0, ["cross"])])
def test_a_scenario_holds_no_light_before_its_trigger_point(tmp_path: Path, trigger_s: float, kept: list[str]) -> None:
    """The ego would wait at the red light, and the scenario for the ego."""
    road = road_for(BLOCKED, program_of(with_scenarios(FIRST))[0], folder=tmp_path)
    x, y, yaw = road.path.pose(40.0)
    own = StopLine("own", x, y, yaw, 3.5, control="signal", on_route=True, route_s=40.0)
    cross = StopLine("cross", x, y + 5.0, yaw, 3.5, control="signal", on_route=False, route_s=None)
    facts = {"topology": "town", "junction": {"entry_s": 42.0, "exit_s": 60.0}}
    place = (*road.path.pose(trigger_s)[:2], yaw)
    town = replace(road, facts=facts, stop_lines=(own, cross))
    setup = with_scenarios(RouteScenario("SignalizedJunctionRightTurn", "S_1", place, {}), UNKNOWN)
    (part,) = stage_for(setup, town).parts
    assert [line.id for line in part.road.stop_lines] == kept
