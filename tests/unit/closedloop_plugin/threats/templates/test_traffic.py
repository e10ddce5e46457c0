"""Threats of vehicles that drive with, before, behind or against the ego: programs compile and act."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Control, Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents import tracking
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import run_episode
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.site import ThreatSite, fit, site_of
from closedloop_plugin.threats.spec import AdversaryBehaviour, AdversaryLane, RoadKind, ThreatSpec
from closedloop_plugin.threats.templates import traffic
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.worlds.base import EpisodeSetup, World
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

pytest.importorskip("scenic")
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.bridge.params import domains_of

pytest_plugins = ("support.closedloop.networks",)
pytestmark = [pytest.mark.system, pytest.mark.usefixtures("one_network_a_map")]
MODELS = {"embedded": "closedloop_plugin.worlds.embedded.model", "carla": "closedloop_plugin.carla.world.model"}
ROUTES = {route.id: route for route in suite("demo").routes}
LEFT_LANE, ONE_LANE, JUNCTION = "101", "103", "104"  # a lane on the left; only the oncoming one; lights and a turn
COLLISIONS = ("collisions_vehicle", "collisions_layout", "collisions_pedestrian")

# For each behaviour: adversary, side, lane, and the required numbers.
PLAIN: dict[AdversaryBehaviour, dict[str, Any]] = {
    AdversaryBehaviour.CUT_IN: {"adversary": "car", "place": ("right", "roadside"), "speed_mps": [3, 4.5]},
    AdversaryBehaviour.BRAKE_HARD: {"adversary": "van", "place": ("ahead", "own"), "stays_s": [3, 6]},
    AdversaryBehaviour.SLOW_AHEAD: {
        "adversary": "truck",
        "place": ("ahead", "own"),
        "speed_mps": [1.5, 3],
        "stays_s": [6, 9],
    },
    AdversaryBehaviour.ONCOMING: {"adversary": "car", "place": ("opposite", "oncoming"), "speed_mps": [6, 10]},
    AdversaryBehaviour.TAILGATE: {"adversary": "car", "place": ("behind", "own")},
    AdversaryBehaviour.HIDDEN_STOP: {
        "adversary": "car",
        "place": ("ahead", "own"),
        "speed_mps": [6, 10],
        "stays_s": [5, 9],
        "occluder": "truck",
    },
    AdversaryBehaviour.EMERGENCY_PASS: {"adversary": "ambulance", "place": ("behind", "own"), "speed_mps": [12, 16]},
}
FREE = {
    AdversaryBehaviour.CUT_IN: {"ahead", "due", "pace"},
    AdversaryBehaviour.BRAKE_HARD: {"ahead", "due", "rest"},
    AdversaryBehaviour.SLOW_AHEAD: {"ahead", "due", "pace", "stays"},
    AdversaryBehaviour.ONCOMING: {"ahead", "due", "pace", "over"},
    AdversaryBehaviour.TAILGATE: {"ahead", "due", "gap", "late", "slow"},
    AdversaryBehaviour.HIDDEN_STOP: {"ahead", "due", "pace", "stays"},
    AdversaryBehaviour.EMERGENCY_PASS: {"ahead", "due", "pace", "back"},
}
# Other combinations that the rules accept, at least one of each kind.
OTHERS: list[tuple[str, AdversaryBehaviour, dict[str, Any]]] = [
    (LEFT_LANE, AdversaryBehaviour.CUT_IN, {"adversary": "bus", "place": ("left", "next_left")}),
    (ONE_LANE, AdversaryBehaviour.CUT_IN, {"adversary": "bicycle", "trigger": {"kind": "distance", "value": [14, 20]}}),
    (ONE_LANE, AdversaryBehaviour.BRAKE_HARD, {"adversary": "bus", "trigger": {"kind": "distance", "value": [8, 20]}}),
    (JUNCTION, AdversaryBehaviour.BRAKE_HARD, {"road": "junction", "ego_light": "green"}),
    (ONE_LANE, AdversaryBehaviour.SLOW_AHEAD, {"adversary": "bicycle"}),
    (
        ONE_LANE,
        AdversaryBehaviour.ONCOMING,
        {"place": ("ahead", "own"), "trigger": {"kind": "distance", "value": [20, 30]}},
    ),
    (JUNCTION, AdversaryBehaviour.TAILGATE, {"road": "junction", "adversary": "motorcycle"}),
    (ONE_LANE, AdversaryBehaviour.HIDDEN_STOP, {"adversary": "cones", "occluder": "bus"}),
    (LEFT_LANE, AdversaryBehaviour.HIDDEN_STOP, {"adversary": "barrier", "occluder": "van"}),
    (LEFT_LANE, AdversaryBehaviour.EMERGENCY_PASS, {"adversary": "firetruck"}),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    embedded_world = EmbeddedWorld(tmp_path_factory.mktemp("maps"))
    yield embedded_world
    embedded_world.close()


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RoadMap]:
    folder = tmp_path_factory.mktemp("roads")
    chosen = [ROUTES[key] for key in (LEFT_LANE, ONE_LANE, JUNCTION)]
    return {route.id: road_for(route, CATALOGUE[route.scenario].layout, folder=folder) for route in chosen}


@pytest.fixture(scope="module")
def sites(roads: dict[str, RoadMap]) -> dict[str, ThreatSite]:
    return {key: site_of("demo", ROUTES[key], road) for key, road in roads.items()}


def spec_for(behaviour: AdversaryBehaviour, site: ThreatSite, **changes: Any) -> ThreatSpec:
    """A spec that fits the site; by default it triggers two or three seconds before the ego arrives."""
    fields = {"road": "open", **PLAIN[behaviour], **changes}
    side, lane = fields.pop("place")
    low, high = site.rooms(behaviour, AdversaryLane(lane), RoadKind(fields["road"]))[-1]
    low = max(low, min(25.0, high - 5.0))
    trigger = fields.pop("trigger", {"value": [1.8, 3.0]})
    place = {"side": side, "lane": lane, "ahead_m": [low, min(low + 10.0, high)]}
    fields |= {"behaviour": behaviour.value, "place": place, "trigger": trigger}
    spec = ThreatSpec.model_validate({**fields, "weakness": "planning", "description": "anything"})
    assert fit(spec, site) == []
    return spec


@pytest.mark.parametrize("behaviour", sorted(PLAIN))
@pytest.mark.parametrize("key", [LEFT_LANE, JUNCTION])
def test_a_program_compiles_and_samples(
    behaviour: AdversaryBehaviour, key: str, sites: dict[str, ThreatSite], roads: dict[str, RoadMap], tmp_path: Path
) -> None:
    assert_compiles(spec_for(behaviour, sites[key]), roads[key], sites[key], tmp_path, FREE[behaviour])


@pytest.mark.parametrize(("key", "behaviour", "words"), OTHERS)
def test_programs_of_other_combinations_compile(
    key: str,
    behaviour: AdversaryBehaviour,
    words: dict[str, Any],
    sites: dict[str, ThreatSite],
    roads: dict[str, RoadMap],
    tmp_path: Path,
) -> None:
    free = FREE[behaviour] - ({"over"} if words.get("place") == ("ahead", "own") else set())
    assert_compiles(spec_for(behaviour, sites[key], **words), roads[key], sites[key], tmp_path, free)


def assert_compiles(spec: ThreatSpec, road: RoadMap, site: ThreatSite, folder: Path, free: set[str]) -> None:
    """Its free parameters are the declared ones, within their bounds; on one site also under CARLA's model."""
    file = folder / "threat.scenic"
    file.write_text(program(spec, site))
    route = ROUTES[site.route]
    for name, model in MODELS.items():
        if name == "carla" and (site.route != LEFT_LANE or importlib.util.find_spec("carla") is None):
            continue
        options = {"writeCache": False, "useCache": False}
        stage = ScenarioStage(road, route.params, "", site.trigger_s, 3)
        given = {"map": str(road.file), "map_options": options, "stage": stage, "render": 0, "timestep": 0.05}
        compiled = scene_for(file, model, given, 3)
        space = domains_of(compiled.scenario.params)
        assert set(space) == free
        assert all(space[n].low <= compiled.drawn[n] <= space[n].high for n in free)
        assert len(compiled.scene.objects) >= 2
        if name == "carla":
            assert all(o.blueprint for o in compiled.scene.objects)


