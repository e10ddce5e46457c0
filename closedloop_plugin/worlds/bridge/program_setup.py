"""Inputs for compiling an episode's Scenic program: file, stage, params and road, from an EpisodeSetup."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap, yaw_of_heading
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Pose, Route, RouteScenario
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.maps.base import CORRIDOR, RoadLayout, RoadMap, RouteSection
from closedloop_plugin.scenarios.catalogue import CATALOGUE, HERE
from closedloop_plugin.scenarios.staging import RouteStaging, staging, undrivable
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for
from closedloop_plugin.worlds.bridge.faults.place import map_of
from closedloop_plugin.worlds.bridge.ground import path_ahead
from closedloop_plugin.worlds.bridge.session import close_running
from closedloop_plugin.worlds.bridge.stage import NO_FILE, ScenarioStage
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import file_sha256

TOWN_ROUTE_M = 200.0  # length of the path ahead for a user's program without a route
ROUTE = HERE / "route.scenic"  # the ego alone
SAME_PLACE_M = 5.0  # between a trigger point and the path
STOP_LINE_M = 30.0  # from a junction to its stop lines, at most
AT_START_M = 20.0  # from the start of the route to the trigger point of a ParkingExit, at most


def program_of(setup: EpisodeSetup, in_town: bool | None = None) -> tuple[RoadLayout, Path]:
    """Layout of the episode's road (used if it is generated) and program file. Raises Ad2Error for missing files.

    in_town: the road is that of a town (default: if the setup has its file).
    """
    if setup.route is None and setup.program is None:
        raise Ad2Error("an episode needs a route or a program")
    if setup.program is not None and not Path(setup.program).is_file():
        raise Ad2Error(f"{setup.program}: no such scenario program")
    if setup.town is not None and not Path(setup.town).is_file():
        raise MapError(setup.town, "this world", "no such map file; give an OpenDRIVE file (.xodr)")
    if setup.route is None:
        assert setup.program is not None
        return RoadLayout(), Path(setup.program)
    if (reason := undrivable(setup.route)) and not (setup.program and setup.alone):
        raise Ad2Error(f"route {setup.route.id}: {reason}")
    staged = _staging(setup, in_town)
    if setup.program is not None:
        return staged.layout, Path(setup.program)
    single = len(setup.route.played) == len(staged.played) == 1
    return staged.layout, CATALOGUE[staged.played[0].kind].program if single else ROUTE


def _staging(setup: EpisodeSetup, in_town: bool | None) -> RouteStaging:
    assert setup.route is not None
    return staging(setup.route, in_town=setup.town is not None if in_town is None else in_town)


def not_played(setup: EpisodeSetup, road: RoadMap | None, in_town: bool | None = None) -> dict[str, str]:
    """Reasons by the names of the route's scenarios that are not played; without those that a program replaces."""
    if setup.route is None or (setup.program is not None and setup.alone):
        return {}
    staged = _staging(setup, in_town)
    return {**staged.left, **({one.name: why for one in staged.played if (why := _misfit(setup, one, road))})}


def stage_for(setup: EpisodeSetup, road: RoadMap | None, in_town: bool | None = None) -> ScenarioStage:
    """The stage of the episode's program, with those of the scenarios that play under it."""
    route = setup.route
    placeholder = RoadMap(
        file=NO_FILE, source="town", town="", sha256="", path=RoutePath([(0.0, 0.0), (1.0, 0.0)]), pieces=()
    )
    stage = ScenarioStage(
        road=road or placeholder,
        params=route.params if route else {},
        kind="",
        trigger_s=_trigger_s(road, route.trigger) if route and road else 0.0,
        seed=setup.seed,
        timestep=setup.timestep,
        traffic=setup.traffic,
    )
    if route is None or not (setup.program is None or setup.keeps_standard):
        return stage
    played = [one for one in _staging(setup, in_town).played if not _misfit(setup, one, road)]
    several = len(route.played) > 1
    if setup.program is None:
        if played and not several:
            return _part(stage, played[0], label="")
        stage.kind = ROUTE.stem
    stage.parts = tuple(
        # One list of events, in the order in which they happen.
        replace(
            _part(stage, one, label=one.name if several else ""), base=setup.program is not None, events=stage.events,
            streams=[], signals={}, seed=stage.seed + number,
        )
        for number, one in enumerate(played)
    )  # fmt: skip
    return stage


