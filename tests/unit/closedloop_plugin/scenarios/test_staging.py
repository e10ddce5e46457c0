"""Which scenarios of a route are played, and on which road."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.core.routes import Route, RouteScenario, read_routes
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.layouts import LAYOUTS
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.staging import NO_JUNCTION, staging, undrivable


def scenario(kind: str, name: str = "", fault: str = "", **params: object) -> RouteScenario:
    return RouteScenario(kind, name or f"{kind}_1", (0, 0, 0), params, fault)


def route(*scenarios: RouteScenario) -> Route:
    only = scenarios[0] if len(scenarios) == 1 else scenario("", "")
    return Route("7", "Town12", ((0, 0), (90, 0)), only.kind, only.name if only.kind else "", (0, 0, 0),
                 params=dict(only.params), scenarios=scenarios)  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CATALOGUE))
def test_a_route_with_one_scenario_has_the_road_of_its_type(kind: str) -> None:
    flow = {"start_actor_flow": (0, 0, 0), "end_actor_flow": (9, 0, 0)}
    found = staging(route(scenario(kind, **flow)), in_town=False)
    assert [one.kind for one in found.played] == [kind] and found.left == {} and found.layout == LAYOUTS[kind]


def test_an_unknown_type_is_left_with_the_reason_and_a_near_name() -> None:
    found = staging(route(scenario("Acident", "mine"), scenario("Accident")), in_town=False)
    assert [one.kind for one in found.played] == ["Accident"]
    assert found.left == {"mine": "no program for scenario type 'Acident' (did you mean Accident?)"}
    assert staging(route(scenario("")), in_town=False).left == {"_1": "no program for scenario type ''"}


def test_a_scenario_far_from_its_route_is_left() -> None:
    beside, beyond = (RouteScenario("Accident", name, (x, y, 0), {}) for name, x, y in (("a", 9, 151), ("b", 90, 149)))
    found = staging(route(beside, beyond), in_town=True)
    assert found.left == {"a": "its trigger point is 151 m from the route"} and found.played == (beyond,)
    behind = RouteScenario("Accident", "c", (-2000, 0, 0), {})
    assert staging(route(behind, beyond), in_town=True).left == {"c": "its trigger point is 2,000 m from the route"}


def test_a_flow_without_its_ends_is_left() -> None:
    found = staging(route(scenario("EnterActorFlow")), in_town=False)
    assert found.left == {
        "EnterActorFlow_1": "a EnterActorFlow needs start_actor_flow and end_actor_flow (x, y, z) in its scenario"
    }
    assert found.layout == RoadLayout()


def test_one_road_has_the_lanes_of_all_and_the_junction_of_the_only_one_that_needs_it() -> None:
    kinds = ("StaticCutIn", "ParkedObstacle", "T_Junction", "ParkingCutIn")
    found = staging(route(*map(scenario, kinds)), in_town=False)
    assert [one.kind for one in found.played] == list(kinds)
    layout = found.layout
    assert (layout.topology, layout.arms, layout.control) == ("junction", 3, "signal")
    assert (layout.left, layout.right, layout.oncoming, layout.parking) == (1, 1, 1, "both")


def test_several_junctions_need_a_town() -> None:
    two = route(scenario("T_Junction"), scenario("SignalizedJunctionLeftTurn"), scenario("Accident"))
    found = staging(two, in_town=False)
    assert [one.kind for one in found.played] == ["Accident"] and found.layout == LAYOUTS["Accident"]
    assert set(found.left.values()) == {NO_JUNCTION} and len(found.left) == 2
    assert len(staging(two, in_town=True).played) == 3


def test_equal_names_are_numbered() -> None:
    found = staging(route(scenario("X", "a"), scenario("X", "a"), scenario("Y", "a")), in_town=True)
    assert list(found.left) == ["a", "a (2)", "a (3)"]


def test_a_known_scenario_that_cannot_be_read_makes_its_route_undrivable() -> None:
    assert undrivable(route(scenario("Accident", fault="far is no number"))) == "far is no number"
    assert undrivable(route(scenario("Accident"), scenario("HardBreakRoute", fault="why"))) == "why"
    assert undrivable(route(scenario("Unknown", fault="why"))) == "", "no program reads it"
    assert undrivable(route()) == ""


def test_all_routes_of_the_benchmarks_are_staged_or_say_why(data_dir: Path) -> None:
    for name, played, left in (("fail2drive", 78, 101), ("longest6", 197, 232)):
        if not (data_dir / "routes" / name).is_dir():
            pytest.skip("no such routes here")
        found = [staging(one, in_town=False) for one in read_routes(data_dir / "routes" / name)]
        assert sum(len(one.played) for one in found) == played
        assert sum(len(one.left) for one in found) == left
    for file in ("bench2drive220.xml", "bench2drive_0.0.4_val.xml", "bench2drive_dev10.xml"):
        for one in read_routes(data_dir / "bench2drive" / file):
            assert not undrivable(one) and not staging(one, in_town=False).left, one.id
