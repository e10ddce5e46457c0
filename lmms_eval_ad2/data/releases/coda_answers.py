"""CODA-LM's official answer files: one JSON object per line, one file per task.

    general_perception_answer.jsonl, driving_suggestion_answer.jsonl, region_perception_answer.jsonl

    {"question_id": 0, "image": "test/images/0001.jpg", "question": "...", "answer": "..."}

`question_id` counts from 0 within a task and split, over sorted image names, then regions in the order of the release.
The image of a region is that with its box drawn, `test/images_w_boxes/0001_object_<key>.jpg`; the folder is that of the
release (the Train split uses `val`). A row belongs to the record with its image, whatever its place and question_id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.storage.untrusted_json import lines, parse

# part of the benchmark -> file, in the order of the tables
FILES = {
    "general": "general_perception_answer.jsonl",
    "region": "region_perception_answer.jsonl",
    "suggestion": "driving_suggestion_answer.jsonl",
}
FIELDS = ("question_id", "image", "question", "answer")
LONGEST_LINE = 1 << 20  # bytes
LARGEST = 128 << 20  # bytes of a file; the answers of a file are in memory together
_MOST_VALUES = 16  # of a row, which has four
_MOST_ID = 2**53
_LONGEST_IMAGE = 500  # characters; it is printed
_IMAGE = re.compile(r"(val|test)/images/([0-9A-Za-z]+)\.jpg")


@dataclass(frozen=True, slots=True)
class CodaAnswerRow:
    """A row of an answer file. `answer`: the reply, not trimmed."""

    question_id: int
    image: str
    question: str
    answer: str


def image_of(record: Record) -> str:
    """The image that names a record in an answer file; raises Ad2Error for a record without the release's file name."""
    found = _IMAGE.fullmatch(record.images[0]) if len(record.images) == 1 else None
    if found is None:
        raise Ad2Error(_not_raw(record, f"its image is {', '.join(record.images)}, not (val|test)/images/NNNN.jpg"))
    if record.task != "region":
        return record.images[0]
    key = record.meta.get("object_key")
    if not isinstance(key, str):
        raise Ad2Error(_not_raw(record, "it has no object key"))
    return f"{found[1]}/images_w_boxes/{found[2]}_object_{key}.jpg"


def _not_raw(record: Record, why: str) -> str:
    return f"record {record.id} has no row in CODA-LM's answer files: {why}. Import the release in its format 'raw'"


def numbers_by_image(records: Iterable[Record]) -> dict[str, int]:
    """The number of each record of one part (from 0, in their order) by its image.

    Raises Ad2Error as `image_of`, and for two records with the same image.
    """
    numbers: dict[str, int] = {}
    for number, record in enumerate(records):
        image = image_of(record)
        if numbers.setdefault(image, number) != number:
            raise Ad2Error(f"two records of part '{record.task}' have the image {image}: import CODA-LM again")
    return numbers


def read_answers(path: Path) -> Iterator[CodaAnswerRow]:
    """Yield the rows of an answer file. Raises DataError with the line and field of the first fault."""
    if path.stat().st_size > LARGEST:
        raise DataError(path, None, "file", f"at most {LARGEST >> 20} MiB", f"{path.stat().st_size:,} bytes")
    for number, line in lines(path, LONGEST_LINE):
        if line.strip():
            yield _row(path, number, line)


def _row(path: Path, number: int, line: bytes) -> CodaAnswerRow:
    hint = f"Write one JSON object per line with the keys {', '.join(FIELDS)}."
    try:
        data = parse(line, most_values=_MOST_VALUES)
    except ValueError as exc:
        raise DataError(path, number, "line", "a JSON object", line[:80].decode("utf-8", "replace"),
                        f"({exc}) {hint}") from exc  # fmt: skip
    row = UntrustedRow(data, path, number)
    row.only(FIELDS)
    if missing := [name for name in FIELDS if name not in row.data]:
        raise row.fail(missing[0], "a value", "no such key", hint)
    if not is_whole(row.get("question_id"), 0, _MOST_ID):
        raise row.fail("question_id", "a whole number from 0", row.get("question_id"))
    image, question, answer = (_text(row, name) for name in FIELDS[1:])
    if len(image) > _LONGEST_IMAGE:
        raise row.fail("image", f"at most {_LONGEST_IMAGE} characters", f"{len(image):,}")
    return CodaAnswerRow(row.get("question_id"), image, question, answer)


def _text(row: UntrustedRow, field: str) -> str:
    """A string, which may be empty. An unpaired surrogate is refused: no file of a run could contain it."""
    value = row.get(field)
    if not isinstance(value, str):
        raise row.fail(field, "a string", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        hint = "Write the file again as UTF-8."
        raise row.fail(field, "valid Unicode text", "an unpaired surrogate", hint) from exc
    return value
