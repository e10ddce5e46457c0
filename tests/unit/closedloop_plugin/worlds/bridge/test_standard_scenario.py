"""A program on top of its route's standard scenario: actors, modules, events, ego, overlaps and errors of both."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from closedloop_plugin.core.state import Control
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene
from lmms_eval_ad2.core.errors import Ad2Error

pytest.importorskip("scenic")
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for, space_for
from closedloop_plugin.worlds.bridge.program_setup import params_for, program_of, stage_for
from closedloop_plugin.worlds.bridge.session import close_running
from closedloop_plugin.worlds.embedded.world import MODEL, EmbeddedWorld

pytestmark = pytest.mark.integration

ROUTES = {r.scenario: r for r in suite("demo").routes}
BLOCKED = ROUTES["ParkedObstacle"]  # a car stands beyond the trigger point
CARLA = "closedloop_plugin.carla.world.model"
HEAD = """model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *
ego = new Car at place(0), facing stage.heading(0)
"""
# Names that the standard scenario's program uses too: `start`, `side`, `rail`, `traffic`.
WALKER = (
    HEAD
    + """param due = Range(2.0, 3.0)
start, side, traffic = 25, "right", None
rail = rail_across(start, side, 1.4)
new Walker at start_of(rail), facing facing_of(rail), with rail rail, \\
    with behavior StepOut(start, globalParameters.due, "time", 1.4)
"""
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    made = EmbeddedWorld(tmp_path_factory.mktemp("maps"))
    yield made
    made.close()


def setup(folder: Path, text: str, scenario: str = "ParkedObstacle", **more: bool) -> EpisodeSetup:
    program = folder / "p.scenic"
    program.write_text(text)
    return EpisodeSetup(ROUTES[scenario], 3, program=program, **{"traffic": False, **more})  # type: ignore[arg-type]


def sampled(wanted: EpisodeSetup, maps: Path, model: str = MODEL) -> CompiledScene:
    close_running()
    layout, program = program_of(wanted)
    assert wanted.route is not None
    road = road_for(wanted.route, layout, folder=maps)
    return scene_for(program, model, params_for(wanted, road, stage_for(wanted, road)), 3)


def test_both_play_with_their_own_modules_and_are_told_apart(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, WALKER))
    bodies = {a.id: (str(a.kind), a.role) for a in world.truth().actors}
    assert bodies.pop("s1") == ("pedestrian", "scenario")
    assert bodies and {id[0] for id in bodies} == {"r"} and {role for _, role in bodies.values()} == {"standard"}
    assert set(world.drawn) == {"due"} == set(world.space(setup(tmp_path, WALKER)))
    world.reset(setup(tmp_path, WALKER))
    while world.truth().time_s < 9 and not world.done:
        world.step(Control(throttle=0.5))
    events = {name: time for time, name in world.truth().events}
    assert set(events) == {"trigger", "act", "base trigger", "base act"}
    assert events["base trigger"] == events["trigger"] < events["act"]


def test_alone_a_program_replaces_the_standard_scenario(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, WALKER, alone=True))
    assert [(a.id, a.role) for a in world.truth().actors] == [("s1", "scenario")]
    unknown = replace(setup(tmp_path, WALKER), route=replace(BLOCKED, scenario="OfMyOwn"))
    world.reset(unknown)
    assert [a.id for a in world.truth().actors] == ["s1"], "a type without a standard scenario"


def test_the_referee_still_grants_the_oncoming_lane(world: EmbeddedWorld, tmp_path: Path) -> None:
    two_ways = replace(BLOCKED, scenario="ParkedObstacleTwoWays")
    world.reset(replace(setup(tmp_path, WALKER), route=two_ways))
    while world.truth().time_s < 20 and not world.done and not world.truth().oncoming_allowed:
        world.step(Control(throttle=0.5))
    assert world.truth().oncoming_allowed, "a monitor of the standard scenario runs"


def test_the_ego_starts_where_the_standard_scenario_has_it(tmp_path: Path) -> None:
    leaving = replace(BLOCKED, scenario="ParkingExit")
    wanted = replace(setup(tmp_path, WALKER), route=leaving)
    objects = sampled(wanted, tmp_path).scene.objects
    bay = sampled(EpisodeSetup(leaving, 3, traffic=False), tmp_path).scene.egoObject.position
    assert tuple(bay[:2]) != pytest.approx(stage_of(wanted, tmp_path).spot(0.0)), "beside the road"
    assert (objects[0].position[0], objects[0].position[1]) == pytest.approx(tuple(bay[:2]))
    elsewhere = replace(setup(tmp_path, WALKER.replace("at place(0)", "at place(4)")), route=leaving)
    start = sampled(elsewhere, tmp_path).scene.egoObject.position
    assert (start[0], start[1]) == pytest.approx(stage_of(elsewhere, tmp_path).spot(4.0))


def stage_of(wanted: EpisodeSetup, maps: Path):
    assert wanted.route is not None
    return stage_for(wanted, road_for(wanted.route, program_of(wanted)[0], folder=maps))


def test_what_stands_inside_the_standard_scenario_is_drawn_again_or_refused(tmp_path: Path) -> None:
    place = 'new Wheeled at place({at}), facing stage.heading(0), with kind "van"\n'
    obstacle = float(BLOCKED.params["distance"])  # m beyond the trigger point
    inside = setup(tmp_path, HEAD + place.format(at=f"stage.trigger_s + {obstacle}"))
    with pytest.raises(
        InvalidScene, match=r"p\.scenic: its van stands inside a car of the standard scenario .*--config alone=true"
    ):
        sampled(inside, tmp_path)
    assert sampled(replace(inside, alone=True), tmp_path)
    text = (
        HEAD
        + f"param gap = Range({obstacle - 20}, {obstacle + 8})\n"
        + place.format(at="stage.trigger_s + globalParameters.gap")
    )
    assert abs(sampled(setup(tmp_path, text), tmp_path).drawn["gap"] - obstacle) > 3


@pytest.mark.parametrize("scenario", ["ParkedObstacle", "SignalizedJunctionRightTurn"])
def test_both_compile_and_sample_under_the_carla_model(scenario: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    objects = sampled(setup(tmp_path, WALKER, scenario), tmp_path, CARLA).scene.objects
    roles = [getattr(o, "role", "") for o in objects[1:]]
    assert roles.count("scenario") == 1
    assert roles.count("standard") == len(roles) - 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("new Car at plaice(3)", r"p\.scenic, line 4: NameError: name 'plaice' is not defined"),
        ("option('what')", r"a program of the catalogue plays by its route's scenario type"),
    ],
)
def test_an_error_names_the_line_of_the_program(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error) as caught:
        sampled(setup(tmp_path, HEAD + line + "\n"), tmp_path)
    assert re.search(message, str(caught.value))


def test_the_free_parameters_are_those_of_the_program(tmp_path: Path) -> None:
    wanted = setup(tmp_path, WALKER)
    road = road_for(BLOCKED, program_of(wanted)[0], folder=tmp_path)
    close_running()
    assert wanted.program is not None
    assert set(space_for(wanted.program, MODEL, params_for(wanted, road, stage_for(wanted, road)))) == {"due"}
