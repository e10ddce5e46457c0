"""Export of a run's replies as CODA-LM's official answer files (format: data/releases/coda_answers.py).

The rows are in the order of the imported split, which also gives `question_id`; replies are written as they are. A
record without a reply (not asked, or the request failed) has no row, or a row with an empty answer if wanted. Each file
is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.answered_task import AnsweredTask, Tables, tables_of
from lmms_eval_ad2.data.releases.coda_answers import FILES, CodaAnswerRow, numbers_by_image
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.storage.files import atomic_write

BENCHMARK = "coda_lm"


@dataclass(slots=True)
class WrittenAnswers:
    """An exported file. Records without a reply: `not_asked` by the run, and `failed` requests. `rows`: written."""

    path: Path
    task: str
    data: str
    records: int = 0
    rows: int = 0
    not_asked: int = 0
    failed: int = 0


def export_answers(run: Path, out: Path, *, tasks: Sequence[str] = (), fill: bool = False) -> list[WrittenAnswers]:
    """Write the answer files of a run's CODA-LM tasks into the folder `out`.

    tasks: of the run, by name (empty: all of CODA-LM). fill: write an empty answer for a record without a reply.
    Raises Ad2Error for tasks that the files cannot hold, for data that are not imported or not those of the run, and if
    `out` has an answer file that would not be replaced; DataError for a run that cannot be read.
    """
    chosen = _by_part(tables_of(run, BENCHMARK, "CODA-LM", tasks, "bench_coda_lm"), run)
    stale = [name for part, name in FILES.items() if part not in chosen and (out / name).exists()]
    if stale:
        raise Ad2Error(f"{out} has {', '.join(stale)} of another export; choose another --out, or remove it")
    written = []
    for part, (name, table) in sorted(chosen.items(), key=lambda item: list(FILES).index(item[0])):
        task = AnsweredTask(run, name, table)
        file = WrittenAnswers(out / FILES[part], name, f"{task.data.name}/{task.data.split}")
        with atomic_write(file.path) as handle:
            for row in _rows(task, file, fill):
                print(json.dumps(asdict(row), ensure_ascii=False), file=handle)
        written.append(file)
    return written


def _by_part(tables: Tables, run: Path) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Part -> the name and table of its task."""
    chosen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, table in tables.items():
        other, _ = chosen.setdefault(str(table.get("part")), (name, table))
        if other != name:
            raise Ad2Error(f"{other} and {name} answer the same part: name one task per part, with --tasks")
    if wrong := chosen.keys() - FILES:
        raise Ad2Error(f"{run}: part '{min(wrong)}' has no answer file; parts with one: {', '.join(FILES)}")
    return chosen


def _rows(task: AnsweredTask, file: WrittenAnswers, fill: bool) -> Iterator[CodaAnswerRow]:
    """The rows of the task's file; counts them in `file`. Samples are read along with the records."""
    images = list(numbers_by_image(_records(task)))
    prompts = PromptSet.load()
    samples = task.samples()
    sample = next(samples, None)
    for number, record in enumerate(_records(task)):
        file.records += 1
        question, answer = None, None
        if sample is None or sample["id"] != record.id:
            file.not_asked += 1
        else:
            question, answer = sample["prompt"], sample["raw"]
            if failure_reason(answer):
                file.failed, answer = file.failed + 1, None
            sample = next(samples, None)
        if answer is not None or fill:
            file.rows += 1
            question = task_prompt.prompt_text(record, task.variant, prompts) if question is None else question
            yield CodaAnswerRow(number, images[number], question, answer or "")
    if sample is not None:
        raise task.fault("id", f"the records of {task.data.name}/{task.data.split} in their order", sample["id"])


def _records(task: AnsweredTask) -> Iterator[Record]:
    return (record for record in task.data.records() if record.task == task.variant.part)
