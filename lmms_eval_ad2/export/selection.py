"""Which questions go into a training file: those that can be asked, `limit` of each task, none that leaks."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.export.leaks import SCENE, EvaluationLeak, HeldOutIndex
from lmms_eval_ad2.export.splits import ExportTask
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.reference_answers import reference
from lmms_eval_ad2.storage.files import atomic_write


@dataclass(slots=True)
class QuestionSelection:
    """The questions of one dataset: record number (in the dataset's order) -> the tasks that ask it."""

    dataset: Dataset
    tasks: tuple[ExportTask, ...]
    by_number: dict[int, list[ExportTask]] = field(default_factory=dict)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)  # task -> why -> how many

    def records(self, what: str) -> Iterator[tuple[Record, list[ExportTask]]]:
        """A pass over the questions that are chosen."""
        bar = tqdm(total=len(self.by_number), desc=f"{what} {self.dataset.name}", disable=None)
        with bar:
            for number, record in enumerate(self.dataset.records()):
                if tasks := self.by_number.get(number):
                    yield record, tasks
                    bar.update()

    def drop(self, number: int, why: str) -> None:
        for task in self.by_number.pop(number):
            self.left_out[task.name][why] += 1


def choose(
    dataset: Dataset, tasks: Sequence[ExportTask], *, limit: int | None, shuffle: bool, seed: int
) -> QuestionSelection:
    """The first `limit` questions of each task, or as many drawn by `seed` if `shuffle`."""
    chosen = QuestionSelection(dataset, tuple(tasks), left_out={task.name: Counter() for task in tasks})
    numbers: dict[str, list[int]] = {task.name: [] for task in tasks}
    bar = tqdm(dataset.records(), total=dataset.n, desc=f"reading {dataset.name}", disable=None)
    for number, record in enumerate(bar):
        for task in tasks:
            if record.task == task.variant.part:
                if why := _unfit(record, task):
                    chosen.left_out[task.name][why] += 1
                else:
                    numbers[task.name].append(number)
    for task in tasks:
        mine = numbers[task.name]
        if shuffle:
            random.Random(f"{seed}:{task.name}").shuffle(mine)
        for number in mine[:limit]:
            chosen.by_number.setdefault(number, []).append(task)
    return chosen


def _unfit(record: Record, task: ExportTask) -> str | None:
    """Why this task cannot ask the record for training, as a short code."""
    if not task_prompt.can_ask(record, task.variant):
        return "not_askable"
    form = task.variant.asked_form(record.form)
    steps = len(record.steps) if form == "chain" else 1
    whole = all(reference(record, form, task.variant.lang, step) is not None for step in range(steps))
    return None if whole else "no_reference"


@dataclass(slots=True)
class LeakReport:
    """What the leak check found. Counts are of questions (a question of several tasks once), by kind."""

    kinds: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        return self.kinds.total()


def check(
    chosen: Sequence[QuestionSelection], held: HeldOutIndex, listing: Path, *, allow_scenes: bool
) -> tuple[LeakReport, list[list[int]]]:
    """Look for every chosen question in what is held out. All leaks go into `listing`, a JSON line each.

    Also gives the numbers of those that leak, a list a dataset; shared scenes are not among them if `allow_scenes`.
    """
    found, numbers = LeakReport(), []
    with atomic_write(listing) as handle:
        for one in chosen:
            leaking = []
            order = sorted(one.by_number)
            for number, (record, tasks) in zip(order, one.records("leak check"), strict=True):
                leak = held.leak(record, one.dataset.image_root)
                if leak is None:
                    continue
                if leak.kind == SCENE and allow_scenes:
                    found.allowed[leak.kind] += 1
                    continue
                leaking.append(number)
                _note(found, leak, record, one)
                row = {"id": record.id, "dataset": one.dataset.name, "split": one.dataset.split, **asdict(leak)}
                print(json.dumps({**row, "tasks": [t.name for t in tasks]}, ensure_ascii=False), file=handle)
            numbers.append(leaking)
    if not found.n:
        listing.unlink()
    return found, numbers


def _note(found: LeakReport, leak: EvaluationLeak, record: Record, one: QuestionSelection) -> None:
    found.kinds[leak.kind] += 1
    if found.kinds[leak.kind] <= 2:
        what = f" ({leak.what})" if leak.what else ""
        found.examples.append(
            f"{leak.kind}: {one.dataset.name}/{one.dataset.split} {record.id} is in {leak.held} as {leak.held_id}{what}"
        )
