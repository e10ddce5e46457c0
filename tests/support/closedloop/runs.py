"""A small run to hand: the demo routes in the fake world. As a program it is what the kill tests kill."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.closedloop.cast import Follower

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import Cast
from closedloop_plugin.runner.pilot import Rules
from closedloop_plugin.runner.pool import Limits
from closedloop_plugin.runner.recipe import Recipe
from closedloop_plugin.runner.run import Run, run
from closedloop_plugin.runner.task import Task, episode_seed
from closedloop_plugin.runner.worker import Plan
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.worlds.base import Setup

FAKE = Recipe("closedloop_plugin.testing.fake_world:FakeWorld")
SUITE = suite("demo")
IDENTITY = {"suite": "demo", "seed": 1}


def tasks(repetitions: int = 1, routes: int = 6, max_ticks: int = 400) -> list[Task]:
    return [
        Task("demo", r.id, k, Setup(r, episode_seed(1, r.id, k), max_ticks=max_ticks))
        for r in SUITE.routes[:routes]
        for k in range(repetitions)
    ]


def plan(world: Recipe = FAKE, rules: Rules | None = None, name: str = "bench2drive", **more: Any) -> Plan:
    more.setdefault("agent", Recipe("support.closedloop.cast:Follower"))
    return Plan(world, Cast(profile(name), rules or Rules(), agent={"name": "test"}), **more)


def run_into(folder: Path, todo: list[Task], how: Plan, agent: Any = None, **more: Any) -> list[EpisodeRecord]:
    limits = more.pop("limits", Limits())
    selection = {"routes": SUITE.ids, "repetitions": max(t.repetition for t in todo) + 1}
    interpreter = more.pop("interpreter", None)
    what = Run(folder, IDENTITY, selection, todo, how, limits, quiet=True, **more)
    return run(what, agent, interpreter)


def essence(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    """All of the records that must not depend on kills and clocks."""
    found = []
    for record in sorted(records, key=lambda r: (r.route_id, r.repetition)):
        row = asdict(record)
        row["system_s"] = 0.0
        row["counts"].pop("retries", None)
        found.append(row)
    return found


if __name__ == "__main__":  # FOLDER: the run that is killed; it waits for its end while FOLDER.hold is there
    folder = Path(sys.argv[1])
    how = {"how": "", "step_s": 0.002, "held": "106", "hold": f"{folder}.hold"}
    slow = Recipe("support.closedloop.cast:Faulty", how)
    run_into(folder, tasks(repetitions=2), plan(slow), limits=Limits(workers=2))
    assert Follower.local
