"""SceneDraw: the sampled actors, values and weather of a generated program, and the facts of its road.

Places come from the program itself: Scenic compiles it once and samples it several times, so that the export depends on
the same templates and library as the drives. Map frame of core/state.py, which is the frame of the OpenDRIVE file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.base import EpisodeSetup, ParameterDomain
from closedloop_plugin.worlds.bridge.compiled_scene import more_scenes, scene_for
from closedloop_plugin.worlds.bridge.params import WEATHER, space_of, weather_of
from closedloop_plugin.worlds.bridge.program_setup import params_for, program_of, stage_for
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.session import close_running
from closedloop_plugin.worlds.bridge.stage import STANDARD

MODEL = "closedloop_plugin.worlds.embedded.model"


@dataclass(frozen=True, kw_only=True)
class SampledActor:
    """An actor at the start: centre of its box (m), yaw (rad), size (m), and its Scenic behaviour with arguments."""

    name: str
    kind: str  # a value of core.state.ActorKind
    blueprint: str  # CARLA's
    x: float
    y: float
    yaw: float
    length: float
    width: float
    height: float
    lamps: frozenset[str] = frozenset()
    rail: Rail | None = None
    behaviour: str = ""  # "" for an object at rest
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    @property
    def on_foot(self) -> bool:
        return self.kind in ("pedestrian", "child", "animal")


@dataclass(frozen=True, kw_only=True)
class SceneDraw:
    """One sample of a program. `values`: of its parameters, the fixed ones included."""

    values: Mapping[str, float]
    ego: SampledActor
    actors: tuple[SampledActor, ...]
    weather: Weather


@dataclass(frozen=True, kw_only=True)
class SceneSamples:
    """Draws of one program. `played`: with the given values; `free`: its free parameters with their bounds."""

    road: RoadMap
    trigger_s: float
    free: Mapping[str, ParameterDomain]
    played: SceneDraw
    others: tuple[SceneDraw, ...]

    @property
    def draws(self) -> tuple[SceneDraw, ...]:
        return (self.played, *self.others)


def sample(
    program: Path,
    route: Route,
    *,
    town: Path | None,
    maps: Path,
    values: Mapping[str, Any] | None = None,
    seed: int = 0,
    alone: bool = False,
) -> SceneSamples:
    """Sample a program: once with `values` (default: the middle of each range), and as often as `expressions` needs.

    `alone`: without the route's standard scenario, whose actors are never part of the samples; with it, the ego starts
    where that scenario has it. `town`: OpenDRIVE file of the route's town, instead of a corridor map, which is written
    to the folder `maps`.
    Raises Ad2Error for a program or a map that cannot be used, InvalidScene if no sample satisfies its requirements.
    """
    setup = EpisodeSetup(route, seed, program=program, alone=alone, town=town)
    layout, file = program_of(setup)
    road = road_for(route, layout, town=town, folder=maps)
    stage = stage_for(setup, road)
    params = params_for(setup, road, stage)
    close_running()
    compiled = scene_for(file, MODEL, params, seed)
    free = {name: domain for name, domain in space_of(compiled.scenario).items() if not domain.options}
    count = draws_needed(sum(name not in WEATHER for name in free), sum(name in WEATHER for name in free))
    others = [compiled.scene, *more_scenes(compiled, count - 1 if free else 0)]
    middle = {name: (domain.low + domain.high) / 2 for name, domain in free.items()}
    wanted = {name: float((values or {}).get(name, middle[name])) for name in free}
    close_running()
    played = scene_for(file, MODEL, params, seed, wanted).scene if wanted else compiled.scene
    return SceneSamples(
        road=road,
        trigger_s=stage.trigger_s,
        free=free,
        played=_draw(played, route),
        others=tuple(_draw(scene, route) for scene in others) if free else (),
    )


def draws_needed(*parameters: int) -> int:
    """Draws for a fit of degree 2 in that many parameters, twice its number of terms; for the largest group."""
    return max(2 * (1 + n + n * (n + 1) // 2) for n in parameters)


def _draw(scene: Any, route: Route) -> SceneDraw:
    number = {name: float(v) for name, v in scene.params.items() if type(v) in (int, float)}
    kinds: dict[str, int] = {}
    actors = []
    for body in scene.objects:
        if body is scene.egoObject or getattr(body, "role", "") == STANDARD:
            continue
        kind = str(body.kind).replace(" ", "_")
        kinds[kind] = kinds.get(kind, 0) + 1
        actors.append(_actor(body, f"{kind}_{kinds[kind]}"))
    return SceneDraw(
        values=number,
        ego=_actor(scene.egoObject, "ego"),
        actors=tuple(actors),
        weather=weather_of(scene, route.weather),
    )


def _actor(body: Any, name: str) -> SampledActor:
    behaviour = body.behavior
    return SampledActor(
        name=name,
        kind=str(getattr(body, "kind", "car")),
        blueprint=str(getattr(body, "blueprint", "") or ""),
        x=float(body.position[0]),
        y=float(body.position[1]),
        yaw=yaw_of_heading(float(body.heading)),
        length=float(body.length),
        width=float(body.width),
        height=float(body.height),
        lamps=frozenset(getattr(body, "lamps", ())),
        rail=getattr(body, "rail", None),
        behaviour="" if behaviour is None else type(behaviour).__name__,
        arguments=() if behaviour is None else tuple(behaviour._args),
        named={} if behaviour is None else dict(behaviour._kwargs),
    )
