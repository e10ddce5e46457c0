"""Who crosses, blocks and opens doors: the programs compile under each model; driven, they act, the expert survives,
and a driver who is blind to others does not."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import EvaluationConditions, run_episode
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.threats.site import fit, site_of
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.worlds.base import EpisodeSetup, World

pytest.importorskip("scenic")
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.bridge.params import space_of
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

pytestmark = pytest.mark.system

pytest_plugins = ("support.closedloop.networks",)
MODELS = {
    "newtonian": "scenic.simulators.newtonian.driving_model",
    "embedded": "closedloop_plugin.worlds.embedded.model",
    "carla": "closedloop_plugin.carla.world.model",
}


class Stand(NamedTuple):
    """A route, and its map in the tests' folder."""

    route: Route
    road: RoadMap


def spec(behaviour: str, adversary: str, side: str, lane: str, ahead: Any, due: Any, **more: Any) -> ThreatSpec:
    place = {"side": side, "lane": lane, "ahead_m": ahead}
    trigger = {"value": due, "kind": more.pop("kind", "time")}
    words = {"behaviour": behaviour, "adversary": adversary, "place": place, "trigger": trigger, "road": "open"}
    return ThreatSpec.model_validate(words | {"weakness": "perception", "description": "x"} | more)


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
WRITTEN: dict[str, tuple[str, ThreatSpec]] = {
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
def stands(maps: Path) -> dict[str, Stand]:
    routes = suite("demo").routes
    return {r.id: Stand(r, road_for(r, CATALOGUE[r.scenario].layout, folder=maps)) for r in routes}


@pytest.fixture(scope="module")
def world(maps: Path) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    made = EmbeddedWorld(maps)
    yield made
    made.close()


def written(spec: ThreatSpec, stand: Stand, folder: Path) -> Path:
    """The program of a spec that fits there, in a file."""
    site = site_of("demo", stand.route, stand.road)
    assert fit(spec, site) == []
    file = folder / f"{stand.route.id}.scenic"
    file.write_text(program(spec, site))
    return file


def params_of(stand: Stand) -> dict[str, Any]:
    route, road = stand
    stage = ScenarioStage(road, {}, "", road.path.locate(*route.trigger[:2])[0], 3)
    options = {"writeCache": False, "useCache": False}
    return {"map": str(road.file), "map_options": options, "stage": stage, "render": 0, "timestep": 0.05}


FIRST = {WRITTEN[name][1].behaviour: name for name in reversed(WRITTEN)}
PAIRS = [(n, m) for n in WRITTEN for m in MODELS if m == "embedded" or n in FIRST.values()]


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_compiles_and_samples(
    name: str, model: str, stands: dict[str, Stand], one_network_a_map: None, tmp_path: Path
) -> None:
    """All under the embedded model, one of each behaviour under the others."""
    if model == "carla" and importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    id_, threat = WRITTEN[name]
    file = written(threat, stands[id_], tmp_path)
    made = scene_for(file, MODELS[model], params_of(stands[id_]), 3)
    space = space_of(made.scenario)
    extra = {"red_for"} if threat.ego_light.value == "red" else set()
    assert set(space) == set(made.drawn) == FREE[threat.behaviour.value] | extra
    assert (space["due"].low, space["due"].high) == (threat.trigger.value.low, threat.trigger.value.high)
    others = [o for o in made.scene.objects if o is not made.scene.egoObject]
    assert others
    assert all(o.blueprint for o in others)  # CARLA knows what to spawn


# behaviour -> (what is written above, values of a threat that blind drivers cannot miss)
PLAYED = {
    "cross": ("child between parked cars", {"ahead": 30.0, "due": 1.9, "pace": 1.8}),
    "cross behind a junction": ("at red first", {"ahead": 9.0, "due": 1.9, "pace": 1.8, "red_for": 1.0}),
    "run_light": ("takes the right of way", {"due": 3.0, "pace": 7.0}),
    "turn_across": ("turns across", {"due": 3.0, "pace": 8.0}),
    "open_door": ("door", {"ahead": 30.0, "due": 2.2, "rest": 4.0}),
    "block": ("police before a truck", {"ahead": 30.0, "due": 3.0, "rest": 2.0}),
}


def drive(world: World, route: Route, file: Path, values: dict[str, float], name: str) -> EpisodeRecord:
    """One episode. Who has hit somebody need not go on: the blind get 21 s, the others 30."""
    agent = make_agent(name)
    agent.start(f"{route.id}_rep0", 1)
    setup = EpisodeSetup(
        route, 1, program=file, values=values, traffic=False, max_ticks=600 if name == "expert" else 420
    )
    cast = EvaluationConditions(profile("bench2advlm"), agent=agent.describe(), privileged=True)
    task = EpisodeTask("demo", route.id, 0, setup)
    return run_episode(world, task, cast, lambda ask: DecisionResponse(agent.decide([ask])[0])).record


def hits(record: EpisodeRecord) -> int:
    return sum(len(found) for name, found in record.infractions.items() if name.startswith("collisions_"))


@pytest.mark.parametrize("case", PLAYED)
def test_it_acts_the_expert_survives_and_the_blind_do_not(
    case: str, world: World, stands: dict[str, Stand], tmp_path: Path
) -> None:
    name, values = PLAYED[case]
    id_, threat = WRITTEN[name]
    file = written(threat, stands[id_], tmp_path)
    attentive = drive(world, stands[id_].route, file, values, "expert")
    times = {name: time for time, name in attentive.events}
    assert times["trigger"] <= times["act"]
    assert attentive.success, attentive.infractions
    assert attentive.drawn == values
    blind = drive(world, stands[id_].route, file, values, "steer-only")
    assert "act" in {name for _, name in blind.events}
    assert hits(blind) > 0


def test_the_oncoming_lane_is_lent_only_where_nothing_else_leads_past(stands: dict[str, Stand], tmp_path: Path) -> None:
    def lends(id_: str, threat: ThreatSpec) -> bool:
        return "LendOncomingLane" in written(threat, stands[id_], tmp_path).read_text()

    assert lends("102", block("van", (15, 20)))
    assert not lends("101", block("van", (15, 20)))  # another lane leads past
    assert not lends("102", block("van", (50, 55)))  # the road ends too soon
    assert not lends("106", block("van", BEHIND, road="junction"))


def test_nobody_crawls_over_the_junction_for_minutes(stands: dict[str, Stand], tmp_path: Path) -> None:
    crawls = ThreatSpec.model_validate({
        "adversary": "car", "behaviour": "run_light", "place": {"side": "left", "lane": "crossing_road", "ahead_m": 5},
        "trigger": {"value": 3}, "road": "junction", "speed_mps": [0.3, 3], "weakness": "planning", "description": "x",
    })  # fmt: skip
    assert "param pace = Range(2, 3)" in written(crawls, stands["104"], tmp_path).read_text()


def test_parked_cars_do_not_stand_in_the_junction(stands: dict[str, Stand], tmp_path: Path) -> None:
    near = cross("child", "right", "roadside", (6, 8), road="junction", occluder="parked_cars")
    text = written(near, stands["104"], tmp_path).read_text()
    assert 'for gap, kind in ((-3.4, "van"), (4.2, "car")):' in text


def test_a_program_reads_like_one_written_by_hand(stands: dict[str, Stand], tmp_path: Path) -> None:
    id_, threat = WRITTEN["by metres"]
    lines = written(threat, stands[id_], tmp_path).read_text().splitlines()
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
