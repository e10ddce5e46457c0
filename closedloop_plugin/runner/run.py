"""run: drives the missing episodes of a run folder, with progress bar and official result file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.store import EpisodeStore, by_suite
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.errors import Ad2Error

FAILED = (EndReason.WORLD_FAILED, EndReason.AGENT_FAILED, EndReason.INVALID)
AGAIN = (EndReason.WORLD_FAILED, EndReason.AGENT_FAILED)  # worth a retry; a rejected scene is not


@dataclass(frozen=True)
class DriveRun:
    """A run and its folder. `identity` must be equal whenever the run is resumed; `selection` may differ."""

    folder: Path
    identity: Mapping[str, Any]
    selection: Mapping[str, Any]  # routes: all ids of the suite, in order; repetitions, shard, asked
    tasks: Sequence[EpisodeTask]
    worker_config: WorkerConfig
    limits: PoolLimits = field(default_factory=PoolLimits)
    retry_failed: bool = False
    quiet: bool = False


def run(drive_run: DriveRun, agent: Agent | None, interpreter: Interpreter | None) -> list[EpisodeRecord]:
    """Run the missing episodes and return the records of all tasks. `agent`, `interpreter`: those of this process.

    Raises Ad2Error if the agent answers no request of whole episodes; such episodes are not saved.
    """
    with EpisodeStore(drive_run.folder, drive_run.identity, drive_run.selection) as store:
        todo = [t for t in drive_run.tasks if _is_missing(store, t, drive_run.retry_failed)]
        done = len(drive_run.tasks) - len(todo)
        if done and not drive_run.quiet:
            print(f"{done} of {len(drive_run.tasks)} episodes are there already; running {len(todo)}", flush=True)
        try:
            with _ProgressBar(drive_run, store, done) as bar:
                pool = WorldPool(
                    worker_config=drive_run.worker_config,
                    limits=drive_run.limits,
                    agent=agent,
                    interpreter=interpreter,
                    on_result=bar.add,
                    on_restart=bar.restarted,
                    logs=drive_run.folder / "logs",
                )
                pool.run(todo)
                bar.finish()
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
    return record is None or (retry_failed and record.end in AGAIN)


def mute(record: EpisodeRecord) -> bool:
    """Whether none of its requests was answered."""
    return record.end == EndReason.AGENT_FAILED and record.counts.get("agent_errors", 0) == record.counts.get(
        "decisions", 0
    )


class _ProgressBar:
    """Saves each result and shows the number of episodes, the score so far and restarts.

    An episode without any answer is saved only after a later one with answers: if the model server is gone, the run
    stops instead of recording the rest of the suite as failures.
    """

    def __init__(self, drive_run: DriveRun, store: EpisodeStore, done: int) -> None:
        self.store, self.restarts = store, 0
        self.held: EpisodeResult | None = None
        self.bar = tqdm(total=len(drive_run.tasks), initial=done, desc="episodes", unit="ep", disable=drive_run.quiet)
        self._show()

    def add(self, result: EpisodeResult) -> None:
        if mute(result.record):
            if self.held:
                self._stop(result.record)
            self.held = result
            return
        self._keep_held()
        self._keep(result)

    def finish(self) -> None:
        """After the last episode: save one without any answer only if other episodes had answers."""
        if self.held and not any(not mute(r) for r in self.store.records):
            self._stop(self.held.record)
        self._keep_held()

    def _keep_held(self) -> None:
        held, self.held = self.held, None
        if held:
            self._keep(held)

    def _keep(self, result: EpisodeResult) -> None:
        self.store.save(result)
        self._show()
        self.bar.update()

    def _stop(self, record: EpisodeRecord) -> None:
        raise Ad2Error(
            f"the agent answers nothing: {record.reason}. Fix that and run the same command again: "
            f"{self.store.count} episodes are safe, those without an answer were not saved"
        )

    def restarted(self, reason: str) -> None:
        self.restarts += 1
        if not self.bar.disable:
            self.bar.write(f"a world was lost: {reason}")
        self._show()
        self.bar.refresh()

    def _show(self) -> None:
        records = self.store.records
        if records:
            score = sum(r.score_composed for r in records) / len(records)
            success = 100 * sum(r.success for r in records) / len(records)
            restarts = f" restarts {self.restarts}" if self.restarts else ""
            self.bar.set_postfix_str(f"DS {score:.1f} SR {success:.0f}%{restarts}", refresh=False)

    def __enter__(self) -> _ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()
