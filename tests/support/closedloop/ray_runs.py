"""Programs that use a Ray cluster, for tests that kill them or their nodes. Arguments: KIND ADDRESS FOLDER [HOLD].

    run       the demo routes in fake worlds; the last route does not end while the file HOLD exists
    servers   the same with two worlds that have a server each
    replicas  questions to two replicas of a model; prints the answers and the processes that gave them

Without ADDRESS, Ray is started on this machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.closedloop.runs import run_into, tasks, worker_config

from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.runner.cluster.model_replicas import ReplicatedModel
from closedloop_plugin.runner.cluster.world_actors import RayEngine
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from lmms_eval_ad2.core.errors import Ad2Error

REPETITIONS = 4
FREE = 5 * REPETITIONS  # episodes that do not wait for HOLD
QUESTIONS, ASKING = 120, 6


class ProcessModel:
    """Replies with the text, its process and the size of its batch; appends to the file `log` at each call."""

    name = "process"

    def __init__(self, log: str) -> None:
        self.log = Path(log)

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        with self.log.open("a") as lines:
            lines.write(f"{os.getpid()}\n")
        time.sleep(0.05)
        return [ModelReply(f"{q.text} {os.getpid()} {len(questions)}") for q in questions]

    def describe(self) -> dict[str, Any]:
        return {}


def drive(engine: RayEngine, folder: Path, settings: dict[str, object], each: tuple[dict[str, str], ...] = ()) -> None:
    name = "server_worlds:ServerWorld" if each else "doubles:Faulty"
    world = FactoryRecipe(f"support.closedloop.{name}", settings, each)
    run_into(folder, tasks(REPETITIONS), worker_config(world), limits=PoolLimits(workers=2), engine=engine)


def ask(folder: Path) -> None:
    recipe = FactoryRecipe("support.closedloop.ray_runs:ProcessModel", {"log": str(folder / "calls")})
    model = ReplicatedModel(recipe, 2)
    with ThreadPoolExecutor(ASKING) as threads:
        calls = [threads.submit(model.ask, [ModelQuestion("0", str(n))]) for n in range(QUESTIONS)]
        print(json.dumps([call.result()[0].text.split() for call in calls]))


def main(kind: str, address: str, folder: Path, hold: str = "") -> None:
    servers = tuple({"server": f"127.0.0.1:{port}"} for port in (2000, 2010)) if kind == "servers" else ()
    engine = RayEngine(address or None, 2, len(servers))
    if kind == "replicas":
        ask(folder)
    elif kind == "servers":
        drive(engine, folder, {"folder": str(folder.parent), "together": 2}, servers)
    else:
        drive(engine, folder, {"how": "", "step_s": 0.002, "held": "106", "hold": hold})


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
    except Ad2Error as exc:
        sys.exit(f"error: {exc}")
