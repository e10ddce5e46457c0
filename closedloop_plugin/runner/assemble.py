"""assemble: a DriveRun (tasks with seeds, worker configuration, run identity) from configuration, routes and driver.

Used by `ad2 drive run` and by the harness tasks, so that the same configuration gives the same scores in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.image_encoding import common_encodings
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.early_stop import STOP_AFTER_UNREAD
from closedloop_plugin.runner.episode import EvaluationConditions
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import DriveRun
from closedloop_plugin.runner.task import EpisodeTask, episode_seed, fresh_seed, shard
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.storage.code_state import code_identity, code_label
from lmms_eval_ad2.storage.files import file_sha256


@dataclass(frozen=True)
class RouteSelection:
    """Routes of a suite, with scenarios of the catalogue or a program per route; or one program on a map."""

    name: str  # of the suite, in every record
    sha256: str  # of the route file or the program
    all_ids: list[str]  # of the suite, in order; of a single program: the name of its episodes
    routes: tuple[Route, ...] = ()  # selected for this run
    program: Path | None = None
    programs: Mapping[str, Path] = field(default_factory=dict)  # route id -> program, in a suite of programs
    map: Path | None = None
    towns: Mapping[str, Path] = field(default_factory=dict)  # town -> OpenDRIVE file; other towns get corridor maps
    repetitions: int = 1
    shard: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)  # for the programs' free parameters
    alone: bool = False  # programs replace the standard scenarios of their routes
    draws: Mapping[str, int] = field(default_factory=dict)  # route id -> seed of the played draw of its program
    fresh: bool = False  # repetitions are other draws instead
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons of the routes that no mean includes, by id
    not_played: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # route id -> scenario -> reason


@dataclass(frozen=True)
class DriverSetup:
    """Fast and slow system. With a recipe each world process makes its own; the object here only describes it."""

    agent: Agent
    interpreter: Interpreter | None = None
    agent_recipe: FactoryRecipe | None = None
    interpreter_recipe: FactoryRecipe | None = None
    cameras: tuple[Camera, ...] = ()  # that the world renders: those of the agent, slow system, frames and films

    @property
    def seen(self) -> tuple[Camera, ...]:
        """The agent's cameras; if it has none, the front camera, if a model as slow system sees it."""
        if self.agent.cameras or self.interpreter is None or self.interpreter.mode == "rules":
            return self.agent.cameras
        return self.cameras[:1]  # the front camera is always first, see cameras_of


@dataclass(frozen=True)
class RunConfig:
    """Settings of a run. `track`, `recorders`: see WorkerConfig."""

    folder: Path
    world: FactoryRecipe
    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    seed: int = 0
    traffic: bool = True
    track: FactoryRecipe | None = None
    recorders: tuple[FactoryRecipe, ...] = ()
    limits: PoolLimits = field(default_factory=PoolLimits)
    engine: WorldEngine = field(default_factory=LocalEngine)
    stop_after_unread: int = STOP_AFTER_UNREAD
    retry_failed: bool = False
    quiet: bool = False


def assemble(config: RunConfig, selection: RouteSelection, driver: DriverSetup) -> DriveRun:
    """The run, to be started with run.run(drive_run, *remote(driver))."""
    conditions = EvaluationConditions(
        profile=config.profile,
        rules=config.rules,
        agent=driver.agent.describe(),
        interpreter=driver.interpreter.describe() if driver.interpreter else None,
        privileged=driver.agent.privileged,
        version=code_label(),
    )
    worker_config = WorkerConfig(
        world=config.world,
        conditions=conditions,
        agent=driver.agent_recipe,
        interpreter=driver.interpreter_recipe,
        interprets=driver.interpreter is not None,
        cameras=tuple(c.name for c in driver.cameras) if any(remote(driver)) else (),
        encodings=common_encodings(system for system in remote(driver) if system is not None),
        track=config.track,
        recorders=config.recorders,
    )
    return DriveRun(
        folder=config.folder,
        identity=_identity(config, selection, conditions, driver),
        selection=_selection_json(selection),
        tasks=shard(_tasks(config, selection, driver.cameras), selection.shard),
        worker_config=worker_config,
        limits=config.limits,
        engine=config.engine,
        stop_after_unread=config.stop_after_unread,
        retry_failed=config.retry_failed,
        quiet=config.quiet,
    )


