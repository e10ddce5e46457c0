"""From what is wished for to a Run: tasks with their seeds, the plan of the world processes, the run's identity.

The one assembly behind `ad2 drive run` and the harness tasks: the same wish gives the same scores from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route, sha256
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.episode import EvaluationConditions
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import DriveRun
from closedloop_plugin.runner.task import EpisodeTask, episode_seed, shard
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2 import __version__


@dataclass(frozen=True)
class RouteSelection:
    """What is driven: routes of a suite, by the catalogue or by programs of their own, or one program on its map."""

    name: str  # as it stands in every record
    sha256: str  # of the route file or the program
    all_ids: list[str]  # of the suite, in its order; of a program: the one name of its episodes
    routes: tuple[Route, ...] = ()  # asked for
    program: Path | None = None
    programs: Mapping[str, Path] = field(default_factory=dict)  # route id -> its own program, in a suite of programs
    map: Path | None = None
    towns: Mapping[str, Path] = field(default_factory=dict)  # town -> OpenDRIVE file; the others get corridor maps
    repetitions: int = 1
    shard: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)  # for the programs' free parameters


@dataclass(frozen=True)
class DriverSetup:
    """Who drives. A recipe means: each world process makes its own, and the object here only describes it."""

    agent: Agent
    interpreter: Interpreter | None = None
    agent_recipe: FactoryRecipe | None = None
    interpreter_recipe: FactoryRecipe | None = None
    cameras: tuple[Camera, ...] = ()  # what the world shows; the agent's, or those of frames and films


@dataclass(frozen=True)
class RunConfig:
    """All else. `watching`: (track, recorders), see worker.Plan."""

    folder: Path
    world: FactoryRecipe
    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    seed: int = 0
    traffic: bool = True
    track: FactoryRecipe | None = None
    recorders: tuple[FactoryRecipe, ...] = ()
    limits: PoolLimits = field(default_factory=PoolLimits)
    retry_failed: bool = False
    quiet: bool = False


def assemble(wish: RunConfig, subject: RouteSelection, driver: DriverSetup) -> DriveRun:
    """The run; start it with run.run(run, *remote(driver))."""
    cast = EvaluationConditions(
        wish.profile,
        wish.rules,
        driver.agent.describe(),
        driver.interpreter.describe() if driver.interpreter else None,
        driver.agent.privileged,
    )
    plan = WorkerConfig(
        wish.world,
        cast,
        driver.agent_recipe,
        driver.interpreter_recipe,
        driver.interpreter is not None,
        tuple(c.name for c in driver.cameras) if any(remote(driver)) else (),
        wish.track,
        wish.recorders,
    )
    return DriveRun(
        wish.folder,
        _identity(wish, subject, cast, driver),
        _selection(subject),
        shard(_tasks(wish, subject, driver.cameras), subject.shard),
        plan,
        wish.limits,
        wish.retry_failed,
        wish.quiet,
    )


def remote(driver: DriverSetup) -> tuple[Agent | None, Interpreter | None]:
    """Those that live in this process and answer for all worlds."""
    return (
        None if driver.agent_recipe else driver.agent,
        None if driver.interpreter_recipe else driver.interpreter,
    )


def _tasks(wish: RunConfig, subject: RouteSelection, cameras: tuple[Camera, ...]) -> list[EpisodeTask]:
    """Repetition by repetition, so that a run that is stopped has whole rounds of the suite."""
    base = EpisodeSetup(
        None,
        0,
        cameras,
        1.0 / wish.profile.hz,
        subject.program,
        subject.map,
        wish.traffic,
        values=subject.values,
        max_ticks=wish.profile.max_ticks,
    )
    asked = [
        (r.id, replace(base, route=r, town=subject.towns.get(r.town), program=subject.programs.get(r.id)))
        for r in subject.routes
    ]
    if subject.program and not subject.routes:
        asked = [(subject.all_ids[0], base)]
    many = len(subject.programs) > 1
    return [
        EpisodeTask(subject.name, name, k, replace(setup, seed=episode_seed(wish.seed, name, k)), many)
        for k in range(subject.repetitions)
        for name, setup in asked
    ]


def standing(wish: RunConfig, subject: RouteSelection) -> dict[str, Any]:
    """The part of a run's identity that is known before any model is loaded."""
    latency = wish.rules.latency
    return {
        "suite": subject.name,
        "suite_sha256": subject.sha256,
        "values": dict(subject.values) or None,
        "map_sha256": sha256(subject.map) if subject.map else None,
        "towns_sha256": {town: sha256(file) for town, file in subject.towns.items()},
        "profile": wish.profile.name,
        "policy": wish.rules.policy,
        "decision_hz": wish.rules.decision_hz,
        "latency": {"label": latency.label, "values": list(latency.values)},
        "seed": wish.seed,
        "world": wish.world.target,
        "traffic": wish.traffic,
        "version": __version__,
    }


def _identity(
    wish: RunConfig, subject: RouteSelection, cast: EvaluationConditions, driver: DriverSetup
) -> dict[str, Any]:
    """What must be the same for two starts to be one run. How much of the suite is driven may differ, and so may what
    is kept of it: cameras that only frames and films look through are no part."""
    return {
        **standing(wish, subject),
        "agent": dict(cast.agent),
        "interpreter": cast.interpreter,
        "cameras": [f"{c.name} {c.width}x{c.height}" for c in driver.agent.cameras],
    }


def _selection(subject: RouteSelection) -> dict[str, Any]:
    return {
        "routes": subject.all_ids,
        "asked": [r.id for r in subject.routes] or subject.all_ids,
        "repetitions": subject.repetitions,
        "shard": subject.shard,
    }
