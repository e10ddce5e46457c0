"""Free parameters of a program: detection, sampling, fixing and reporting; weather. The 44 scenario types have none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS, PerceptionConditions
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import InvalidScene, ParameterDomain
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for, scenic, space_for
from closedloop_plugin.worlds.bridge.params import (
    PRESETS,
    RESERVED,
    WEATHER,
    perception_of,
    program_weather,
    weather_of,
)
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from lmms_eval_ad2.core.errors import Ad2Error

EMBEDDED = "closedloop_plugin.worlds.embedded.model"
FREE = """
param route = "demo:101"
param ahead = Range(10, 20)
param count = DiscreteRange(2, 5)
param who = Uniform("car", "van")
param mostly = Discrete({"x": 2, "y": 1})
param gap = TruncatedNormal(5, 2, 1, 9)
param searched = VerifaiRange(0, 1)
param whole = VerifaiDiscreteRange(1, 4)
param chosen = VerifaiOptions(["a", "b"])
param after = globalParameters.ahead + Range(0, 1)
param below = Range(0, globalParameters.ahead)
param spread = Normal(3, 1)
param constant = 3
param fog_density = Range(20, 60)
param cloudiness = 77
"""
REST = """
model scenic.domains.driving.model
ego = new Car at (0, 0), with regionContainedIn everywhere
"""
SPACE = {
    "ahead": ParameterDomain(10, 20),
    "count": ParameterDomain(2, 5, whole=True),
    "who": ParameterDomain(options=("car", "van")),
    "mostly": ParameterDomain(options=("x", "y")),
    "gap": ParameterDomain(1, 9),
    "searched": ParameterDomain(0, 1),
    "whole": ParameterDomain(1, 4, whole=True),
    "chosen": ParameterDomain(options=("a", "b")),
    "fog_density": ParameterDomain(20, 60),
}
DEPENDENT = {"after", "below", "spread"}

Draw = Callable[..., CompiledScene]


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The params that a world adds to those of a program. The map is read once, which takes most of the time."""
    pytest.importorskip("scenic")
    from scenic.domains.driving.roads import Network

    scenic()  # its patches replace the same method, and must come first
    folder = tmp_path_factory.mktemp("maps")
    road = road_for(suite("demo").routes[0], CATALOGUE["ParkedObstacle"].layout, folder=folder)
    stage = ScenarioStage(road, {}, "", 0.0, 1)
    options = {"writeCache": False, "useCache": False}
    network = Network.fromFile(str(road.file), **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "fromFile", lambda *_, **__: network)
        yield {"map": str(road.file), "map_options": options, "stage": stage, "render": False, "timestep": 0.05}


