"""run: drives the missing episodes of a run folder, with progress bar and official result file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.early_stop import STOP_AFTER_UNREAD, EarlyStop
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.progress import EpisodeProgress
from closedloop_plugin.runner.store import EpisodeStore, by_suite
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.scoring.official import to_official


@dataclass(frozen=True)
class DriveRun:
    """A run and its folder. `identity` must be equal whenever the run is resumed; `selection` may differ."""

    folder: Path
    identity: Mapping[str, Any]
    selection: Mapping[str, Any]  # routes: all ids of the suite, in order; repetitions, shard, asked
    tasks: Sequence[EpisodeTask]
    worker_config: WorkerConfig
    limits: PoolLimits = field(default_factory=PoolLimits)
    engine: WorldEngine = field(default_factory=LocalEngine)  # neither in the identity nor in the records
    stop_after_unread: int = STOP_AFTER_UNREAD  # see EarlyStop
    retry_failed: bool = False
    quiet: bool = False


def run(drive_run: DriveRun, agent: Agent | None, interpreter: Interpreter | None) -> list[EpisodeRecord]:
    """Run the missing episodes and return the records of all tasks. `agent`, `interpreter`: those of this process.

    Raises Ad2Error if the run measures nothing, see EarlyStop; episodes saved so far are kept.
    """
    with EpisodeStore(drive_run.folder, drive_run.identity, drive_run.selection) as store:
        todo = [t for t in drive_run.tasks if _is_missing(store, t, drive_run.retry_failed)]
        done = len(drive_run.tasks) - len(todo)
        if done and not drive_run.quiet:
            print(f"{done} of {len(drive_run.tasks)} episodes are there already; running {len(todo)}", flush=True)
        try:
            with EpisodeProgress(store, len(drive_run.tasks), done, drive_run.quiet) as bar:
                stop = EarlyStop(store, bar.keep, drive_run.worker_config.conditions, drive_run.stop_after_unread)
                pool = WorldPool(
                    worker_config=replace(drive_run.worker_config, keeps_decisions=True),
                    limits=drive_run.limits,
                    engine=drive_run.engine,
                    agent=agent,
                    interpreter=interpreter,
                    on_result=stop.add,
                    on_restart=bar.restarted,
                    on_wait=bar.waiting,
                    on_reply=stop.reply,
                    on_start=bar.started,
                    on_beat=bar.beat,
                    on_end=bar.ended,
                    on_decisions=store.add_decisions,
                    logs=drive_run.folder / "logs",
                )
                pool.run(todo)
                stop.finish()
        finally:
            records = by_suite(store.records, drive_run.selection["routes"])
            store.write_results(to_official(records, episodes_of(drive_run.selection, records)))
    asked = {(t.route_id, t.repetition) for t in drive_run.tasks}
    return [r for r in records if (r.route_id, r.repetition) in asked]


def episodes_of(selection: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> int:
    """Number of episodes of the whole suite, over which the official file takes its means.

    Includes routes on experimental maps, which our tables leave out, and all repetitions that the folder holds.
    """
    present = 1 + max((r.repetition for r in records), default=0)
    return len(selection["routes"]) * max(int(selection["repetitions"]), present)


def _is_missing(store: EpisodeStore, task: EpisodeTask, retry_failed: bool) -> bool:
    record = store.has(task.route_id, task.repetition)
    return record is None or (retry_failed and record.retryable)
