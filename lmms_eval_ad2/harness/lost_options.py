"""Options that lmms-eval 0.7.3 loses on the way to tasks: replies after the first, and `--limit` as a share.

`--repeats N`: the filter `take_first` drops all replies to a question but one. `--limit 0.5`: the number of documents
of the first task becomes the limit of all later ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.task_data import TASKS, task_settings

_ROWS = "_ad2_rows"  # attribute of a task: the number of its documents that are evaluated
_FILTER = "none"  # lmms-eval's name of the default filter


def wrap_filters(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep all replies to a question of ours, as a list."""

    def apply_filters(self: Any) -> Any:
        result = original(self)
        if task_settings(self) is not None:
            for instance in self._instances:
                if len(instance.resps) > 1:
                    instance.filtered_resps[_FILTER] = list(instance.resps)
        return result

    return apply_filters


def check_repeats(repeats: int, tasks: Iterable[str]) -> None:
    """Raise Ad2Error for a circular task asked several times: a rotation is a repetition of its own kind."""
    circular = [name for name in tasks if repeats > 1 and name in TASKS and TASKS[name].variant.circular]
    if circular:
        raise Ad2Error(
            f"--repeats {repeats}: {circular[0]} asks each question once per rotation of its options, and has no "
            "figures for several replies to each; leave it out, or omit --repeats"
        )


def take_share(tasks: Iterable[Any], share: float, offset: int) -> None:
    """Let each task have this share of its documents, rounded up, after `offset`; as run_plan.HostOptions.rows."""
    from lmms_eval.api.task import ConfigurableTask

    for task in tasks:
        n = len(task.eval_docs)
        setattr(task, _ROWS, min(n, offset + math.ceil(n * share)))
    for name in ("eval_docs", "eval_docs_no_media"):
        whole = getattr(ConfigurableTask, name)
        if not isinstance(whole, _FirstDocuments):
            setattr(ConfigurableTask, name, _FirstDocuments(whole.fget))


class _FirstDocuments(property):
    """The documents of a task, up to the number that `take_share` gave it."""

    def __get__(self, task: Any, owner: type | None = None) -> Any:
        documents = super().__get__(task, owner)
        rows = getattr(task, _ROWS, None)
        if task is None or rows is None:
            return documents
        return documents.select(range(rows)) if hasattr(documents, "select") else documents[:rows]
