"""Inputs for compiling an episode's Scenic program: file, stage, params and road, from an EpisodeSetup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout, RoadMap, RouteSection
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene
from closedloop_plugin.worlds.bridge.ground import path_ahead
from closedloop_plugin.worlds.bridge.stage import NO_FILE, ScenarioStage
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import file_sha256

TOWN_ROUTE_M = 200.0  # length of the path ahead for a user's program without a route


def program_of(setup: EpisodeSetup) -> tuple[RoadLayout, Path]:
    """Layout of the episode's road (used if it is generated) and program file. Raises Ad2Error for missing files."""
    if setup.route is None and setup.program is None:
        raise Ad2Error("an episode needs a route or a program")
    if setup.program is not None and not Path(setup.program).is_file():
        raise Ad2Error(f"{setup.program}: no such scenario program")
    if setup.town is not None and not Path(setup.town).is_file():
        raise Ad2Error(f"{setup.town}: no such map file; give an OpenDRIVE file (.xodr)")
    if setup.route is None:
        assert setup.program is not None
        return RoadLayout(), Path(setup.program)
    return _catalogue_entry(setup.route, setup.program, setup.alone)


def _catalogue_entry(route: Route, program: Path | None, alone: bool) -> tuple[RoadLayout, Path]:
    """Layout and program of a route's scenario type. With a user's program the type may be unknown."""
    from closedloop_plugin.scenarios.catalogue import CATALOGUE, undrivable

    info = CATALOGUE.get(route.scenario)
    if program is not None and (info is None or alone):
        return info.layout if info else RoadLayout(), Path(program)
    if reason := undrivable(route):
        raise Ad2Error(f"route {route.id}: {reason}")
    assert info is not None
    return info.layout, Path(program or info.program)


def stage_for(setup: EpisodeSetup, road: RoadMap | None) -> ScenarioStage:
    route = setup.route
    params = route.params if route else {}
    placeholder = RoadMap(
        file=NO_FILE, source="town", town="", sha256="", path=RoutePath([(0.0, 0.0), (1.0, 0.0)]), pieces=()
    )
    trigger = road.path.locate(*route.trigger[:2])[0] if route and road else 0.0
    kind = route.scenario if route and setup.program is None else ""
    stage = ScenarioStage(
        road=road or placeholder,
        params=params,
        kind=kind,
        trigger_s=trigger,
        seed=setup.seed,
        timestep=setup.timestep,
        traffic=setup.traffic,
    )
    if route and setup.keeps_standard and _known(route.scenario):
        # One list of events, in the order in which they happen.
        stage.standard = replace(stage, kind=route.scenario, base=True, events=stage.events, signals={})
    return stage


def _known(scenario: str) -> bool:
    from closedloop_plugin.scenarios.catalogue import CATALOGUE

    return scenario in CATALOGUE


def params_for(setup: EpisodeSetup, road: RoadMap | None, stage: ScenarioStage) -> dict[str, Any]:
    map_file = road.file if road else setup.town
    params: dict[str, Any] = {
        "map_options": {"writeCache": False, "useCache": False},  # a cache beside the map is a pickle of unknown origin
        "stage": stage,
        "render": False,
        "timestep": setup.timestep,
    }
    return {**params, "map": str(map_file)} if map_file else params


def road_ahead(
    compiled: CompiledScene, network: Any, road_for: Callable[[Route, RoadLayout, Path | None], RoadMap]
) -> RoadMap:
    """Road of a user's program without a route: straight ahead from its ego."""
    ego = compiled.scene.egoObject
    x, y, yaw = float(ego.position[0]), float(ego.position[1]), yaw_of_heading(float(ego.heading))
    path = path_ahead(network, x, y, yaw, TOWN_ROUTE_M)
    file = Path(compiled.scene.params["map"])
    points = tuple((float(px), float(py)) for px, py in path.xy[::4])
    try:
        return road_for(
            Route(id="program", town=file.stem, points=points, scenario="", scenario_name="", trigger=(x, y, yaw)),
            RoadLayout(),
            file,
        )
    except Ad2Error:  # no route can be traced from here: off the road, or against traffic
        sha = file_sha256(file)
        return RoadMap(
            file=file,
            source="town",
            town=file.stem,
            sha256=sha,
            path=path,
            pieces=(RouteSection(0.0, path.length, "measured"),),
        )