def _part(stage: ScenarioStage, scenario: RouteScenario, label: str) -> ScenarioStage:
    """The stage of one scenario. One of several has the junction ahead of its trigger point as its only one."""
    road, trigger_s = stage.road, _trigger_s(stage.road, scenario.trigger)
    road = _road_at(road, scenario.trigger, trigger_s) if label else road
    return replace(stage, road=road, params=scenario.params, kind=scenario.kind, trigger_s=trigger_s, label=label)


def _trigger_s(road: RoadMap, trigger: Pose) -> float:
    """The trigger point's place on the path; of a path that meets itself, the one with the trigger's direction."""
    path, (x, y, yaw) = road.path, trigger
    s = path.locate(x, y)[0]
    if abs(wrap(path.pose(s)[2] - yaw)) < math.pi / 2:
        return s
    gaps = np.hypot(path.x - x, path.y - y)
    gaps[np.cos(path.yaw - yaw) < 0.5] = np.inf
    nearest = int(gaps.argmin())
    return float(path.s[nearest]) if gaps[nearest] < SAME_PLACE_M else s


def _road_at(road: RoadMap, trigger: Pose, trigger_s: float) -> RoadMap:
    """The road as one of several scenarios has it: with the junction that its trigger point has ahead.

    Without a stop line of the route before the trigger point: a light held red there would never let the ego reach it.
    """
    facts = road.facts_at.get(trigger, road.facts)
    junction = facts.get("junction")
    if junction is None:
        return replace(road, facts=facts, junctions=(), stop_lines=())
    start, end = junction["entry_s"], junction["exit_s"]
    x, y, _ = road.path.pose((start + end) / 2)
    reach = (end - start) / 2 + STOP_LINE_M
    lines = tuple(
        line for line in road.stop_lines
        if math.dist((line.x, line.y), (x, y)) < reach
        and (line.route_s is None or max(start - STOP_LINE_M, trigger_s - 1.0) < line.route_s < end)
    )  # fmt: skip
    return replace(road, facts=facts, junctions=((start, end),), stop_lines=lines)


def _misfit(setup: EpisodeSetup, scenario: RouteScenario, road: RoadMap | None) -> str:
    """Reason why one of a route's several scenarios cannot be played on this road, "" if it can."""
    assert setup.route is not None
    if road is None or len(setup.route.played) == 1:
        return ""
    needs = CATALOGUE[scenario.kind].layout.topology != CORRIDOR
    if needs and "junction" not in road.facts_at.get(scenario.trigger, road.facts):
        return "no junction lies ahead of its trigger point"
    if scenario.kind == "ParkingExit" and _trigger_s(road, scenario.trigger) > AT_START_M:
        return "the ego leaves its bay at the start of the route, not at this trigger point"
    return ""


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
            RoadLayout(), file,
        )  # fmt: skip
    except Ad2Error:  # no route can be traced from here: off the road, or against traffic
        measured = (RouteSection(0.0, path.length, "measured"),)
        return RoadMap(file=file, source="town", town=file.stem, sha256=file_sha256(file), path=path, pieces=measured)


def compile_for_carla(setup: EpisodeSetup, maps: Path) -> None:
    """Compile the episode's program with CARLA's model, without a server, and sample a scene: it plays in CARLA.

    maps: folder of made maps.

    Needs the package carla. Raises Ad2Error and InvalidScene as scene_for.
    """
    from closedloop_plugin.maps.build import road_for

    layout, file = program_of(setup)
    road = road_for(setup.route, layout, town=setup.town, folder=maps) if setup.route else None
    params = params_for(setup, road, stage_for(setup, road))
    close_running()
    with map_of(setup):
        scene_for(file, "closedloop_plugin.carla.world.model", params, setup.seed, setup.values)
