"""From a Setup to what a Scenic program is compiled with: its file, its stage, its params, its way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout, RoadMap, RouteSection
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene
from closedloop_plugin.worlds.bridge.ground import way_ahead
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from lmms_eval_ad2.errors import Ad2Error

TOWN_ROUTE_M = 200.0  # a user's program without a route: straight on for so long


def program_of(setup: EpisodeSetup) -> tuple[RoadLayout, File]:
    """The layout that the episode's road should have where it is drawn, and its program."""
    if setup.route is None and setup.program is None:
        raise Ad2Error("an episode needs a route or a program")
    if setup.program is not None and not File(setup.program).is_file():
        raise Ad2Error(f"{setup.program}: no such scenario program")
    if setup.town is not None and not File(setup.town).is_file():
        raise Ad2Error(f"{setup.town}: no such map file; give an OpenDRIVE file (.xodr)")
    if setup.route is None:
        assert setup.program is not None
        return RoadLayout(), File(setup.program)
    return _known(setup.route, setup.program)


def _known(route: Route, program: File | None) -> tuple[RoadLayout, File]:
    """Layout and program of a route's scenario type; a user's program needs no known type."""
    from closedloop_plugin.scenarios.catalogue import CATALOGUE

    info = CATALOGUE.get(route.scenario)
    if program is not None:
        return info.layout if info else RoadLayout(), File(program)
    if info is None:
        raise Ad2Error(f"route {route.id}: no program for scenario type {route.scenario!r}; known: {sorted(CATALOGUE)}")
    lacking = [name for name in info.needs if name not in route.params]
    if lacking:
        raise Ad2Error(f"route {route.id}: a {route.scenario} needs {' and '.join(lacking)} (x, y, z) in its scenario")
    return info.layout, File(info.program)


def stage_for(setup: EpisodeSetup, road: RoadMap | None) -> ScenarioStage:
    route = setup.route
    params = route.params if route else {}
    nowhere = RoadMap(File(), "town", "", "", RoutePath([(0.0, 0.0), (1.0, 0.0)]), ())
    trigger = road.path.locate(*route.trigger[:2])[0] if route and road else 0.0
    kind = route.scenario if route and setup.program is None else ""
    return ScenarioStage(road or nowhere, params, kind, trigger, setup.seed, setup.timestep, setup.traffic)


def params_for(setup: EpisodeSetup, road: RoadMap | None, stage: ScenarioStage) -> dict[str, Any]:
    map_file = road.file if road else setup.town
    params: dict[str, Any] = {
        "map_options": {"writeCache": False, "useCache": False},  # a cache beside the map is a pickle of unknown origin
        "stage": stage,
        "render": False,
        "timestep": setup.timestep,
    }
    return {**params, "map": str(map_file)} if map_file else params


def straight_on(
    compiled: CompiledScene, network: Any, road_for: Callable[[Route, RoadLayout, File | None], RoadMap]
) -> RoadMap:
    """The road of a user's program without a route: from its ego straight on."""
    ego = compiled.scene.egoObject
    x, y, yaw = float(ego.position[0]), float(ego.position[1]), yaw_of_heading(float(ego.heading))
    path = way_ahead(network, x, y, yaw, TOWN_ROUTE_M)
    file = File(compiled.scene.params["map"])
    points = tuple((float(px), float(py)) for px, py in path.xy[::4])
    try:
        return road_for(Route("program", file.stem, points, "", "", (x, y, yaw)), RoadLayout(), file)
    except Ad2Error:  # the ego stands where no route can be traced: off the road, against the traffic
        sha = hashlib.sha256(file.read_bytes()).hexdigest()
        return RoadMap(file, "town", file.stem, sha, path, (RouteSection(0.0, path.length, "measured"),))
