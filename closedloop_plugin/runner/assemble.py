"""RunConfig, a run; `assemble` adds tasks with seeds, the configuration of its workers and its identity.

Used by all that drive, so that the same configuration gives the same scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions, episode_seed, fresh_seed, shard
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.storage.identity import code_identity, code_label


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
    notes: tuple[str, ...] = ()  # printed below the scores
    drawn: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # route id -> values of its played draw


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
    """A run: its settings, and from `identity` on what `assemble` adds to them. `track`, `recorders`: see WorkerConfig.

    `identity` must be equal whenever the run is resumed; `selection` and `tasks` may differ. `agent`, `interpreter`:
    those of this process, which serve all worlds; None if each world process makes its own, or if there is none.
    """

    folder: Path
    world: FactoryRecipe
    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    seed: int = 0
    traffic: bool = True
    track: FactoryRecipe | None = None
    recorders: tuple[FactoryRecipe, ...] = ()
    limits: PoolLimits = field(default_factory=PoolLimits)
    engine: WorldEngine = field(default_factory=LocalEngine)  # neither in the identity nor in the records
    stop_after_unread: int = STOP_AFTER_UNREAD  # see EarlyStop
    retry_failed: bool = False
    quiet: bool = False
    identity: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)  # routes: all ids in order; repetitions, shard, asked
    tasks: Sequence[EpisodeTask] = ()
    worker: WorkerConfig | None = None
    routes: RouteSelection | None = None
    agent: Agent | None = None
    interpreter: Interpreter | None = None

    @property
    def worker_config(self) -> WorkerConfig:
        assert self.worker is not None, "not assembled"
        return self.worker


def assemble(config: RunConfig, selection: RouteSelection, driver: DriverSetup) -> RunConfig:
    """The configuration of the whole run, for run.run."""
    agent, interpreter = remote(driver)
    conditions = EvaluationConditions(
        profile=config.profile,
        rules=config.rules,
        agent=driver.agent.describe(),
        interpreter=driver.interpreter.describe() if driver.interpreter else None,
        privileged=driver.agent.privileged,
        version=code_label(),
    )
    worker = WorkerConfig(
        world=config.world,
        conditions=conditions,
        agent=driver.agent_recipe,
        interpreter=driver.interpreter_recipe,
        interprets=driver.interpreter is not None,
        cameras=tuple(c.name for c in driver.cameras) if agent or interpreter else (),
        encodings=common_encodings(system for system in (agent, interpreter) if system is not None),
        track=config.track,
        recorders=config.recorders,
    )
    return replace(
        config,
        identity=_identity(config, selection, conditions, driver),
        selection=_selection_json(selection),
        tasks=shard(_tasks(config, selection, driver.cameras), selection.shard),
        worker=worker,
        routes=selection,
        agent=agent,
        interpreter=interpreter,
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
