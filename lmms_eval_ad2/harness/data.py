"""`dataset_path: "ad2:NAME"` in a YAML: rows straight from the data home, no hub, no arrow copy, no retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
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
    parts = []
    for path in source.parts:
        table = pq.read_table(path, memory_map=True)
        parts.append(table.filter(pc.equal(table["task"], variant.part)))
    table = _askable(pa.concat_tables(parts), variant) if parts else None
    if table is None or table.num_rows == 0:
        raise Ad2Error(
            f"task {task}: dataset '{name}' ({split}) has no records of part '{variant.part}'"
            + (f" that can be asked as {variant.form}" if variant.form else "")
            + f"; see: ad2 data verify {name}"
        )
    info = {"name": name, "split": split, "sha256": source.sha256, "n": table.num_rows}
    info["image_root"] = str(source.image_root)
    TASKS[task] = TaskInfo(task, variant, Path(source.image_root), info, table["record"])
    table = table.append_column("ad2_task", pa.repeat(task, table.num_rows))
    table = table.append_column("ad2_row", pa.array(range(table.num_rows), pa.int64()))
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def _askable(table: Any, variant: Variant) -> Any:
    """Only the records that have what the asked form needs (a canonical task asks every record)."""
    if variant.form is None and variant.style == "direct" and not variant.rounds:
        return table
    import pyarrow as pa

    keep = [can_ask(Record.from_json(text), variant) for text in table["record"].to_pylist()]
    return table.filter(pa.array(keep, pa.bool_()))


def can_ask(record: Record, variant: Variant) -> bool:
    """Has the record what the variant's form needs?"""
    form = variant.asked_form(record.form)
    if form == "chain":
        return bool(record.steps)
    if form == "mc":
        return bool(record.options and record.letter)
    if form == "vqa":
        return bool(record.answer) or bool(record.letter)
    return record.form == form
