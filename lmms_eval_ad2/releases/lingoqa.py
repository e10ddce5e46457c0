"""LingoQA (wayveai/LingoQA): parquet rows, five frames of one camera a question, one row a reference answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import Record, Text
from lmms_eval_ad2.releases import parquet
from lmms_eval_ad2.releases.base import BadRow, Item, Opened, Release, existing, image_folder
from lmms_eval_ad2.releases.row import Row

SCHEMA = """\
SOURCE: evaluation/val.parquet, action/train.parquet or scenery/train.parquet, with the columns
  question_id, segment_id, images (five paths such as images/val/<segment_id>/<frame>.jpg), question, answer
Images: --images DIR, the folder that holds images/ (default: the file's own folder).
--split: default is the file's name. Task: action, scenery or val.

Rows with the same question_id are one record: all their answers are its references (meta.references), the first is its
answer. The val split has 500 questions of two answers each; other numbers are refused unless --partial is given.
"""

COLUMNS = ("question_id", "segment_id", "images", "question", "answer")
FRAMES = 5
VAL_QUESTIONS = 500


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> Opened:
    path = existing(source, "parquet file")
    if path.is_dir():
        raise Ad2Error(f"{path} is a folder: name the parquet file (see: ad2 data schema lingoqa)")
    split = split or path.stem
    root = image_folder(images, [path.parent], "images")
    task = path.parent.name if path.parent.name in ("action", "scenery") else "val"
    expected = {} if options.get("partial") or split != "val" else {"val": VAL_QUESTIONS}
    return Opened(split, root, lambda: _read(path, split, task), [path], expected)


def _read(path: Path, split: str, task: str) -> Iterator[Item]:
    """A question is complete at the last row that carries its id; where rows lie together one is in memory."""
    last = {row["question_id"]: number for number, row in enumerate(parquet.read_rows(path, ("question_id",)))}
    waiting: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
    for number, data in enumerate(parquet.read_rows(path, COLUMNS)):
        name = data["question_id"]
        waiting.setdefault(name, []).append((number, data))
        if last[name] == number:
            try:
                yield _record([Row(row, path, n) for n, row in waiting.pop(name)], split, task)
            except DataError as exc:
                yield BadRow(exc)


def _record(rows: list[Row], split: str, task: str) -> Record:
    first = rows[0]
    name, segment, question = first.string("question_id"), first.string("segment_id"), first.string("question")
    images = _frames(first)
    for row in rows[1:]:
        same = row.string("question") == question and row.string("segment_id") == segment and _frames(row) == images
        if not same:
            raise row.fail("question_id", "the same question, segment and images in every row of this id", name)
    references = [row.string("answer") for row in rows]
    return Record(
        id=name, benchmark="lingoqa", task=task, subtask=task, form="vqa", images=images, question=Text(en=question),
        answer=Text(en=references[0]), views=tuple(f"frame {i}" for i in range(1, len(images) + 1)), cluster=segment,
        meta={"references": references, "segment_id": segment, "split": split},
    )  # fmt: skip


def _frames(row: Row) -> tuple[str, ...]:
    paths = row.listing("images")
    if len(paths) != FRAMES:
        raise row.fail("images", f"{FRAMES} frames", len(paths))
    return tuple(row.image("images", path) for path in paths)


RELEASE = Release("lingoqa", "LingoQA (wayveai/LingoQA)", SCHEMA, open_release)