# -- several actors, and conditions of the pictures ------------------------------------------------------------------

# First and further behaviours: each behaviour that goes together with another. Numbers of those not in PLAIN.
SEVERAL = (
    (LEFT_LANE, ("brake_hard", "tailgate")),
    (LEFT_LANE, ("cut_in", "slow_ahead")),
    (LEFT_LANE, ("hidden_stop", "tailgate")),
    (ONE_LANE, ("block", "oncoming", "cross")),
    (ONE_LANE, ("open_door", "oncoming")),
    (JUNCTION, ("run_light", "cross")),
    (JUNCTION, ("turn_across", "tailgate")),
)
MORE: dict[str, dict[str, Any]] = {
    "block": {"adversary": "cones", "place": ("ahead", "own"), "stays_s": 5},
    "cross": {"adversary": "child", "place": ("right", "pavement"), "speed_mps": 2},
    "open_door": {"adversary": "car", "place": ("right", "roadside"), "stays_s": 5},
    "run_light": {"adversary": "car", "place": ("right", "crossing_road"), "speed_mps": 6, "road": "junction"},
    "turn_across": {"adversary": "car", "place": ("opposite", "crossing_road"), "speed_mps": 6, "road": "junction"},
}
SIGHT = {"worn_markings": [40, 80], "sun_glare": [50, 90], "lens_drops": [10, 40], "contradictory_sign": "no_entry"}
LOW_SUN = {"sun_altitude_angle": [10, 15], "cloudiness": [0, 20], "precipitation": 0, "fog_density": 0}


