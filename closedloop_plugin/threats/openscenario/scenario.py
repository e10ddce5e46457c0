"""ScenarioFile: one generated threat as an OpenSCENARIO tree with parameters, and what the tree does not express."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.threats.openscenario import crossing, traffic
from closedloop_plugin.threats.openscenario.entities import entity, world_position
from closedloop_plugin.threats.openscenario.environment import environment
from closedloop_plugin.threats.openscenario.expressions import merge
from closedloop_plugin.threats.openscenario.library import MINOR, xosc
from closedloop_plugin.threats.openscenario.scene import SampledActor, SceneDraw, SceneSamples
from closedloop_plugin.threats.openscenario.story import ActorStory, StoryScene
from closedloop_plugin.threats.spec import EgoLight, ThreatSpec
from closedloop_plugin.worlds.bridge.params import WEATHER

WRITERS = {**crossing.WRITERS, **traffic.WRITERS}
SILENT = frozenset({"StandHidden", "SlowDown"})  # behaviours that do not record the event "act"
LENDS = "LendOncomingLane"
MONITORS = frozenset({LENDS, "RedThenGreen"})
# Fields of the spec that the actors, lights and weather of the program express, and texts for readers.
FIELDS = frozenset({
    "adversary", "behaviour", "place", "trigger", "road", "speed_mps", "stays_s", "occluder", "ego_light", "conditions",
    "further", "weakness", "description", "why",
})  # fmt: skip
AUTHOR = "lmms-eval-ad2"
STEP_M = 20.0  # between waypoints of the ego's route
END_M = 1.0  # before the end of the route: the scenario ends


@dataclass(frozen=True, kw_only=True)
class ScenarioRequest:
    """What is written besides the samples. `road_file`: OpenDRIVE file name, or a town's name."""

    description: str
    spec: ThreatSpec
    road_file: str
    date: datetime
    max_seconds: float
    base: str = ""  # type of the standard scenario whose actors are kept; "" if they are dropped
    monitors: frozenset[str] = frozenset()  # Scenic monitors of the program


@dataclass(frozen=True)
class ScenarioFile:
    """`root`: the <OpenSCENARIO> element; `ranges`: parameters that are free in the file, with their bounds."""

    root: ET.Element
    ranges: Mapping[str, tuple[float, float]]
    missing: tuple[str, ...]


def scenario_file(samples: SceneSamples, request: ScenarioRequest) -> ScenarioFile:
    """The tree of a scenario. Ranges that expressions cannot reproduce are in `missing`, with the played values."""
    missing: list[str] = []
    roots = [_tree(draw, samples, request, missing) for draw in samples.draws]
    names = list(samples.free)
    values = np.array([[draw.values[name] for name in names] for draw in samples.draws])
    merged = merge(roots, names, values, WEATHER)
    root, played = merged.root, samples.played.values
    missing += [
        f"range of {name}: fixed at {played[name]:.4g}, since no expression gives {why}"
        for name, why in sorted(merged.fixed.items())
    ]
    _declare(root, {name: played[name] for name in names})
    missing = list(dict.fromkeys(missing))
    _order(root)
    _annotate(root, missing)
    ranges = {name: (d.low, d.high) for name, d in samples.free.items() if name not in merged.fixed}
    return ScenarioFile(root, ranges, tuple(missing))


def distribution(name: str, file: str, ranges: Mapping[str, tuple[float, float]], date: datetime) -> ET.Element:
    """The ParameterValueDistribution of a scenario file: uniform over each range, as Scenic samples."""
    lib = xosc()
    sampled = lib.Stochastic(1)
    for parameter, (low, high) in ranges.items():
        sampled.add_distribution(parameter, lib.UniformDistribution(lib.Range(low, high)))
    root = lib.ParameterValueDistribution(f"ranges of {name}", AUTHOR, file, sampled, MINOR).get_element()
    root.find("FileHeader").set("date", date.isoformat())
    return root


