"""Shards of an evaluation run: `--shard i/N` of `ad2 eval`, or AD2_SHARD for lmms-eval's own commands.

A question belongs to the same shard whatever the limit, offset, order of tasks and number of ranks are (shards.py); the
rotations of a question stay together. All documents are loaded, since baselines and provenance need them; only those of
the shard are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lmms_eval_ad2.harness import run
from lmms_eval_ad2.harness.task_data import TASKS


def in_shard(task: str, row: int) -> bool:
    """Whether a row of one of our tasks belongs to this run."""
    shard = run.current().shard
    return shard is None or shard.has(TASKS[task].question_of(row))


def wrap_requests(original: Callable[..., Any]) -> Callable[..., Any]:
    def build_all_requests(self: Any, *, limit: Any = None, offset: int = 0, **kwargs: Any) -> None:
        original(self, limit=limit, offset=offset, **kwargs)
        name, current = self.config.task, run.current()
        if current.shard is None or name not in TASKS:
            return
        rows = range(len(self.eval_docs_no_media))[offset or 0 :]
        asked = len(rows[: int(limit)] if limit else rows)
        current.selected[name] = asked * current.repeats  # each reply is a sample
        self._instances = _of_shard(name, self._instances)

    return build_all_requests


def _of_shard(task: str, instances: list[Any]) -> list[Any]:
    """The requests of this shard. If there are none, one marked as padding: lmms-eval cannot handle an empty task."""
    kept = [instance for instance in instances if in_shard(task, instance.doc_id)]
    if kept:
        return kept
    padding = instances[0]
    padding.metadata = {**(padding.metadata or {}), "__padding_only__": True}
    return [padding]