def specs_of(behaviours: tuple[str, ...], site: ThreatSite, **more: Any) -> ThreatSpec:
    """A spec of these behaviours, one behind the other where they need a distance."""
    actors: list[dict[str, Any]] = []
    for k, behaviour in enumerate(behaviours):
        fields = {
            "road": "open",
            "trigger": {"value": [1.8, 3.0]},
            **(MORE.get(behaviour) or PLAIN[AdversaryBehaviour(behaviour)]),
        }
        side, lane = fields.pop("place")
        rooms = site.rooms(AdversaryBehaviour(behaviour), AdversaryLane(lane), RoadKind(fields["road"]))
        low, high = (5.0, 5.0) if lane == "crossing_road" else rooms[-1]
        low = min(max(low, 20.0 + k * (22.5 if len(behaviours) == 2 else 17.5)), high)
        place = {"side": side, "lane": lane, "ahead_m": [low, min(low + 2.0, high)]}
        actors.append({**fields, "behaviour": behaviour, "place": place})
    spec = ThreatSpec.model_validate(
        {**actors[0], "further": actors[1:], "weakness": "planning", "description": "anything", **more}
    )
    assert fit(spec, site) == []
    return spec


@pytest.mark.parametrize(("key", "behaviours"), SEVERAL)
def test_a_program_of_several_actors_compiles_for_carla(
    key: str, behaviours: tuple[str, ...], sites: dict[str, ThreatSite], roads: dict[str, RoadMap], tmp_path: Path
) -> None:
    """Under CARLA's model if the package is installed; with conditions of the pictures, which CARLA does not show."""
    spec = specs_of(behaviours, sites[key], perception=SIGHT, conditions=LOW_SUN)
    file = tmp_path / "threat.scenic"
    file.write_text(program(spec, sites[key]))
    model = MODELS["carla" if importlib.util.find_spec("carla") else "embedded"]
    options = {"writeCache": False, "useCache": False}
    stage = ScenarioStage(roads[key], ROUTES[key].params, "", sites[key].trigger_s, 3)
    given = {"map": str(roads[key].file), "map_options": options, "stage": stage, "render": 0, "timestep": 0.05}
    compiled = scene_for(file, model, given, 3)
    assert {o.acts_as for o in compiled.scene.objects if getattr(o, "acts_as", "act") != "act"} == {
        f"act {k}" for k in range(1, len(behaviours) + 1)
    }
    assert {"worn_markings", "sun_glare", "lens_drops", "contradictory_sign"} <= set(compiled.drawn)
    assert isinstance(compiled.scene.params["sun_azimuth_angle"], float)