@pytest.fixture(scope="module")
def draw(params: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Draw:
    folder = tmp_path_factory.mktemp("programs")

    def compile_scene(text: str = FREE, seed: int = 1, values: Mapping[str, Any] | None = None) -> CompiledScene:
        file = folder / "mine.scenic"
        file.write_text(text + REST)
        return scene_for(file, EMBEDDED, params, seed, values)

    return compile_scene


@pytest.mark.integration
def test_the_space_contains_the_params_with_constant_bounds(params: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.scenic"
    file.write_text(FREE + REST)
    assert space_for(file, EMBEDDED, params) == SPACE


@pytest.mark.integration
def test_random_params_are_within_their_bounds_and_reported_as_plain_values(draw: Draw) -> None:
    drawn = draw().drawn
    assert set(drawn) == set(SPACE) | DEPENDENT  # also the dependent ones, which cannot be searched
    for name, domain in SPACE.items():
        value = drawn[name]
        assert type(value) in (int, float, str)
        if domain.options:
            assert value in domain.options
        else:
            assert domain.low <= value <= domain.high
            assert type(value) is (int if domain.whole else float)
    assert 0 <= drawn["after"] - drawn["ahead"] <= 1
    assert 0 <= drawn["below"] <= drawn["ahead"]


@pytest.mark.integration
def test_sampled_values_depend_only_on_the_seed(draw: Draw) -> None:
    seeds = [draw(seed=s).drawn for s in (1, 2, 3)]
    assert draw(seed=1).drawn == seeds[0]
    for name in ("ahead", "fog_density", "searched", "spread"):  # Scenic's halton would give each its first point
        assert len({d[name] for d in seeds}) == 3, name


@pytest.mark.integration
def test_given_values_override_sampled_ones_and_are_reported(draw: Draw) -> None:
    values = {"ahead": 33.5, "count": 4, "who": "van", "searched": 0.25, "constant": 9, "fog_density": 0}
    drawn = draw(values=values).drawn
    assert {name: drawn[name] for name in values} == values  # values outside the program's bounds are allowed
    assert 33.5 <= drawn["after"] <= 34.5  # the dependent param follows


@pytest.mark.integration
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ahed": 12}, r"has no param 'ahed' to be set; its free parameters: ahead, count, who, "),
        ({"ahead": "far"}, r"param ahead is a number \(10 to 20\), found 'far'"),
        ({"ahead": True}, "found True"),
        ({"ahead": math.nan}, "found nan"),
        ({"gap": math.inf}, "found inf"),
        ({"count": 2.5}, r"param count is a whole number \(2 to 5\), found 2.5"),
        ({"who": "tank"}, "param who is one of car, van, found 'tank'"),
        ({"searched": "x"}, "found 'x'"),
    ],
)
def test_an_invalid_value_is_refused_in_one_line(draw: Draw, values: Mapping[str, Any], message: str) -> None:
    with pytest.raises(Ad2Error, match=message) as caught:
        draw(values=values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_params_cannot_be_set(draw: Draw, name: str) -> None:
    with pytest.raises(Ad2Error, match=f"'{name}' is no parameter of the scenario"):
        draw(values={name: "x"})


@pytest.mark.integration
def test_values_for_a_program_without_free_params_are_refused(draw: Draw) -> None:
    assert draw("param timeout = Range(1, 2)\n").drawn == {}  # a reserved name
    with pytest.raises(Ad2Error, match="its free parameters: none"):
        draw("", values={"ahead": 1})


@pytest.mark.integration
def test_an_error_before_the_param_is_reported_with_its_own_line(draw: Draw) -> None:
    with pytest.raises(Ad2Error, match=r"mine\.scenic, line 1: ZeroDivisionError"):
        draw("x = 1 / 0\nparam ahead = Range(1, 2)\n", values={"ahead": 1})


@pytest.mark.integration
def test_a_failed_compilation_restores_scenic(draw: Draw) -> None:
    import scenic.syntax.veneer as veneer

    original = veneer.param
    with pytest.raises(Ad2Error):
        draw("x = 1 / 0\n")
    assert veneer.param is original
    assert draw("param ahead = 4\n").drawn == {}


@pytest.mark.integration
def test_weather_params_replace_those_of_the_route(draw: Draw) -> None:
    compiled = draw()
    weather = weather_of(compiled.scene, Weather(precipitation=12.0, cloudiness=5.0))
    assert (weather.fog_density, weather.cloudiness) == (compiled.drawn["fog_density"], 77.0)
    assert weather.precipitation == 12.0


@pytest.mark.integration
@pytest.mark.parametrize("value", ['"thick"', "True", "[1]", 'float("inf")'])
def test_a_weather_param_that_is_no_number_is_refused(draw: Draw, value: str) -> None:
    with pytest.raises(Ad2Error, match="param fog_density: expected a number"):
        weather_of(draw(f"param fog_density = {value}\n").scene, Weather())


def test_the_44_types_have_no_parameters() -> None:
    for name, info in CATALOGUE.items():
        assert not re.search(r"^param\b", info.program.read_text("utf-8"), re.M), name


# Recorded with version 0.6.0: demo:101, seed 3; class, x, y, heading.
PARKED = [
    ("Car", 100.0, -40.0, -1.570796),
    ("Thing", 112.0, -43.55, -1.570796),
    ("Wheeled", 144.0, -41.225, -1.570796),
    ("Wheeled", 78.0, -36.5, -1.570796),
    ("Wheeled", 52.262899, -36.5, -1.570796),
    ("Wheeled", 27.178323, -36.5, -1.570796),
    ("Wheeled", -62.821677, -36.5, -1.570796),
    ("Wheeled", -85.750485, -36.5, -1.570796),
    ("Wheeled", -108.231648, -36.5, -1.570796),
]


@pytest.mark.integration
def test_the_scene_of_a_type_without_params_is_unchanged(params: dict[str, Any]) -> None:
    """Detecting free parameters must not change the random numbers of a scene."""
    route = suite("demo").routes[0]
    road = params["stage"].road
    stage = ScenarioStage(road, route.params, route.scenario, road.path.locate(*route.trigger[:2])[0], 3)
    scene = scene_for(CATALOGUE[route.scenario].program, EMBEDDED, {**params, "stage": stage}, 3)
    found = [
        (type(o).__name__, *(round(float(v), 6) for v in (o.position[0], o.position[1], o.heading)))
        for o in scene.scene.objects
    ]
    assert [row[0] for row in found] == [row[0] for row in PARKED]
    assert [v for row in found for v in row[1:]] == pytest.approx([v for row in PARKED for v in row[1:]], abs=2e-6)
    assert scene.drawn == {}


# -- conditions of the pictures ----------------------------------------------------------------------------------------


@pytest.mark.integration
def test_perception_params_are_read_and_recorded(draw: Draw) -> None:
    text = 'param worn_markings = Range(40, 80)\nparam lens_drops = 20\nparam contradictory_sign = "stop"\n'
    compiled = draw(text)
    found = perception_of(compiled.scene, PERCEPTION_CONDITIONS, "embedded")
    assert found == PerceptionConditions(compiled.drawn["worn_markings"], 0.0, 20.0, 0.0, "stop")
    assert compiled.drawn["lens_drops"] == 20 and compiled.drawn["contradictory_sign"] == "stop"
    assert perception_of(draw("").scene, (), "embedded") == PerceptionConditions()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('worn_markings = "all"', "expected a percentage, 0 to 100, found 'all'"),
        ("sun_glare = 101", "expected a percentage, 0 to 100, found 101"),
        ("contradictory_sign = 3", "expected one of stop, no_entry, speed_90, found 3"),
    ],
)
@pytest.mark.integration
def test_a_wrong_perception_param_is_refused(draw: Draw, text: str, says: str) -> None:
    with pytest.raises(Ad2Error, match=says):
        perception_of(draw(f"param {text}\n").scene, PERCEPTION_CONDITIONS, "embedded")