def _tree(draw: SceneDraw, samples: SceneSamples, request: ScenarioRequest, missing: list[str]) -> ET.Element:
    """The tree of one draw, with plain numbers. Extends `missing`."""
    lib, road = xosc(), samples.road
    acting = next((a for a in draw.actors if a.behaviour and a.behaviour not in SILENT), None)
    scene = StoryScene(road=road, trigger_s=samples.trigger_s, ego=draw.ego, acting=acting)
    entities = lib.Entities()
    for actor in (draw.ego, *draw.actors):
        entities.add_scenario_object(actor.name, entity(actor))
    board = lib.StoryBoard(_init(draw, scene, request, missing), _end(scene, request))
    story = lib.Story("threat")
    for actor in draw.actors:
        _add_act(story, scene, actor, missing)
    _lights(story, scene, draw, request.spec, missing)
    if story.acts:  # none if no behaviour can be expressed
        board.add_story(story)
    missing += _never(request)
    return lib.Scenario(
        request.description, AUTHOR, lib.ParameterDeclarations(), entities, board,
        lib.RoadNetwork(request.road_file), lib.Catalog(), MINOR, creation_date=request.date,
    ).get_element()  # fmt: skip


def _init(draw: SceneDraw, scene: StoryScene, request: ScenarioRequest, missing: list[str]) -> Any:
    lib = xosc()
    init = lib.Init()
    init.add_global_action(lib.EnvironmentAction(environment(draw.weather)))
    spec = request.spec
    if spec.ego_light is not EgoLight.CYCLE:
        ego, cross = ("green", "red") if spec.ego_light is EgoLight.GREEN else ("red", "green")
        for action in scene.signals(ego, cross):
            init.add_global_action(action)
    at_rest = lib.TransitionDynamics(lib.DynamicsShapes.step, lib.DynamicsDimension.time, 0.0)
    for actor in (draw.ego, *draw.actors):
        init.add_init_action(actor.name, lib.TeleportAction(world_position(actor, actor.x, actor.y, actor.yaw)))
        if actor.behaviour or actor is draw.ego:
            init.add_init_action(actor.name, lib.AbsoluteSpeedAction(0.0, at_rest))
        rail = actor.rail
        if actor is draw.ego or (rail is not None and rail.path is scene.road.path and rail.direction > 0):
            init.add_init_action(actor.name, lib.AssignRouteAction(_route(scene.road.path, f"route_of_{actor.name}")))
        story = ActorStory(scene, actor)
        for action in story.lamps(actor.lamps, on=True):
            init.add_init_action(actor.name, action)
        missing += story.missing
    return init


def _route(path: RoutePath, name: str) -> Any:
    lib = xosc()
    route = lib.Route(name)
    count = max(round(path.length / STEP_M), 1)
    for i in range(count + 1):
        x, y, yaw = path.pose(path.length * i / count)
        route.add_waypoint(lib.WorldPosition(x, y, 0.0, yaw, 0.0, 0.0), lib.RouteStrategy.shortest)
    return route


def _end(scene: StoryScene, request: ScenarioRequest) -> Any:
    """The ego has driven its route, or the time is over."""
    lib = xosc()
    trigger = lib.Trigger("stop")
    driven = lib.TraveledDistanceCondition(scene.road.path.length - END_M)
    over = lib.SimulationTimeCondition(request.max_seconds, lib.Rule.greaterThan)
    none = lib.ConditionEdge.none
    for condition in (
        lib.EntityTrigger("route_driven", 0.0, none, driven, scene.ego.name, triggeringpoint="stop"),
        lib.ValueTrigger("time_over", 0.0, none, over, triggeringpoint="stop"),
    ):
        group = lib.ConditionGroup("stop")
        group.add_condition(condition)
        trigger.add_conditiongroup(group)
    return trigger


