"""Data of tasks with `dataset_path: "ad2:NAME"`: rows read from the data home, without hub access or Arrow copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.harness.task_files import (
    RECORDS,
    SAMPLE,
    askable,
    nothing_to_ask,
    part_table,
    records_of,
    variant_of,
)
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.scoring import distractors
from lmms_eval_ad2.scoring.derived_records import rotations
from lmms_eval_ad2.scoring.score_columns import DISTRACTOR_BENCHMARK
from lmms_eval_ad2.scoring.variant import TaskVariant


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A loaded task, as the hooks use it."""

    name: str
    variant: TaskVariant
    image_root: Path
    data: dict[str, Any]  # name, split, sha256, n, image_root, ...: the block `data` of summary.json
    records: Any  # pyarrow column of the records' JSON, by row
    questions: Sequence[int] | None = None  # number of the question of each row; None: one row per question

    def question_of(self, row: int) -> int:
        """Number of a row's question in the task; the rotations of a question have the same."""
        return row if self.questions is None else self.questions[row]


TASKS: dict[str, LoadedTask] = {}


def task_settings(task: Any) -> dict[str, Any] | None:
    """The `metadata: ad2:` block of a task's YAML, or None if the task is not ours."""
    metadata = getattr(getattr(task, "config", None), "metadata", None)
    return metadata.get("ad2") if isinstance(metadata, dict) else None


def wrap_download(original: Callable[..., Any]) -> Callable[..., Any]:
    def download(self: Any, dataset_kwargs: Any = None) -> Any:
        path = self.config.dataset_path
        if not (isinstance(path, str) and path.startswith(RECORDS)):
            return original(self, dataset_kwargs)
        name = self.config.task
        settings = task_settings(self)
        if settings is None:
            raise Ad2Error(f"task {name}: dataset_path '{path}' needs a block 'ad2' under metadata")
        split = self.config.test_split or "test"
        rows = load(name, path[len(RECORDS) :], split, variant_of(settings, name))
        self.dataset = self.dataset_no_image = {split: rows}
        return None

    return download


def read(task: str, name: str, split: str, variant: TaskVariant) -> tuple[LoadedTask, Any]:
    """Read the records of a task and enter it in TASKS. Raises Ad2Error if there is nothing to ask.

    Also returns the records as a table with one row per question (per rotation, if circular).
    """
    from lmms_eval_ad2.data.home import open_dataset

    if name.startswith(SAMPLE):
        from lmms_eval_ad2.data.sample import ensure_sample

        ensure_sample()
    source = open_dataset(name, split)
    part = part_table(source, variant)
    table = askable(part, variant)
    if table.num_rows == 0:
        raise Ad2Error(f"task {task}: {nothing_to_ask(source, variant)}")
    questions, left_out = table.num_rows, part.num_rows - table.num_rows
    not_in_lang = _not_in_language(part, table, variant)
    not_in_form = sum(not task_prompt.in_form(r, variant) for r in records_of(part)) if left_out else 0
    provenance = distractors.provenance(records_of(table)) if variant.benchmark == DISTRACTOR_BENCHMARK else {}
    question_of = None
    if variant.circular:
        table, question_of = _rotated(table)
    info = {
        "name": name,
        "split": split,
        "sha256": source.sha256,
        "n": table.num_rows,
        "questions": questions,
        "left_out": left_out,
        "not_in_lang": not_in_lang,
        "not_in_form": not_in_form,
        **provenance,
        "image_root": str(source.image_root),
    }
    TASKS[task] = LoadedTask(task, variant, Path(source.image_root), info, table["record"], question_of)
    return TASKS[task], table


def load(task: str, name: str, split: str, variant: TaskVariant) -> Any:
    """Return the rows of a task as a datasets.Dataset; the hooks use its columns `ad2_task` and `ad2_row`."""
    import datasets
    import pyarrow as pa

    loaded, table = read(task, name, split, variant)
    for note in notes(loaded):
        show(f"ad2: {task}: {note}")
    table = table.append_column("ad2_task", pa.repeat(task, table.num_rows))
    table = table.append_column("ad2_row", pa.array(range(table.num_rows), pa.int64()))
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def notes(task: LoadedTask) -> list[str]:
    """What the user should know about the records of a task: how many are left out, and how they are asked."""
    data, found = task.data, []
    questions, left_out = data["questions"], data["left_out"]
    bilingual = task.variant.benchmark in task_prompt.BILINGUAL
    if left_out:
        language = "Chinese" if task.variant.lang == "zh" else "English"
        why = [f"{data['not_in_form']} have no form {task.variant.named_form}"] if data["not_in_form"] else []
        why += [f"{data['not_in_lang']} have no {language} text"] if bilingual and data["not_in_lang"] else []
        reasons = f" ({', '.join(why)})" if why else ""
        found.append(f"{left_out} of {questions + left_out} records do not fit this variant{reasons}; left out")
    if data["not_in_lang"] and not bilingual:
        found.append(f"{data['not_in_lang']} of {questions} records have no Chinese text; asked in English")
    if task.variant.circular:
        found.append(f"{questions} questions, each once per rotation of its options: {data['n']}")
    return found


def _not_in_language(part: Any, asked: Any, variant: TaskVariant) -> int:
    """Count records without the asked language: those of AD2-Bench that are left out, others that are asked in English.

    The latter have neither a Chinese question nor a Chinese reference (CODA-LM has only references).
    """
    if variant.benchmark in task_prompt.BILINGUAL:
        if part.num_rows == asked.num_rows:
            return 0
        return sum(not task_prompt.in_language(r, variant) for r in records_of(part))
    if variant.lang != "zh":
        return 0
    return sum(not (r.question.zh or r.answer.zh) for r in records_of(asked))


def _rotated(table: Any) -> tuple[Any, list[int]]:
    """Return one row per rotation of each question's options, grouped by question; and the question of each row."""
    import pyarrow as pa

    rows, ids, texts = [], [], []
    for row, record in enumerate(records_of(table)):
        for rotated in rotations(record):
            rows.append(row)
            ids.append(rotated.id)
            texts.append(rotated.to_json())
    table = table.take(pa.array(rows, pa.int64()))
    for name, values in (("id", ids), ("record", texts)):
        column = table.schema.get_field_index(name)
        table = table.set_column(column, name, pa.array(values, table.schema.field(name).type))
    return table, rows


# Options that lmms-eval 0.7.3 loses on the way to tasks: replies after the first, and `--limit` as a share.
#
# `--repeats N`: the filter `take_first` drops all replies to a question but one. `--limit 0.5`: the number of documents
# of the first task becomes the limit of all later ones.

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
