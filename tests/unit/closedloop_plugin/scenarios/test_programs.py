"""The programs: each of the 44 compiles and samples under three world models, and reads all its routes' parameters."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

pytest.importorskip("scenic")
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for

pytestmark = pytest.mark.integration

pytest_plugins = ("support.closedloop.networks",)
MODELS = {
    "newtonian": "scenic.simulators.newtonian.driving_model",
    "embedded": "closedloop_plugin.worlds.embedded.model",
    "carla": "closedloop_plugin.carla.world.model",
}


class RecordingParams(dict):
    """Parameters that record which names were read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.fixture(scope="module")
def richest_routes(data_dir: Path) -> dict[str, Route]:
    """The route with the most parameters of each type."""
    file = data_dir / "bench2drive" / "bench2drive220.xml"
    if not file.is_file():
        pytest.skip("the 220 routes are not here")
    best: dict[str, Route] = {}
    for route in read_routes(file):
        previous = best.get(route.scenario)
        if previous is None or len(route.params) > len(previous.params):
            best[route.scenario] = route
        assert set(route.params) == set(best[route.scenario].params), f"{route.id}: other parameters than its type"
    return best


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory, richest_routes: dict[str, Route]) -> dict[str, RoadMap]:
    folder = tmp_path_factory.mktemp("maps")
    return {name: road_for(richest_routes[name], CATALOGUE[name].layout, folder=folder) for name in CATALOGUE}


def compiled(route: Route, road: RoadMap, model: str, seed: int = 3) -> tuple[CompiledScene, RecordingParams]:
    params_read = RecordingParams(route.params)
    trigger = road.path.locate(*route.trigger[:2])[0]
    stage = ScenarioStage(road, params_read, route.scenario, trigger, seed)
    params: dict[str, Any] = {
        "map": str(road.file),
        "map_options": {"writeCache": False, "useCache": False},
        "stage": stage,
        "render": 0,
        "timestep": 0.05,
    }
    return scene_for(CATALOGUE[route.scenario].program, MODELS[model], params, seed), params_read


# Each type under the embedded and the CARLA model; under the Newtonian one, one type of each program.
FIRST = {info.program: name for name, info in reversed(CATALOGUE.items())}
PAIRS = [(n, m) for n in sorted(CATALOGUE) for m in MODELS if m != "newtonian" or n in FIRST.values()]


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_a_program_compiles_samples_and_reads_all_parameters_of_its_route(
    name: str, model: str, richest_routes: dict[str, Route], roads: dict[str, RoadMap], one_network_a_map: None
) -> None:
    if model == "carla" and importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    route, road = richest_routes[name], roads[name]
    result, params_read = compiled(route, road, model)
    assert set(route.params) <= params_read.names, f"not read: {set(route.params) - params_read.names}"
    ego = result.scene.egoObject
    s, d = road.path.locate(float(ego.position[0]), float(ego.position[1]))
    assert s < 1.0
    assert abs(d) < 0.1 or (name == "ParkingExit" and -3.3 < d < -3.1)
    others = [o for o in result.scene.objects if o is not ego]
    without_actors = {"turn"}
    assert bool(others) == (CATALOGUE[name].archetype not in without_actors)
    if model == "carla":
        assert all(o.blueprint for o in others)


def test_a_scene_depends_only_on_the_seed(
    richest_routes: dict[str, Route], roads: dict[str, RoadMap], one_network_a_map: None
) -> None:
    """Accident: the crashed cars have random headings."""

    def yaws(seed: int) -> list[float]:
        found, _ = compiled(richest_routes["Accident"], roads["Accident"], "embedded", seed)
        return [float(o.heading) for o in found.scene.objects]

    assert yaws(1) == yaws(1)
    assert yaws(1) != yaws(2)
