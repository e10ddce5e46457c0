"""The three examples for authors: they compile, act, can be survived, and defeat a blind driver.
Also the messages for mistakes in programs."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from support.running import REPO

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import run_episode
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.scenarios.suites.lookup import route_of
from closedloop_plugin.threats.spec import RULES as RULES_OF
from closedloop_plugin.threats.spec import Adversary, AdversaryLane, AdversarySide, Occluder, RoadKind, ThreatSpec
from closedloop_plugin.worlds.base import EpisodeSetup, World
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from lmms_eval_ad2.core.errors import Ad2Error

pytest.importorskip("scenic")
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.bridge.session import close_running

pytestmark = pytest.mark.integration

EXAMPLES = sorted((REPO / "configs" / "scenarios").glob("*.scenic"))
RULES = profile("bench2advlm")
CHILD = next(file for file in EXAMPLES if file.stem == "child_behind_van")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    made = EmbeddedWorld(tmp_path_factory.mktemp("maps"))
    yield made
    made.close()


def setup_of(file: Path, **more: Any) -> EpisodeSetup:
    return EpisodeSetup(route_of(file), 11, timestep=1 / RULES.hz, program=file, max_ticks=RULES.max_ticks, **more)


def run_example(world: World, setup: EpisodeSetup, driver: str, many: bool = True) -> EpisodeRecord:
    agent = make_agent(driver, profile=RULES)
    task = EpisodeTask("examples", "x", 0, setup, one_of_many=many)
    agent.start(task.key, setup.seed)
    conditions = EvaluationConditions(RULES, agent=agent.describe(), privileged=True)
    return run_episode(world, task, conditions, lambda request: DecisionResponse(agent.decide([request])[0])).record


def test_three_examples_on_demo_routes_two_of_which_have_catalogue_types() -> None:
    routes = [route for file in EXAMPLES if (route := route_of(file)) is not None]
    assert len(routes) == len(EXAMPLES) == 3
    assert all(route.suite == "demo_routes" for route in routes)
    named = {name for file in EXAMPLES for name in CATALOGUE if f"type {name}" in file.read_text("utf-8")}
    assert named == {"ParkingCutIn", "DynamicObjectCrossing"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_the_declared_parameters_are_searchable_and_have_units(file: Path, world: World) -> None:
    text = file.read_text("utf-8")
    lines = dict(re.findall(r"^param (\w+) = Range\(.*?\) *(.*)$", text, re.M))
    assert set(world.space(setup_of(file))) == set(lines)
    assert len(lines) >= 4
    assert all(re.match(r"# (m|s|m/s|%|degrees)[: ]", comment) for comment in lines.values())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_example_acts_and_only_the_expert_survives(file: Path, world: World) -> None:
    expert = run_example(world, setup_of(file), "expert", many=False)
    assert expert.success, expert.infractions
    assert [name for _, name in expert.events if not name.startswith("base ")][:2] == ["trigger", "act"]
    assert expert.drawn
    blind = run_example(world, setup_of(file), "steer-only", many=False)
    assert "act" in [name for _, name in blind.events]
    assert any(blind.infractions[kind] for kind in blind.infractions if kind.startswith("collisions"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_example_compiles_under_the_carla_model(file: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    route = route_of(file)
    assert isinstance(route, Route)
    road = road_for(route, CATALOGUE[route.scenario].layout, folder=tmp_path)
    stage = ScenarioStage(road, route.params, "", road.path.locate(*route.trigger[:2])[0], 3)
    options = {"writeCache": False, "useCache": False}
    params = {"map": str(road.file), "map_options": options, "stage": stage, "render": 0, "timestep": 0.05}
    close_running()  # Scenic cannot compile while a simulation runs
    found = scene_for(file, "closedloop_plugin.carla.world.model", params, 3)
    others = [o for o in found.scene.objects if o is not found.scene.egoObject]
    assert others and all(o.blueprint for o in others)


# -- mistakes ----------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("facing turned(van, 0), with kind", "facing turned(van, 0) with kind", "a comma is missing before 'with'"),
    ("StepOut(where,", "StepOt(where,", "NameError: name 'StepOt' is not defined"),
    ("globalParameters.ahead", "globalParameters.ahed", "ahed"),
    ('"right", off=1.2', '"right", offf=1.2', "unexpected keyword argument 'offf'"),
    ("Range(30, 45)", 'Range(30, "45")', "Range endpoint 45 is not a scalar"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES, ids=lambda text: text.split("(")[0][:20])
def test_an_error_names_file_line_and_scenics_message(
    right: str, wrong: str, message: str, world: World, tmp_path: Path
) -> None:
    lines = CHILD.read_text("utf-8").splitlines()
    row = next(i for i, line in enumerate(lines, 1) if right in line and not line.startswith("#"))
    file = tmp_path / "mine.scenic"
    file.write_text("\n".join(lines).replace(right, wrong))
    with pytest.raises(Ad2Error) as caught:
        world.reset(setup_of(file))
    error = str(caught.value)
    assert "\n" not in error and message in error
    assert re.match(rf"{re.escape(str(file))}, line ({row}|{row + 1}): ", error), error


def test_an_error_within_a_behaviour_is_reported_at_run_time(world: World, tmp_path: Path) -> None:
    text = EXAMPLES[1].read_text("utf-8")
    assert EXAMPLES[1].stem == "lost_load"
    file = tmp_path / "mine.scenic"
    file.write_text(text.replace("stage.ego_speed + 0.8", "stage.ego_sped + 0.8"))
    row = next(i for i, line in enumerate(text.splitlines(), 1) if "stage.ego_speed + 0.8" in line)
    with pytest.raises(Ad2Error, match=rf"mine\.scenic, line {row}: AttributeError: .*ego_sped"):
        run_example(world, setup_of(file), "still", many=False)
    record = run_example(world, setup_of(file), "still")  # one of many: the other episodes continue
    assert record.end == EndReason.INVALID and f"line {row}: AttributeError" in record.reason


def test_unsatisfiable_requirements_are_an_invalid_episode(world: World, tmp_path: Path) -> None:
    file = tmp_path / "mine.scenic"
    file.write_text(CHILD.read_text("utf-8") + "require pace > 50\n")
    record = run_example(world, setup_of(file), "still", many=False)
    assert record.end == EndReason.INVALID
    assert "no scene found in 2000 tries" in record.reason
    assert record.score_composed == 0.0 and not record.success


# -- docs/threats.md ---------------------------------------------------------------------------------------------------

MANUAL = (REPO / "docs" / "threats.md").read_text("utf-8")
ACTIONS = Path(CATALOGUE["ParkingCutIn"].program).parent
GROUPS = {
    "vehicles": "car, van, truck, bus, motorcycle",
    "services": "police, ambulance, firetruck",
    "on foot": "pedestrian, child, animal",
    "things": "debris, cones, barrier",
}
NUMBERS = {"speed": "speed_mps", "stay": "stays_s"}


def words(cell: str, vocabulary: type[StrEnum]) -> set[str]:
    """The values that a table cell names: groups, single words, "any", "any but ...", or none."""
    if cell.startswith("any"):
        return {e.value for e in vocabulary} - set(cell.removeprefix("any").removeprefix(" but ").split(", "))
    named = ", ".join(GROUPS.get(word, word) for word in cell.split(", "))
    return {"none"} if named == "–" else set(named.split(", "))


def test_the_vocabulary_of_the_manual_is_that_of_the_rules() -> None:
    text = " ".join(MANUAL.split())  # lines may be broken anywhere
    for name, members in GROUPS.items():
        assert f"*{name}*: {members}" in text
    table = MANUAL.split("| behaviour | adversary |")[1].split("\n\n")[0]
    rows = [re.split(r" \| ", row) for row in re.findall(r"^\| `(\w+` \| .*) \|$", table, re.M)]
    shown = {row[0].rstrip("`"): row[1:] for row in rows}
    assert set(shown) == {behaviour.value for behaviour in RULES_OF}
    for behaviour, rule in RULES_OF.items():
        adversary, side, lane, road, occluder, numbers = shown[behaviour.value]
        assert words(adversary, Adversary) == set(rule.adversaries), behaviour
        assert words(side, AdversarySide) == set(rule.sides), behaviour
        assert words(lane, AdversaryLane) == set(rule.lanes), behaviour
        assert words(road, RoadKind) == set(rule.roads), behaviour
        assert words(occluder, Occluder) == set(rule.occluders), behaviour
        assert [NUMBERS[n] for n in numbers.split(", ") if n != "–"] == list(rule.numbers), behaviour


def test_the_bounds_of_the_manual_are_those_of_the_spec() -> None:
    schema = str(ThreatSpec.model_json_schema())
    for bounds in ("m, 5 to 80", "m/s, 0.3 to 18", "s, 1 to 25", "percent, 0 to 100", "-60 to 90"):
        assert bounds in schema
    for bounds in (
        "5 to 80 m",
        "0.3 to 18 m/s",
        "1 to 25 s",
        "0 to 100 %",
        "-60 to 90 degrees",
        "0.5 to 8 s",
        "4 to 60 m",
    ):
        assert bounds in MANUAL


def test_the_manual_lists_every_behaviour_with_its_arguments() -> None:
    """As `| `NAME(ARGUMENTS)` | its docstring |`; a failure shows missing and superfluous rows."""
    part = re.compile(r'^(behavior|monitor) (\w+)\((.*?)\):\n    """', re.M)
    texts = [(ACTIONS / f"{n}.scenic").read_text("utf-8") for n in ("places", "actions_traffic", "actions_crossing")]
    defined = {f"{name}({arguments})" for text in texts for _, name, arguments in part.findall(text)}
    shown = set(re.findall(r"^\| (?:monitor )?`([A-Z]\w*\(.*?\))` \|", MANUAL, re.M))
    in_library = {"Ride()", "Begin()", "Conduct(convoy, acts=True)", "LendOncomingLane(last)"}
    assert defined ^ (shown - in_library) == set()


def test_every_place_of_the_manual_exists() -> None:
    table = MANUAL[MANUAL.index("| place, rail, moment |") : MANUAL.index("Actors, rails and `stage`")]
    names = set(re.findall(r"`([a-z_]+)\(", table))
    text = "".join(file.read_text("utf-8") for file in ACTIONS.glob("*.scenic"))
    assert len(names) > 12
    assert {name for name in names if f"def {name}(" not in text} == set()
