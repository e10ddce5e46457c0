"""Threats that cross, block or open doors: the programs compile under each model and act; the expert survives,
and a driver that ignores other road users does not."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import run_episode
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.site import fit, site_of
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.worlds.base import EpisodeSetup, World

pytest.importorskip("scenic")
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.bridge.params import domains_of
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

pytestmark = pytest.mark.system

pytest_plugins = ("support.closedloop.networks",)
MODELS = {
    "newtonian": "scenic.simulators.newtonian.driving_model",
    "embedded": "closedloop_plugin.worlds.embedded.model",
    "carla": "closedloop_plugin.carla.world.model",
}


class RouteOnMap(NamedTuple):
    """A route and its road map."""

    route: Route
    road: RoadMap


def spec(behaviour: str, adversary: str, side: str, lane: str, ahead: Any, due: Any, **more: Any) -> ThreatSpec:
    place = {"side": side, "lane": lane, "ahead_m": ahead}
    trigger = {"value": due, "kind": more.pop("kind", "time")}
    fields = {"behaviour": behaviour, "adversary": adversary, "place": place, "trigger": trigger, "road": "open"}
    return ThreatSpec.model_validate(fields | {"weakness": "perception", "description": "x"} | more)


def cross(adversary: str, side: str, lane: str, ahead: Any, due: Any = (1.5, 2.5), **more: Any) -> ThreatSpec:
    return spec("cross", adversary, side, lane, list(ahead), list(due), speed_mps=[1.5, 3.0], **more)


def block(adversary: str, ahead: Any, **more: Any) -> ThreatSpec:
    return spec("block", adversary, "ahead", "own", list(ahead), [2.0, 3.5], stays_s=[2, 4], **more)


def junction(behaviour: str, adversary: str, side: str, **more: Any) -> ThreatSpec:
    lane = "crossing_road"
    return spec(behaviour, adversary, side, lane, 5, [2.5, 4], road="junction", speed_mps=[6, 9], **more)


DOOR = spec("open_door", "van", "right", "roadside", [25, 40], [1.5, 2.5], stays_s=[3, 6])
AHEAD, BEHIND = (25, 40), (6, 9)  # m from the trigger, from the junction's exit
# name -> (route of the demo suite, spec)
THREATS: dict[str, tuple[str, ThreatSpec]] = {
    "child between parked cars": ("102", cross("child", "right", "roadside", AHEAD, occluder="parked_cars")),
    "pedestrian from the far pavement": ("101", cross("pedestrian", "left", "pavement", AHEAD, (3, 5))),
    "bicycle by a bus": ("105", cross("bicycle", "right", "pavement", AHEAD, occluder="bus")),
    "animal behind a junction": ("104", cross("animal", "right", "pavement", BEHIND, road="junction")),
    "by metres": ("103", cross("animal", "right", "roadside", AHEAD, (10, 20), kind="distance", occluder="container")),
    "at red first": ("104", cross("pedestrian", "right", "roadside", BEHIND, road="junction", ego_light="red")),
    "runs its light": ("104", junction("run_light", "truck", "left", ego_light="green")),
    "takes the right of way": ("106", junction("run_light", "bicycle", "right")),
    "with a siren": ("104", junction("run_light", "ambulance", "opposite")),
    "turns across": ("104", junction("turn_across", "car", "opposite", ego_light="green")),
    "turns across without lights": ("106", junction("turn_across", "bus", "opposite")),
    "door": ("102", DOOR),
    "door beside a free lane": ("101", DOOR),
    "van stands": ("101", block("van", AHEAD)),
    "police before a truck": ("102", block("police", AHEAD, occluder="truck")),
    "car behind a junction": ("106", block("car", BEHIND, road="junction")),
    "cones": ("105", block("cones", AHEAD)),
    "debris by an advertisement": ("104", block("debris", BEHIND, road="junction", occluder="advertisement")),
    "animal walks out": ("103", block("animal", AHEAD, occluder="van")),
    "barrier": ("102", block("barrier", AHEAD)),
}
FREE = {
    "cross": {"ahead", "due", "pace"},
    "run_light": {"due", "pace"},
    "turn_across": {"due", "pace"},
    "open_door": {"ahead", "due", "rest"},
    "block": {"ahead", "due", "rest"},
}


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("maps")


@pytest.fixture(scope="module")
def routes_on_maps(maps: Path) -> dict[str, RouteOnMap]:
    routes = suite("demo").routes
    return {r.id: RouteOnMap(r, road_for(r, CATALOGUE[r.scenario].layout, folder=maps)) for r in routes}


@pytest.fixture(scope="module")
def world(maps: Path) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    embedded_world = EmbeddedWorld(maps)
    yield embedded_world
    embedded_world.close()


def write_program(spec: ThreatSpec, route_on_map: RouteOnMap, folder: Path) -> Path:
    """The file with the program of a spec that fits the route."""
    site = site_of("demo", route_on_map.route, route_on_map.road)
    assert fit(spec, site) == []
    file = folder / f"{route_on_map.route.id}.scenic"
    file.write_text(program(spec, site))
    return file


def params_of(route_on_map: RouteOnMap) -> dict[str, Any]:
    route, road = route_on_map
    stage = ScenarioStage(road, {}, "", road.path.locate(*route.trigger[:2])[0], 3)
    options = {"writeCache": False, "useCache": False}
    return {"map": str(road.file), "map_options": options, "stage": stage, "render": 0, "timestep": 0.05}


FIRST = {THREATS[name][1].behaviour: name for name in reversed(THREATS)}
PAIRS = [(n, m) for n in THREATS for m in MODELS if m == "embedded" or n in FIRST.values()]


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_a_program_compiles_and_samples(
    name: str, model: str, routes_on_maps: dict[str, RouteOnMap], one_network_a_map: None, tmp_path: Path
) -> None:
    """All under the embedded model, one of each behaviour under the others."""
    if model == "carla" and importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    route_id, threat = THREATS[name]
    file = write_program(threat, routes_on_maps[route_id], tmp_path)
    compiled = scene_for(file, MODELS[model], params_of(routes_on_maps[route_id]), 3)
    space = domains_of(compiled.scenario.params)
    extra = {"red_for"} if threat.ego_light.value == "red" else set()
    assert set(space) == set(compiled.drawn) == FREE[threat.behaviour.value] | extra
    assert (space["due"].low, space["due"].high) == (threat.trigger.value.low, threat.trigger.value.high)
    others = [o for o in compiled.scene.objects if o is not compiled.scene.egoObject]
    assert others
    assert all(o.blueprint for o in others)  # what CARLA spawns


# case -> (name in THREATS, values for which a blind driver collides)
DRIVEN = {
    "cross": ("child between parked cars", {"ahead": 30.0, "due": 1.9, "pace": 1.8}),
    "cross behind a junction": ("at red first", {"ahead": 9.0, "due": 1.9, "pace": 1.8, "red_for": 1.0}),
    "run_light": ("takes the right of way", {"due": 3.0, "pace": 7.0}),
    "turn_across": ("turns across", {"due": 3.0, "pace": 8.0}),
    "open_door": ("door", {"ahead": 30.0, "due": 2.2, "rest": 4.0}),
    "block": ("police before a truck", {"ahead": 30.0, "due": 3.0, "rest": 2.0}),
}


def drive(world: World, route: Route, file: Path, values: dict[str, float], name: str) -> EpisodeRecord:
    """One episode: 30 s for the expert; 21 s suffice for a blind driver, which collides."""
    agent = make_agent(name)
    agent.start(f"{route.id}_rep0", 1)
    setup = EpisodeSetup(
        route, 1, program=file, alone=True, values=values, traffic=False, max_ticks=600 if name == "expert" else 420
    )
    conditions = EvaluationConditions(profile("bench2advlm"), agent=agent.describe(), privileged=True)
    task = EpisodeTask("demo", route.id, 0, setup)
    return run_episode(world, task, conditions, lambda request: DecisionResponse(agent.decide([request])[0])).record


def hits(record: EpisodeRecord) -> int:
    return sum(len(found) for name, found in record.infractions.items() if name.startswith("collisions_"))


@pytest.mark.parametrize("case", DRIVEN)
def test_a_threat_acts_and_only_the_expert_survives(
    case: str, world: World, routes_on_maps: dict[str, RouteOnMap], tmp_path: Path
) -> None:
    name, values = DRIVEN[case]
    route_id, threat = THREATS[name]
    file = write_program(threat, routes_on_maps[route_id], tmp_path)
    attentive = drive(world, routes_on_maps[route_id].route, file, values, "expert")
    times = {name: time for time, name in attentive.events}
    assert times["trigger"] <= times["act"]
    assert attentive.success, attentive.infractions
    assert attentive.drawn == values
    blind = drive(world, routes_on_maps[route_id].route, file, values, "steer-only")
    assert "act" in {name for _, name in blind.events}
    assert hits(blind) > 0


def test_the_oncoming_lane_is_allowed_only_if_no_other_lane_leads_past(
    routes_on_maps: dict[str, RouteOnMap], tmp_path: Path
) -> None:
    def lends(route_id: str, threat: ThreatSpec) -> bool:
        return "LendOncomingLane" in write_program(threat, routes_on_maps[route_id], tmp_path).read_text()

    assert lends("102", block("van", (15, 20)))
    assert not lends("101", block("van", (15, 20)))  # another lane leads past
    assert not lends("102", block("van", (50, 55)))  # the road ends too soon
    assert not lends("106", block("van", BEHIND, road="junction"))


def test_speeds_across_a_junction_have_a_lower_limit(routes_on_maps: dict[str, RouteOnMap], tmp_path: Path) -> None:
    slow = ThreatSpec.model_validate({
        "adversary": "car", "behaviour": "run_light", "place": {"side": "left", "lane": "crossing_road", "ahead_m": 5},
        "trigger": {"value": 3}, "road": "junction", "speed_mps": [0.3, 3], "weakness": "planning", "description": "x",
    })  # fmt: skip
    assert "param pace = Range(2, 3)" in write_program(slow, routes_on_maps["104"], tmp_path).read_text()


def test_no_car_is_parked_in_the_junction(routes_on_maps: dict[str, RouteOnMap], tmp_path: Path) -> None:
    near = cross("child", "right", "roadside", (6, 8), road="junction", occluder="parked_cars")
    text = write_program(near, routes_on_maps["104"], tmp_path).read_text()
    assert 'for gap, kind in ((-3.4, "van"), (4.2, "car")):' in text


def test_the_program_text(routes_on_maps: dict[str, RouteOnMap], tmp_path: Path) -> None:
    route_id, threat = THREATS["by metres"]
    lines = write_program(threat, routes_on_maps[route_id], tmp_path).read_text().splitlines()
    body = "\n".join(line for line in lines if not line.startswith("param "))
    assert body == SNAPSHOT


SNAPSHOT = '''"""An animal crosses the road from the right, 25 to 40 m on, hidden by a container."""


model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)

where = stage.trigger_s + globalParameters.ahead
path = rail_across(where, "right", 1.4)
new Walker at start_of(path), facing facing_of(path), with kind "animal", with rail path, \\
    with behavior StepOut(where, globalParameters.due, "distance", globalParameters.pace)

cover = where - 2.2
new Thing at place(cover, parked("right", "container")), facing turned(cover, 0), with fixed True, \\
    with blueprint "static.prop.container", with length 2.4, with width 1.6, with height 2'''