def test_every_actor_of_a_program_acts(world: World, sites: dict[str, ThreatSite], tmp_path: Path) -> None:
    spec = specs_of(("brake_hard", "tailgate"), sites[LEFT_LANE], perception={"worn_markings": 60})
    record = drive(world, spec, sites[LEFT_LANE], tmp_path, "expert", {})
    assert {"act", "act 1", "act 2"} <= {name for _, name in record.events}
    assert record.success and record.drawn["worn_markings"] == 60.0


# -- driven ------------------------------------------------------------------------------------------------------------


class HardBraker:
    """Follows the route, and brakes hard once the scenario acts."""

    name, privileged, local, cameras = "nervous", True, True, ()

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: list[DecisionRequest]) -> list[Decision]:
        return [Decision(control=self.drive(request)) for request in requests]

    def drive(self, request: DecisionRequest) -> Control:
        assert request.truth is not None
        assert request.road is not None
        truth, path = request.truth, request.road.path
        s, _ = path.locate(truth.ego.x, truth.ego.y)
        acted = any(name == "act" for _, name in truth.events)
        pedals = -8.0 if acted else tracking.to_speed(8.0, truth.ego.speed)
        return tracking.control(truth.ego, path, s, 0.0, pedals)


def drive(
    world: World,
    spec: ThreatSpec,
    site: ThreatSite,
    folder: Path,
    agent: Any,
    values: dict[str, float],
    ticks: int = 900,
) -> EpisodeRecord:
    file = folder / f"{site.route}.scenic"
    file.write_text(program(spec, site))
    driver = make_agent(agent) if isinstance(agent, str) else agent
    setup = EpisodeSetup(ROUTES[site.route], 3, program=file, alone=True, values=values, max_ticks=ticks)
    conditions = EvaluationConditions(profile("bench2drive"), agent=driver.describe(), privileged=driver.privileged)
    driver.start("e", 3)
    task = EpisodeTask("threats", site.route, 0, setup)
    result = run_episode(world, task, conditions, lambda request: DecisionResponse(driver.decide([request])[0]))
    driver.end("e")
    return result.record


def harmed(record: EpisodeRecord) -> bool:
    return any(record.infractions[k] for k in (*COLLISIONS, "yield_emergency_vehicle_infractions"))


DRIVEN: dict[AdversaryBehaviour, dict[str, float]] = {
    AdversaryBehaviour.CUT_IN: {"ahead": 30, "due": 2.2, "pace": 3},
    AdversaryBehaviour.BRAKE_HARD: {"ahead": 30, "due": 1.5, "rest": 4},
    AdversaryBehaviour.SLOW_AHEAD: {"ahead": 30, "due": 2.5, "pace": 2, "stays": 8},
    AdversaryBehaviour.ONCOMING: {"ahead": 30, "due": 2.8, "pace": 8, "over": 0.9},
    AdversaryBehaviour.TAILGATE: {"ahead": 30, "due": 2.0, "gap": 3, "late": 0.5, "slow": 2.5},
    AdversaryBehaviour.HIDDEN_STOP: {"ahead": 33, "due": 2.0, "pace": 9, "stays": 6},
    AdversaryBehaviour.EMERGENCY_PASS: {"ahead": 30, "due": 2.5, "pace": 13, "back": 20},
}


@pytest.mark.parametrize("behaviour", sorted(DRIVEN))
def test_a_threat_acts_and_harms_only_the_blind_driver(
    behaviour: AdversaryBehaviour, world: World, sites: dict[str, ThreatSite], tmp_path: Path
) -> None:
    site = sites[ONE_LANE]
    spec = spec_for(behaviour, site)
    careful = drive(world, spec, site, tmp_path, "expert", DRIVEN[behaviour])
    events = {name: time for time, name in careful.events}
    assert events["trigger"] <= events["act"]
    assert not harmed(careful)
    assert careful.score_route > 99, "the road did not become free again"
    assert careful.drawn == DRIVEN[behaviour]
    blind = drive(world, spec, site, tmp_path, "steer-only", DRIVEN[behaviour], ticks=240)
    assert "act" in {name for _, name in blind.events} or behaviour is AdversaryBehaviour.HIDDEN_STOP
    assert harmed(blind)


