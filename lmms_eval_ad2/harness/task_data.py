"""Data of tasks with `dataset_path: "ad2:NAME"`: rows read from the data home, without hub access or Arrow copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring import distractors
from lmms_eval_ad2.scoring.rotation import rotations
from lmms_eval_ad2.scoring.score_columns import DISTRACTOR_BENCHMARK
from lmms_eval_ad2.scoring.variant import TaskVariant

if TYPE_CHECKING:
    from lmms_eval_ad2.data.home import Dataset

PREFIX = "ad2:"
SAMPLE = "sample_"


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A loaded task, as the hooks use it."""

    name: str
    variant: TaskVariant
    image_root: Path
    data: dict[str, Any]  # name, split, sha256, n, image_root, ...: the block `data` of summary.json
    records: Any  # pyarrow column of the records' JSON, by row


TASKS: dict[str, LoadedTask] = {}


def task_settings(task: Any) -> dict[str, Any] | None:
    """The `metadata: ad2:` block of a task's YAML, or None if the task is not ours."""
    metadata = getattr(getattr(task, "config", None), "metadata", None)
    return metadata.get("ad2") if isinstance(metadata, dict) else None


def variant_of(settings: Mapping[str, Any], task: str) -> TaskVariant:
    """The variant of a task's `metadata: ad2:` block, in the coordinate frame of this run (AD2_FRAME) if it has one."""
    variant = TaskVariant.from_dict(settings, f"task {task}")
    frame = os.environ.get(FRAME_ENV)
    return variant.with_frame(frame, FRAME_ENV) if frame else variant


def wrap_download(original: Callable[..., Any]) -> Callable[..., Any]:
    def download(self: Any, dataset_kwargs: Any = None) -> Any:
        path = self.config.dataset_path
        if not (isinstance(path, str) and path.startswith(PREFIX)):
            return original(self, dataset_kwargs)
        name = self.config.task
        settings = task_settings(self)
        if settings is None:
            raise Ad2Error(f"task {name}: dataset_path '{path}' needs a block 'ad2' under metadata")
        split = self.config.test_split or "test"
        rows = load(name, path[len(PREFIX) :], split, variant_of(settings, name))
        self.dataset = self.dataset_no_image = {split: rows}
        return None

    return download


def load(task: str, name: str, split: str, variant: TaskVariant) -> Any:
    """Return the rows of a task as a datasets.Dataset; the hooks use its columns `ad2_task` and `ad2_row`."""
    import datasets
    import pyarrow as pa

    from lmms_eval_ad2.data.home import open_dataset

    if name.startswith(SAMPLE):
        from lmms_eval_ad2.sample import ensure_sample

        ensure_sample()
    source = open_dataset(name, split)
    table, left_out = _of_part(task, source, variant)
    not_in_lang = _without_chinese(table) if variant.lang == "zh" else 0
    if not_in_lang:
        print(f"ad2: {task}: {not_in_lang} of {table.num_rows} records have no Chinese text; asked in English")
    questions = table.num_rows
    provenance = distractors.provenance(_records(table)) if variant.benchmark == DISTRACTOR_BENCHMARK else {}
    if variant.circular:
        table = _rotated(table)
        print(f"ad2: {task}: {questions} questions, each once per rotation of its options: {table.num_rows}")
    info = {
        "name": name,
        "split": split,
        "sha256": source.sha256,
        "n": table.num_rows,
        "questions": questions,
        "left_out": left_out,
        "not_in_lang": not_in_lang,
        **provenance,
        "image_root": str(source.image_root),
    }
    TASKS[task] = LoadedTask(task, variant, Path(source.image_root), info, table["record"])
    table = table.append_column("ad2_task", pa.repeat(task, table.num_rows))
    table = table.append_column("ad2_row", pa.array(range(table.num_rows), pa.int64()))
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def _of_part(task: str, source: Dataset, variant: TaskVariant) -> tuple[Any, int]:
    """Return the records of the task's part that fit its variant, and the number of those left out."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parts = [pq.read_table(path, memory_map=True) for path in source.parts]
    part = pa.concat_tables([t.filter(pc.equal(t["task"], variant.part)) for t in parts])
    table = _askable(part, variant)
    left_out = part.num_rows - table.num_rows
    if left_out:
        print(f"ad2: {task}: {left_out} of {part.num_rows} records do not fit this variant; left out")
    if table.num_rows == 0:
        raise Ad2Error(
            f"task {task}: dataset '{source.name}' ({source.split}) has no records of part '{variant.part}'"
            + (f" that fit this variant ({variant.changes()})" if left_out else "")
            + f"; see: ad2 data verify {source.name}"
        )
    return table, left_out


def _records(table: Any) -> Iterator[Record]:
    """Yield the records of a table, with one chunk of text in memory at a time."""
    for chunk in table["record"].chunks:
        yield from map(Record.from_json, chunk.to_pylist())


def _without_chinese(table: Any) -> int:
    """Count records with neither a Chinese question nor a Chinese reference (CODA-LM has only the latter)."""
    return sum(not (r.question.zh or r.answer.zh) for r in _records(table))


def _rotated(table: Any) -> Any:
    """Return one row per rotation of each question's options, grouped by question."""
    import pyarrow as pa

    rows, ids, texts = [], [], []
    for row, record in enumerate(_records(table)):
        for rotated in rotations(record):
            rows.append(row)
            ids.append(rotated.id)
            texts.append(rotated.to_json())
    table = table.take(pa.array(rows, pa.int64()))
    for name, values in (("id", ids), ("record", texts)):
        column = table.schema.get_field_index(name)
        table = table.set_column(column, name, pa.array(values, table.schema.field(name).type))
    return table


def _askable(table: Any, variant: TaskVariant) -> Any:
    """Keep only the records that fit the variant (a canonical task asks every record of its part)."""
    plain = variant.form is None and variant.style == "direct" and not (variant.rounds or variant.circular)
    if plain and variant.mark == "native" and not variant.coords:
        return table
    import pyarrow as pa

    keep = [can_ask(record, variant) for record in _records(table)]
    return table.filter(pa.array(keep, pa.bool_()))


def can_ask(record: Record, variant: TaskVariant) -> bool:
    """Whether the record has the form and the visual prompt that the variant needs."""
    if variant.circular and variant.asked_form(record.form) != "mc":
        return False
    return task_prompt.can_ask(record, variant)
