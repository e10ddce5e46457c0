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

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.scoring.sample import ScoredSample
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.untrusted_json import lines, load, parse

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
    """Yield the rows of samples/<task>.jsonl."""
    path = folder / "samples" / f"{task}.jsonl"
    try:
        for number, line in lines(path):
            try:
                yield parse(line)
            except ValueError as exc:
                raise DataError(path, number, "line", "one JSON object", line[:80], f"({exc})") from exc
    except FileNotFoundError:
        raise DataError(path, None, "file", "the samples of a finished run", None) from None