def test_a_tailgating_vehicle_hits_an_ego_that_brakes_hard(
    world: World, sites: dict[str, ThreatSite], tmp_path: Path
) -> None:
    site = sites[ONE_LANE]
    spec = spec_for(AdversaryBehaviour.TAILGATE, site)
    record = drive(world, spec, site, tmp_path, HardBraker(), DRIVEN[AdversaryBehaviour.TAILGATE], ticks=180)
    assert record.infractions["collisions_vehicle"]


def test_no_act_before_the_ego_drives(world: World, sites: dict[str, ThreatSite], tmp_path: Path) -> None:
    site = sites[ONE_LANE]
    spec = spec_for(AdversaryBehaviour.CUT_IN, site)
    record = drive(world, spec, site, tmp_path, "still", DRIVEN[AdversaryBehaviour.CUT_IN], ticks=100)
    assert "act" not in {name for _, name in record.events}


def test_an_ego_that_stops_behind_a_slow_vehicle_can_continue(
    world: World, sites: dict[str, ThreatSite], tmp_path: Path
) -> None:
    """Trigger at half a second: the slow vehicle waits at its place, and the ego keeps a larger distance."""
    site = sites[ONE_LANE]
    spec = spec_for(AdversaryBehaviour.SLOW_AHEAD, site, adversary="bicycle", trigger={"value": [0.5, 1]})
    record = drive(world, spec, site, tmp_path, "expert", {"ahead": 30, "due": 0.5, "pace": 3, "stays": 2})
    assert "act" in {name for _, name in record.events}
    assert record.score_route > 99 and not harmed(record)


# -- text --------------------------------------------------------------------------------------------------------------


def test_every_traffic_behaviour_has_a_template() -> None:
    assert set(traffic.TEMPLATES) == set(PLAIN) == set(FREE) == set(DRIVEN)


def test_speeds_are_limited_to_those_of_a_threat(sites: dict[str, ThreatSite]) -> None:
    site = sites[ONE_LANE]
    spec = spec_for(AdversaryBehaviour.SLOW_AHEAD, site, adversary="car", speed_mps=[0.3, 18])
    low, high = 0.5, 0.6 * traffic.CRUISE * site.speed_limit
    assert f"param pace = Range({low:g}, {round(high, 3):g})" in program(spec, site)
    spec = spec_for(AdversaryBehaviour.EMERGENCY_PASS, site, speed_mps=[1, 2])
    line = next(x for x in program(spec, site).splitlines() if x.startswith("param pace"))
    assert float(line.split("=")[1].split("#")[0]) > traffic.CRUISE * site.speed_limit


def test_the_program_text(sites: dict[str, ThreatSite]) -> None:
    spec = spec_for(AdversaryBehaviour.CUT_IN, sites[ONE_LANE])
    assert program(spec, sites[ONE_LANE]) == SNAPSHOT
    assert spec.road is RoadKind.OPEN


SNAPSHOT = '''\
"""A car moves into the ego's lane from the right, 25 to 35 m on."""

param route = "demo:103"
param ahead = Range(25, 35)                # m: from the route's trigger point to where it happens
param due = Range(1.8, 3)                  # s: from the ego to that place when it acts
param pace = Range(3, 4.5)                 # m/s: of who cuts in, for the first seconds

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)

where = stage.trigger_s + globalParameters.ahead
cutter = rail_at(where + 3, roadside(-1), accel=2.5, sideways=1.8)
new Wheeled at start_of(cutter), facing facing_of(cutter), with kind "car", with rail cutter, \\
    with behavior CutIn(where, globalParameters.due, "time", globalParameters.pace, -1)
'''
