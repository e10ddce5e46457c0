"""`dataset_path: "ad2:NAME"` in a YAML: rows straight from the data home, no hub, no arrow copy, no retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.prompts import text, visual
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.variant import Variant

PREFIX = "ad2:"
SAMPLE = "sample_"


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What the hooks need to know of a loaded task."""

    name: str
    variant: Variant
    image_root: Path
    data: dict[str, Any]  # name, split, sha256, n, image_root: as it stands in summary.json
    records: Any  # pyarrow column of the records' JSON, by row


TASKS: dict[str, TaskInfo] = {}


def task_settings(task: Any) -> dict[str, Any] | None:
    """The `metadata: ad2:` block of a task's YAML, or None where the task is not ours."""
    metadata = getattr(getattr(task, "config", None), "metadata", None)
    return metadata.get("ad2") if isinstance(metadata, dict) else None


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
        rows = load(name, path[len(PREFIX) :], split, Variant.from_dict(settings, f"task {name}"))
        self.dataset = self.dataset_no_image = {split: rows}
        return None

    return download


def load(task: str, name: str, split: str, variant: Variant) -> Any:
    """The rows of a task as a datasets.Dataset; by `ad2_task` and `ad2_row` the hooks find settings and record."""
    import datasets
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from lmms_eval_ad2.library import open_dataset

    if name.startswith(SAMPLE):
        from lmms_eval_ad2.sample import ensure_sample

        ensure_sample()
    source = open_dataset(name, split)
    parts = [pq.read_table(path, memory_map=True) for path in source.parts]
    of_part = pa.concat_tables([t.filter(pc.equal(t["task"], variant.part)) for t in parts])
    table = _askable(of_part, variant)
    left_out = of_part.num_rows - table.num_rows
    if left_out:
        print(f"ad2: {task}: {left_out} of {of_part.num_rows} records have not what this variant asks for; left out")
    if table.num_rows == 0:
        raise Ad2Error(
            f"task {task}: dataset '{name}' ({split}) has no records of part '{variant.part}'"
            + (f" that can be asked like this ({variant.changes()})" if left_out else "")
            + f"; see: ad2 data verify {name}"
        )
    foreign = _without_chinese(table) if variant.lang == "zh" else 0
    if foreign:
        print(f"ad2: {task}: {foreign} of {table.num_rows} records have no Chinese text; they are asked in English")
    info = {
        "name": name,
        "split": split,
        "sha256": source.sha256,
        "n": table.num_rows,
        "left_out": left_out,
        "not_in_lang": foreign,
    }
    info["image_root"] = str(source.image_root)
    TASKS[task] = TaskInfo(task, variant, Path(source.image_root), info, table["record"])
    table = table.append_column("ad2_task", pa.repeat(task, table.num_rows))
    table = table.append_column("ad2_row", pa.array(range(table.num_rows), pa.int64()))
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def _without_chinese(table: Any) -> int:
    """Records with neither a Chinese question nor a Chinese reference (CODA-LM has only the latter)."""
    records = (Record.from_json(row) for row in table["record"].to_pylist())
    return sum(not (r.question.zh or r.answer.zh) for r in records)


def _askable(table: Any, variant: Variant) -> Any:
    """Only the records that have what the variant needs (a canonical task asks every record of its part)."""
    plain = variant.form is None and variant.style == "direct" and not variant.rounds
    if plain and variant.mark == "native" and not variant.coords:
        return table
    import pyarrow as pa

    keep = [can_ask(Record.from_json(row), variant) for row in table["record"].to_pylist()]
    return table.filter(pa.array(keep, pa.bool_()))


def can_ask(record: Record, variant: Variant) -> bool:
    """Has the record the form and the visual prompt that the variant asks for?"""
    if not text.can_ask(record, variant.asked_form(record.form)) or (variant.coords and not record.mark.coords):
        return False
    try:
        return variant.mark in ("native", "none") or bool(visual.effective_mark(record, variant.mark).kind != "none")
    except Ad2Error:  # a box cannot be made from a point
        return False