def remote(driver: DriverSetup) -> tuple[Agent | None, Interpreter | None]:
    """Agent and interpreter of this process, which serve all worlds; None for one that each world process makes."""
    return (
        None if driver.agent_recipe else driver.agent,
        None if driver.interpreter_recipe else driver.interpreter,
    )


def _tasks(config: RunConfig, selection: RouteSelection, cameras: tuple[Camera, ...]) -> list[EpisodeTask]:
    """One task per route and repetition, by repetition, so that an interrupted run has complete passes of the suite."""
    base = EpisodeSetup(
        route=None,
        seed=0,
        cameras=cameras,
        timestep=1.0 / config.profile.hz,
        program=selection.program,
        alone=selection.alone,
        town=selection.map,
        traffic=config.traffic,
        values=selection.values,
        max_ticks=config.profile.max_ticks,
    )
    setups = [
        (r.id, replace(base, route=r, town=selection.towns.get(r.town), program=selection.programs.get(r.id)))
        for r in selection.routes
    ]
    if selection.program and not selection.routes:
        setups = [(selection.all_ids[0], base)]
    return [
        _task(config.seed, selection, name, k, setup) for k in range(selection.repetitions) for name, setup in setups
    ]


def _task(seed: int, selection: RouteSelection, name: str, k: int, setup: EpisodeSetup) -> EpisodeTask:
    """Repetition k of a route. A checked program has the same scene in all of them, if no fresh draws are wanted."""
    played, own = selection.draws.get(name), episode_seed(seed, name, k)
    draw, scene = ("", own) if played is None else ("played", played)
    if selection.fresh:
        draw, scene = "fresh", fresh_seed(seed, name, k, played)
    return EpisodeTask(
        suite=selection.name,
        route_id=name,
        repetition=k,
        setup=replace(setup, seed=scene),
        one_of_many=len(selection.programs) > 1,
        draw=draw,
        driver=own if draw else None,
    )


def config_identity(config: RunConfig, selection: RouteSelection) -> dict[str, Any]:
    """The part of the run identity that is known before a model is loaded."""
    latency = config.rules.latency
    return {
        "suite": selection.name,
        "suite_sha256": selection.sha256,
        "values": dict(selection.values) or None,
        **_of_programs(selection),
        "map_sha256": file_sha256(selection.map) if selection.map else None,
        "towns_sha256": {town: file_sha256(file) for town, file in selection.towns.items()},
        "profile": config.profile.name,
        "policy": config.rules.policy,
        "decision_hz": config.rules.decision_hz,
        "latency": {"label": latency.label, "values": list(latency.values)},
        "seed": config.seed,
        "world": config.world.target,
        "traffic": config.traffic,
        **code_identity(),
    }


def _of_programs(selection: RouteSelection) -> dict[str, Any]:
    """How programs on routes are played; None for routes of the catalogue, and for a program on a map."""
    if not selection.programs:
        return {"alone": None, "draws": None}
    draws = "fresh" if selection.fresh else "played" if selection.draws else "by seed"
    return {"alone": selection.alone, "draws": draws}


def _identity(
    config: RunConfig, selection: RouteSelection, conditions: EvaluationConditions, driver: DriverSetup
) -> dict[str, Any]:
    """Everything that must be equal when a run is resumed. The selection of routes may differ, and so may recordings:
    cameras used only for frames and films are not included."""
    return {
        **config_identity(config, selection),
        "agent": dict(conditions.agent),
        "interpreter": conditions.interpreter,
        "cameras": [camera.sized_name for camera in driver.seen],
    }


def _selection_json(selection: RouteSelection) -> dict[str, Any]:
    return {
        "routes": selection.all_ids,
        "asked": [r.id for r in selection.routes] or selection.all_ids,
        "repetitions": selection.repetitions,
        "shard": selection.shard,
        **({"left_out": dict(selection.left_out)} if selection.left_out else {}),
        **({"not_played": {k: dict(v) for k, v in selection.not_played.items()}} if selection.not_played else {}),
    }
