"""The programs: each of the 44 compiles and samples under three world models, and reads all that its routes say."""

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


class Asked(dict):
    """Parameters that remember which of them were looked at."""

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
def richest(data_dir: Path) -> dict[str, Route]:
    """Of each type the route with the most parameters."""
    file = data_dir / "bench2drive" / "bench2drive220.xml"
    if not file.is_file():
        pytest.skip("the 220 routes are not here")
    best: dict[str, Route] = {}
    for route in read_routes(file):
        known = best.get(route.scenario)
        if known is None or len(route.params) > len(known.params):
            best[route.scenario] = route
        assert set(route.params) == set(best[route.scenario].params), f"{route.id}: other parameters than its type"
    return best


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory, richest: dict[str, Route]) -> dict[str, RoadMap]:
    folder = tmp_path_factory.mktemp("maps")
    return {name: road_for(richest[name], CATALOGUE[name].layout, folder=folder) for name in CATALOGUE}


def compiled(route: Route, road: RoadMap, model: str, seed: int = 3) -> tuple[CompiledScene, Asked]:
    asked = Asked(route.params)
    trigger = road.path.locate(*route.trigger[:2])[0]
    stage = ScenarioStage(road, asked, route.scenario, trigger, seed)
    params: dict[str, Any] = {
        "map": str(road.file),
        "map_options": {"writeCache": False, "useCache": False},
        "stage": stage,
        "render": 0,
        "timestep": 0.05,
    }
    return scene_for(CATALOGUE[route.scenario].program, MODELS[model], params, seed), asked


# Each type under the embedded and the CARLA model; under the plain one, one type of each program.
FIRST = {info.program: name for name, info in reversed(CATALOGUE.items())}
PAIRS = [(n, m) for n in sorted(CATALOGUE) for m in MODELS if m != "newtonian" or n in FIRST.values()]


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_compiles_samples_and_reads_its_route(
    name: str, model: str, richest: dict[str, Route], roads: dict[str, RoadMap], one_network_a_map: None
) -> None:
    if model == "carla" and importlib.util.find_spec("carla") is None:
        pytest.skip("the carla package is not installed")
    route, road = richest[name], roads[name]
    result, asked = compiled(route, road, model)
    assert set(route.params) <= asked.names, f"not read: {set(route.params) - asked.names}"
    ego = result.scene.egoObject
    s, d = road.path.locate(float(ego.position[0]), float(ego.position[1]))
    assert s < 1.0
    assert abs(d) < 0.1 or (name == "ParkingExit" and -3.2 < d < -2.8)
    others = [o for o in result.scene.objects if o is not ego]
    quiet = {"turn"}
    assert bool(others) == (CATALOGUE[name].archetype not in quiet)
    if model == "carla":
        assert all(o.blueprint for o in others)


def test_seeds_differ_and_repeat(richest: dict[str, Route], roads: dict[str, RoadMap], one_network_a_map: None) -> None:
    """Accident: the crashed cars stand askew by chance, the same way for the same seed."""

    def yaws(seed: int) -> list[float]:
        found, _ = compiled(richest["Accident"], roads["Accident"], "embedded", seed)
        return [float(o.heading) for o in found.scene.objects]

    assert yaws(1) == yaws(1)
    assert yaws(1) != yaws(2)
