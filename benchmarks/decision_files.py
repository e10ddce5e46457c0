"""Cost of the decision files: the same episodes with and without them, in turns, in processor time.

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
from closedloop_plugin.runner.decision_files import DecisionFiles
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.episode import EvaluationConditions
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import DecisionResponder, WorkerConfig, drive
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

ROUTES, ROUNDS = 3, 7
RULES = profile("bench2advlm")


def measure() -> dict[str, float]:
    """Ratios of the processor time of the demo routes, and bytes of a decision."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        world = EmbeddedWorld(Path(folder, "maps"))
        for name in ("expert", "speaking-expert"):
            found |= _compare(world, name, Path(folder, name))
        world.close()
    return found


def _compare(world: EmbeddedWorld, name: str, run: Path) -> dict[str, float]:
    """Ratio of the least times of each route: what else runs on the machine only adds to a time."""
    least, decisions = {True: 0.0, False: 0.0}, 0
    for route in suite("demo").routes[:ROUTES]:
        decisions += _episode(world, name, run, route, kept=True)  # fills the caches of maps and programs
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(ROUNDS):
            for kept in (True, False) if number % 2 else (False, True):
                start = time.process_time()
                _episode(world, name, run, route, kept)
                times[kept].append(time.process_time() - start)
        least = {kept: total + min(times[kept]) for kept, total in least.items()}
    size = sum(file.stat().st_size for file in (run / "decisions").iterdir())
    return {
        f"{name}: with the files / without": least[True] / least[False],
        f"{name}: us a decision": 1e6 * (least[True] - least[False]) / decisions,
        f"{name}: bytes a decision": size / decisions,
    }


def _episode(world: EmbeddedWorld, name: str, run: Path, route: Route, kept: bool) -> int:
    """Drive a route; the number of decisions."""
    agent, files = make_agent(name), DecisionFiles(run)
    interpreter = None if name == "expert" else make_interpreter("rules", "rules", RULES)
    config = WorkerConfig(
        FactoryRecipe(""), EvaluationConditions(RULES, DecisionRules(), privileged=True),
        interprets=interpreter is not None, track=FactoryRecipe("closedloop_plugin.show.track_log:TrackLog"),
    )  # fmt: skip
    task = EpisodeTask("demo", route.id, 0, EpisodeSetup(route, 1, timestep=1.0 / RULES.hz))
    files.begin(task.key)
    keep = (lambda block: files.add(task.key, block)) if kept else None
    responder = DecisionResponder(config, agent, interpreter, None)
    record = drive(world, task, config, responder, keep_block=keep).record
    if kept:
        files.keep(task.key)
    return record.counts["decisions"]


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:<60} {value:,.4f}")
