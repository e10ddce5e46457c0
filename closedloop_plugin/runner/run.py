"""A run from start to end: folder, episodes that are still lacking, progress, the official file."""

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
AGAIN = (EndReason.WORLD_FAILED, EndReason.AGENT_FAILED)  # may go better the next time; a rejected scene does not


@dataclass(frozen=True)
class DriveRun:
    """What is run and where. `identity` must be equal at every start; `selection` is what this start asks for."""

    folder: Path
    identity: Mapping[str, Any]
    selection: Mapping[str, Any]  # "routes": all ids of the suite, in order; "repetitions"; shard, limit, asked
    tasks: Sequence[EpisodeTask]
    plan: WorkerConfig
    limits: PoolLimits = field(default_factory=PoolLimits)
    retry_failed: bool = False
    quiet: bool = False


def run(what: DriveRun, agent: Agent | None, interpreter: Interpreter | None) -> list[EpisodeRecord]:
    """Run what is lacking; the records of all its tasks. `agent`, `interpreter`: those that live in this process.

    Ad2Error ends it where the agent answers nothing in whole episodes: those say nothing of driving and are not kept.
    """
    with EpisodeStore(what.folder, what.identity, what.selection) as store:
        todo = [t for t in what.tasks if _lacks(store, t, what.retry_failed)]
        done = len(what.tasks) - len(todo)
        if done and not what.quiet:
            print(f"{done} of {len(what.tasks)} episodes are there already; running {len(todo)}", flush=True)
        try:
            with _ProgressBar(what, store, done) as bar:
                pool = WorldPool(
                    what.plan, what.limits, agent, interpreter, bar.saved, bar.restarted, what.folder / "logs"
                )
                pool.run(todo)
                bar.last()
        finally:
            records = by_suite(store.records, what.selection["routes"])
            store.write_results(to_official(records, episodes_of(what.selection, records)))
    asked = {(t.route_id, t.repetition) for t in what.tasks}
    return [r for r in records if (r.route_id, r.repetition) in asked]


def episodes_of(selection: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> int:
    """Of the whole suite, driven or not: the official file's means are over these. (The tables leave out routes on
    experimental maps; the official form knows no such thing.)

    A folder may hold more repetitions than this start asks for; they are all in its official file.
    """
    there = 1 + max((r.repetition for r in records), default=0)
    return len(selection["routes"]) * max(int(selection["repetitions"]), there)


def _lacks(store: EpisodeStore, task: EpisodeTask, retry_failed: bool) -> bool:
    record = store.has(task.route_id, task.repetition)
    return record is None or (retry_failed and record.end in AGAIN)


def mute(record: EpisodeRecord) -> bool:
    """Not one question of it was answered."""
    return record.end == EndReason.AGENT_FAILED and record.counts.get("agent_errors", 0) == record.counts.get(
        "decisions", 0
    )


class _ProgressBar:
    """Saves each result and shows episodes done, the score so far, and restarts.

    An episode without any answer is held back until another one tells whether it was the episode's fault: a server
    that went away, or a port without a model, must not turn the rest of a suite into failures.
    """

    def __init__(self, what: DriveRun, store: EpisodeStore, done: int) -> None:
        self.store, self.restarts = store, 0
        self.held: EpisodeResult | None = None
        self.bar = tqdm(total=len(what.tasks), initial=done, desc="episodes", unit="ep", disable=what.quiet)
        self._show()

    def saved(self, result: EpisodeResult) -> None:
        if mute(result.record):
            if self.held:
                self._stop(result.record)
            self.held = result
            return
        self._keep_held()
        self._keep(result)

    def last(self) -> None:
        """All are through: one without any answer is a failure of its own only beside others that had some."""
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
            f"the agent answers nothing: {record.reason}. Mend that and start the same command again: "
            f"{self.store.count} episodes are safe, those without an answer were not kept"
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
