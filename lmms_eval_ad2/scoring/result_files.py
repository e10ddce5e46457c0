"""Reading and writing the result files of a run (format: docs/architecture.md).

Write order: samples/<task>.jsonl for every task, then summary.json, each atomically. A summary therefore always has its
samples; a run without a summary is unfinished.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.scoring.derived_records import REPLY, ROTATED
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.saved_samples import needs, read_record, read_sample
from lmms_eval_ad2.storage.untrusted_json import lines, load

SCHEMA = "ad2-run/1"
SELECTED = "selected"  # key of a task's table, beside SHARDS: the number of rows of all N shards


@contextmanager
def sample_writer(folder: Path | None, task: str) -> Iterator[Callable[[ScoredSample], None]]:
    """Yield a function that writes one line of samples/<task>.jsonl; the file appears if the block succeeds."""
    if folder is None:
        yield lambda sample: None
        return
    with atomic_write(folder / "samples" / f"{task}.jsonl") as handle:
        yield lambda sample: print(sample.to_json(), file=handle)


def write_summary(folder: Path, run: Mapping[str, Any], tasks: Mapping[str, Any]) -> Path:
    path = folder / "summary.json"
    data = {"schema": SCHEMA, "run": run, "tasks": tasks}
    with atomic_write(path) as handle:
        handle.write(json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False))
    return path


def read_summary(folder: Path, name: str = "summary.json") -> dict[str, Any]:
    """Read summary.json of a run folder; raises DataError if it is absent, broken or of another schema."""
    path = folder / name
    try:
        data = load(path)
    except FileNotFoundError:
        raise DataError(path, None, "file", "a finished run", None, "run the same command again to finish it") from None
    except (OSError, ValueError) as exc:
        raise DataError(path, None, "file", "JSON written by a run", str(exc)) from exc
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise DataError(path, None, "schema", SCHEMA, found, "was it written by another version?")
    for block in ("run", "tasks"):
        if not isinstance(data.get(block), dict):
            raise DataError(path, None, block, "an object", data.get(block))
    for name in data["tasks"]:  # used in file names
        if Path(name).name != name or not name.isprintable():
            raise DataError(path, None, "tasks", "names of tasks", name)
    return data


def read_samples(folder: Path, task: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of samples/<task>.jsonl; raises DataError for one that no run has written."""
    path = folder / "samples" / f"{task}.jsonl"
    try:
        for number, line in lines(path):
            yield read_sample(path, number, line)
    except FileNotFoundError:
        raise DataError(path, None, "file", "the samples of a finished run", None) from None


def scored_samples(
    folder: Path, task: str, variant: TaskVariant, resizing: InputResizing | None
) -> Iterator[tuple[int, Mapping[str, Any], ScoredSample]]:
    """Score the saved answers of a task again, without their judge's marks: (line, row, sample).

    Raises DataError, with the line, for a row that cannot be scored.
    """
    path = folder / "samples" / f"{task}.jsonl"
    for number, row in enumerate(read_samples(folder, task), 1):
        needs(path, number, row, "raw", "prompt")
        record = read_record(path, number, row)
        _check_derived(path, number, record, variant)
        sample = score_sample(record, row["raw"], variant, task, row["prompt"], resizing)
        sample.row = row.get("row")
        yield number, row, sample


def _check_derived(path: Path, number: int, record: Record, variant: TaskVariant) -> None:
    """Raise DataError for a reply, or a rotation of options, that does not name its question."""
    reply, rotated = record.meta.get(REPLY), record.meta.get(ROTATED)
    if isinstance(reply, Mapping) and not isinstance(reply.get("id"), str):
        raise DataError(path, number, f"record.meta.{REPLY}", "the id of its question", str(reply)[:80])
    if not variant.circular:
        return
    if variant.asked_form(record) != "mc":
        raise DataError(path, number, "record.form", "mc, as the task rotates options", record.form)
    options = len(record.options)
    known = rotated if isinstance(rotated, Mapping) else {}
    shift, of = known.get("by"), known.get("of")
    if not (isinstance(known.get("id"), str) and is_whole(of, options, options) and is_whole(shift, 0, options - 1)):
        expected = f'{{"id": text, "by": 0 to {options - 1}, "of": {options}}}, as the task rotates its options'
        raise DataError(path, number, f"record.meta.{ROTATED}", expected, str(rotated)[:80])