@pytest.mark.integration
def test_a_world_that_does_not_show_a_condition_invalidates_the_episode(draw: Draw) -> None:
    scene = draw("param worn_markings = 50\nparam lens_drops = 0\n").scene
    with pytest.raises(InvalidScene, match=r"the carla world do not show worn_markings .*it shows lens_drops"):
        perception_of(scene, ("lens_drops",), "carla")


@pytest.mark.integration
def test_the_presets_are_carlas() -> None:
    carla = pytest.importorskip("carla")
    parameters = carla.WeatherParameters
    if not hasattr(parameters, "ClearNoon"):
        pytest.skip("a stand-in for the carla package")
    known = {name for name in dir(parameters) if isinstance(getattr(parameters, name), parameters)} - {"Default"}
    assert known == set(PRESETS)
    for name, weather in PRESETS.items():
        assert [getattr(weather, x) for x in WEATHER] == pytest.approx(
            [getattr(getattr(parameters, name), x) for x in WEATHER]
        )


def test_a_preset_or_single_parameters_replace_the_weather() -> None:
    route = Weather(cloudiness=30.0, fog_density=9.0)
    assert program_weather(None, route) is route
    found = program_weather("HardRainSunset", route)
    assert (found.precipitation, found.sun_altitude_angle, found.fog_density) == (100.0, 15.0, 7.0)
    assert program_weather({"precipitation": 40}, route) == Weather(
        cloudiness=30.0, fog_density=9.0, precipitation=40.0
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ClearNon", "no preset 'ClearNon'; did you mean 'ClearNoon'"),
        ({"fog": 3}, r"unknown 'fog' .known: cloudiness"),
        ({"fog_density": "much"}, "fog_density: expected a number, found 'much'"),
        (3, "expected a preset's name or a dict, found int"),
    ],
)
def test_a_wrong_weather_is_named(value: Any, message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        program_weather(value, Weather())
