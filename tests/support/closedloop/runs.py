"""A small run of the demo routes in the fake world. The kill tests start this file as a program and kill it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.closedloop.doubles import Follower

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.assemble import RunConfig
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import run
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions, episode_seed
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup

FAKE = FactoryRecipe("closedloop_plugin.worlds.testing.fake_world:FakeWorld")
SUITE = suite("demo")
IDENTITY = {"suite": "demo", "seed": 1}


def tasks(repetitions: int = 1, routes: int = 6, max_ticks: int = 400) -> list[EpisodeTask]:
    return [
        EpisodeTask("demo", r.id, k, EpisodeSetup(r, episode_seed(1, r.id, k), max_ticks=max_ticks))
        for r in SUITE.routes[:routes]
        for k in range(repetitions)
    ]


def worker_config(
    world: FactoryRecipe = FAKE, rules: DecisionRules | None = None, name: str = "bench2drive", **more: Any
) -> WorkerConfig:
    more.setdefault("agent", FactoryRecipe("support.closedloop.doubles:Follower"))
    return WorkerConfig(
        world, EvaluationConditions(profile(name), rules or DecisionRules(), agent={"name": "test"}), **more
    )


def run_into(
    folder: Path, episode_tasks: list[EpisodeTask], config: WorkerConfig, agent: Any = None, **more: Any
) -> list[EpisodeRecord]:
    selection = {"routes": SUITE.ids, "repetitions": max(t.repetition for t in episode_tasks) + 1}
    conditions = config.conditions
    return run(
        RunConfig(
            folder, config.world, conditions.profile, conditions.rules, identity=IDENTITY, selection=selection,
            tasks=episode_tasks, worker=config, agent=agent, quiet=True, **more,
        )
    )  # fmt: skip


def comparable(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    """The records without values that depend on kills and clocks."""
    found = []
    for record in sorted(records, key=lambda r: (r.route_id, r.repetition)):
        row = asdict(record)
        row["system_s"] = 0.0
        row["counts"].pop("retries", None)
        found.append(row)
    return found


if __name__ == "__main__":  # argument: FOLDER of the run that is killed; it does not end while FOLDER.hold exists
    folder = Path(sys.argv[1])
    settings = {"how": "", "step_s": 0.002, "held": "106", "hold": f"{folder}.hold"}
    slow = FactoryRecipe("support.closedloop.doubles:Faulty", settings)
    run_into(folder, tasks(repetitions=2), worker_config(slow), limits=PoolLimits(workers=2))
    assert Follower.local