def _add_act(story: Any, scene: StoryScene, actor: SampledActor, missing: list[str]) -> None:
    """An act with the events of one actor; none for an object at rest."""
    if not actor.behaviour:
        return
    writer = WRITERS.get(actor.behaviour)
    written = ActorStory(scene, actor)
    if writer is None:
        written.miss(f"behaviour {actor.behaviour}")
    else:
        writer(written, *actor.arguments, **actor.named)
    missing += written.missing
    if written.events:
        _act(story, f"{actor.name}_{actor.behaviour}", actor.name, written.events)


def _act(story: Any, name: str, actor: str, events: list[Any]) -> None:
    lib = xosc()
    maneuver = lib.Maneuver(f"{name}_maneuver")
    for event in events:
        maneuver.add_event(event)
    group = lib.ManeuverGroup(f"{name}_group")
    if actor:
        group.add_actor(actor)
    group.add_maneuver(maneuver)
    start = lib.SimulationTimeCondition(0.0, lib.Rule.greaterOrEqual)
    act = lib.Act(name, lib.ValueTrigger(f"{name}_start", 0.0, lib.ConditionEdge.none, start))
    act.add_maneuver_group(group)
    story.add_act(act)


def _lights(story: Any, scene: StoryScene, draw: SceneDraw, spec: ThreatSpec, missing: list[str]) -> None:
    """RedThenGreen: the ego's light turns green after the ego has stood for `red_for` seconds."""
    lib = xosc()
    if any(line.control == "signal" for line in scene.road.stop_lines):
        if spec.ego_light is EgoLight.CYCLE:
            missing.append("traffic lights: their cycle")
        elif not scene.signal_ids:
            missing.append(f"traffic lights: {spec.ego_light.value} for the ego (ids of the town's signals)")
    if spec.ego_light is not EgoLight.RED or not scene.signal_ids:
        return
    lights = ActorStory(scene, draw.ego)
    stood = lib.StandStillCondition(draw.values["red_for"])
    waited = lib.EntityTrigger("ego_waits", 0.0, lib.ConditionEdge.none, stood, scene.ego.name)
    late = lib.ValueTrigger(
        "lights_late", 0.0, lib.ConditionEdge.none, lib.SimulationTimeCondition(3.0, lib.Rule.greaterThan)
    )
    lights.event("light", [[waited, late]], *scene.signals("green", "red"))
    _act(story, "traffic_lights", "", lights.events)
    missing.append("traffic lights: yellow before red, and waiting times that add up")


def _never(request: ScenarioRequest) -> list[str]:
    """Parts of every scenario that OpenSCENARIO has no elements for."""
    found = [f"the standard scenario's actors ({request.base})"] if request.base else []
    if LENDS in request.monitors:
        found.append("the ego may use the oncoming lane (a rule of the score)")
    found += [f"monitor {name}" for name in sorted(request.monitors - MONITORS)]
    parts = ((request.spec, FIELDS, ""), (request.spec.conditions, frozenset(WEATHER), "conditions."))
    for model, known, prefix in parts:
        chosen = model.model_dump(exclude_defaults=True)
        found += [f"{prefix}{name} of the spec" for name in chosen if name not in known]
    return found


def _declare(root: ET.Element, values: Mapping[str, float]) -> None:
    """Declare the free parameters with the played values."""
    lib, declared = xosc(), xosc().ParameterDeclarations()
    for name, value in values.items():
        declared.add_parameter(lib.Parameter(name, lib.ParameterType.double, f"{value:.6f}"))
    if values:
        root.insert(1, declared.get_element())  # behind the FileHeader


def _annotate(root: ET.Element, missing: Sequence[str]) -> None:
    """Name what the file does not express in a comment: the library does not read properties of the header."""
    lines = "".join(f"\n    {text.replace('--', '-')}" for text in missing)
    root.insert(0, ET.Comment(f" not expressed:{lines or ' nothing'}\n  "))


def _order(root: ET.Element) -> None:
    """Sort the parts of light actions as the schema demands: the type, then the state."""
    for action in root.iter("LightStateAction"):
        action[:] = sorted(action, key=lambda part: part.tag != "LightType")
