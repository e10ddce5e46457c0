"""Cost of the decision files in the processor time of episodes, measured within one run of them.

A driver that sets controls itself is the worst case: a line of words costs more, but its model takes much longer.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.interpreters.make import make_interpreter
from closedloop_plugin.runner import worker
from closedloop_plugin.runner.decision_files import DecisionFiles
from closedloop_plugin.runner.decision_log import DecisionLog
from closedloop_plugin.runner.decisions import DecisionRules, TimedDecision
from closedloop_plugin.runner.episode import EvaluationConditions
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

ROUTES, ROUNDS = 3, 3
RULES = profile("bench2advlm")


class TimedLog(DecisionLog):
    """A DecisionLog that measures itself and the files that get its blocks. `spent_s`: of all logs, processor time."""

    spent_s = 0.0

    def __call__(self, decision: TimedDecision) -> None:
        start = time.thread_time()
        super().__call__(decision)
        TimedLog.spent_s += time.thread_time() - start


def measure() -> dict[str, float]:
    """Share of the files in the processor time of the demo routes, and bytes of a decision."""
    found: dict[str, float] = {}
    worker.DecisionLog = TimedLog  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        world = EmbeddedWorld(Path(folder, "maps"))
        for name in ("expert", "speaking-expert"):
            found |= _measured(world, name, Path(folder, name))
        world.close()
    return found


def _measured(world: EmbeddedWorld, name: str, run: Path) -> dict[str, float]:
    routes = suite("demo").routes[:ROUTES]
    for route in routes:
        _episode(world, name, run, route)  # fills the caches of maps and programs
    TimedLog.spent_s, start = 0.0, time.thread_time()
    decisions = sum(_episode(world, name, run, route) for _ in range(ROUNDS) for route in routes)
    total_s = time.thread_time() - start
    size = sum(file.stat().st_size for file in (run / "decisions").iterdir())
    return {
        f"{name}: with the files / without": total_s / (total_s - TimedLog.spent_s),
        f"{name}: us a decision": 1e6 * TimedLog.spent_s / decisions,
        f"{name}: bytes a decision": ROUNDS * size / decisions,
    }


def _episode(world: EmbeddedWorld, name: str, run: Path, route: Route) -> int:
    """Drive a route; the number of decisions."""
    agent, files = make_agent(name), DecisionFiles(run)
    interpreter = None if name == "expert" else make_interpreter("rules", "rules", RULES)
    config = worker.WorkerConfig(
        FactoryRecipe(""), EvaluationConditions(RULES, DecisionRules(), privileged=True),
        interprets=interpreter is not None, track=FactoryRecipe("closedloop_plugin.show.track_log:TrackLog"),
    )  # fmt: skip
    task = EpisodeTask("demo", route.id, 0, EpisodeSetup(route, 1, timestep=1.0 / RULES.hz))
    responder = worker.DecisionResponder(config, agent, interpreter, None)
    files.begin(task.key)

    record = worker.drive(world, task, config, responder, keep_block=lambda block: files.add(task.key, block)).record
    files.keep(task.key)
    return record.counts["decisions"]


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:<60} {value:,.4f}")
