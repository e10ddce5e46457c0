"""Select the questions of a training file: those that can be asked, `limit` per task, without leaks."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.leaks import SCENE, EvaluationLeak, ExportTask, HeldOutIndex
from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.scoring.reference_answers import reference
from lmms_eval_ad2.storage.files import atomic_write


@dataclass(slots=True)
class QuestionSelection:
    """The selected questions of one dataset. `by_number`: record number in the dataset -> tasks that ask it."""

    dataset: Dataset
    tasks: tuple[ExportTask, ...]
    by_number: dict[int, list[ExportTask]] = field(default_factory=dict)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)  # task -> reason code -> number

    def records(self, activity: str) -> Iterator[tuple[Record, list[ExportTask]]]:
        """Iterate over the selected questions with a progress bar that is labelled `activity`."""
        bar = tqdm(total=len(self.by_number), desc=f"{activity} {self.dataset.name}", disable=None)
        with bar:
            for number, record in enumerate(self.dataset.records()):
                if tasks := self.by_number.get(number):
                    yield record, tasks
                    bar.update()

    def drop(self, number: int, reason: str) -> None:
        for task in self.by_number.pop(number):
            self.left_out[task.name][reason] += 1


def choose(
    dataset: Dataset, tasks: Sequence[ExportTask], *, limit: int | None, shuffle: bool, seed: int
) -> QuestionSelection:
    """The first `limit` questions of each task, or as many random ones (by `seed`) if `shuffle`."""
    selection = QuestionSelection(dataset, tuple(tasks), left_out={task.name: Counter() for task in tasks})
    numbers: dict[str, list[int]] = {task.name: [] for task in tasks}
    bar = tqdm(dataset.records(), total=dataset.n, desc=f"reading {dataset.name}", disable=None)
    for number, record in enumerate(bar):
        for task in tasks:
            if record.task == task.variant.part:
                if reason := _exclusion(record, task):
                    selection.left_out[task.name][reason] += 1
                else:
                    numbers[task.name].append(number)
    for task in tasks:
        candidates = numbers[task.name]
        if shuffle:
            random.Random(f"{seed}:{task.name}").shuffle(candidates)
        for number in candidates[:limit]:
            selection.by_number.setdefault(number, []).append(task)
    return selection


def _exclusion(record: Record, task: ExportTask) -> str | None:
    """The reason code why this task cannot use the record for training, or None."""
    if not task_prompt.can_ask(record, task.variant):
        return "not_askable"
    form = task.variant.asked_form(record)
    steps = len(record.steps) if form == "chain" else 1
    complete = all(reference(record, form, task.variant.lang, step) is not None for step in range(steps))
    return None if complete else "no_reference"


@dataclass(slots=True)
class LeakReport:
    """Result of the leak check: numbers of questions by kind (a question of several tasks counts once)."""

    kinds: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        return self.kinds.total()


def check(
    chosen: Sequence[QuestionSelection], held: HeldOutIndex, listing: Path, *, allow_scenes: bool
) -> tuple[LeakReport, list[list[int]]]:
    """Compare every selected question with the held-out index; all leaks are written to `listing`, one JSON line each.

    Also returns the numbers of the leaking records, one list per dataset; shared scenes are not among them if
    `allow_scenes`.
    """
    report, numbers = LeakReport(), []
    with atomic_write(listing) as handle:
        for selection in chosen:
            leaking = []
            order = sorted(selection.by_number)
            dataset = selection.dataset
            for number, (record, tasks) in zip(order, selection.records("leak check"), strict=True):
                leak = held.leak(record, dataset.image_root)
                if leak is None:
                    continue
                if leak.kind == SCENE and allow_scenes:
                    report.allowed[leak.kind] += 1
                    continue
                leaking.append(number)
                _count_leak(report, leak, record, dataset)
                row = {"id": record.id, "dataset": dataset.name, "split": dataset.split, **asdict(leak)}
                print(json.dumps({**row, "tasks": [t.name for t in tasks]}, ensure_ascii=False), file=handle)
            numbers.append(leaking)
    if not report.n:
        listing.unlink()
    return report, numbers


def _count_leak(report: LeakReport, leak: EvaluationLeak, record: Record, dataset: Dataset) -> None:
    report.kinds[leak.kind] += 1
    if report.kinds[leak.kind] <= 2:
        what = f" ({leak.what})" if leak.what else ""
        report.examples.append(
            f"{leak.kind}: {dataset.name}/{dataset.split} {record.id} is in {leak.held} as {leak.held_id}{what}"
        )
