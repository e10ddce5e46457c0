"""One row of samples/<task>.jsonl, which may be a file of others: parsed, and checked before anything uses it.

The rows are described in docs/architecture.md. Fields that earlier versions did not write may be absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_bounded, is_whole
from lmms_eval_ad2.core.records import FORMS, MARKS, Record
from lmms_eval_ad2.storage.untrusted_json import parse

MOST_PIXELS = 1_000_000  # of a side of an image
MOST_JUDGEMENTS = 1000  # of one text: as many as `judge_repeats` can sensibly ask for
_SHOWN = 80  # characters of a wrong value in a message
_HINT = "Was the file changed? Run the evaluation again."


@dataclass(frozen=True)
class FieldType:
    """What a field may hold: in words, and as a test."""

    expected: str
    fits: Callable[[Any], bool]


def read_sample(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The row in line `number` of a samples file, with an id and known fields of the right types.

    Raises DataError, with file, line and field, for anything else, such as text that no file could contain.
    """
    try:
        row = parse(line)
    except ValueError as exc:
        raise DataError(path, number, "line", "one JSON object", line[:_SHOWN], f"({exc})") from exc
    if not isinstance(row, dict):
        raise DataError(path, number, "line", "one JSON object", line[:_SHOWN])
    _check(path, number, row, _ROW, needed=("id",))
    if b"\\u" in line:
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as exc:
            raise DataError(path, number, "line", "valid Unicode text", "an unpaired surrogate", _HINT) from exc
    return row


def read_record(path: Path, number: int | str, row: Mapping[str, Any]) -> Record:
    """The record of a row. number: of its line, or its id. Raises DataError for one that no run has written."""
    record = row.get("record")
    if not isinstance(record, dict):
        raise DataError(path, number, "record", "the record as an object", _short(record), _HINT)
    _check(path, number, record, _RECORD, needed=_RECORD_NEEDED, within="record.")
    if unknown := record.keys() - _RECORD:
        raise DataError(path, number, f"record.{min(unknown)[:_SHOWN]}", "no such field", None, "another version?")
    return Record.from_dict(record)


def saved_repeats(path: Path, judge: Any) -> int:
    """How often the judge described in a summary rated each text; raises DataError for a number of no run."""
    repeats = judge.get("repeats", 1) if isinstance(judge, Mapping) else 1
    if not is_whole(repeats, 1, MOST_JUDGEMENTS):
        raise DataError(path, None, "judge.repeats", f"a whole number from 1 to {MOST_JUDGEMENTS:,}", _short(repeats))
    return repeats


def needs(path: Path, number: int, row: Mapping[str, Any], *names: str) -> None:
    """Raise DataError for a row without one of these fields."""
    _check(path, number, row, {name: _ROW[name] for name in names}, needed=names)


def _check(
    path: Path, number: int | str, row: Mapping[str, Any], types: Mapping[str, FieldType], *, needed: tuple[str, ...],
    within: str = "",
) -> None:  # fmt: skip
    for name, kind in types.items():
        if name not in row:
            if name in needed:
                raise DataError(path, number, within + name, kind.expected, None, _HINT)
        elif not kind.fits(row[name]):
            raise DataError(path, number, within + name, kind.expected, _short(row[name]), _HINT)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_SHOWN]


def _or_null(kind: FieldType) -> FieldType:
    return FieldType(f"{kind.expected}, or null", lambda value: value is None or kind.fits(value))


def _list_of(kind: FieldType, most: int | None = None) -> FieldType:
    limit = "" if most is None else f", at most {most:,} of them"
    return FieldType(
        f"a list, each entry {kind.expected}{limit}",
        lambda value: isinstance(value, list) and (most is None or len(value) <= most) and all(map(kind.fits, value)),
    )


def _map_of(kind: FieldType) -> FieldType:
    return FieldType(
        f"an object, each value {kind.expected}",
        lambda value: isinstance(value, dict) and all(map(kind.fits, value.values())),
    )


def _object(types: Mapping[str, FieldType], needed: tuple[str, ...], *, others: bool = False) -> FieldType:
    """An object with these fields, those of `needed` in any case; further ones only with `others`."""
    return FieldType(
        f"an object with {', '.join(needed)}",
        lambda value: (
            isinstance(value, dict)
            and all(name in value for name in needed)
            and all(kind.fits(value[name]) for name, kind in types.items() if name in value)
            and (others or value.keys() <= types.keys())
        ),
    )


def _one_of(names: tuple[str, ...]) -> FieldType:
    return FieldType(f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


_TEXT = FieldType("a text", lambda value: isinstance(value, str))
_NUMBER = FieldType("a number", is_bounded)
_COUNT = FieldType("a whole number from 0", lambda value: is_whole(value, 0, 1e15))
_ANY_OBJECT = FieldType("an object", lambda value: isinstance(value, dict))
_TEXTS = _list_of(_TEXT)
_MARK_OF_JUDGE = _or_null(FieldType("a number from 1 to 10", lambda value: is_bounded(value) and 1 <= value <= 10))
_JUDGED = _object(
    {
        "rubric": _TEXT, "part": _TEXT, "score": _MARK_OF_JUDGE, "reason": _or_null(_TEXT), "reply": _or_null(_TEXT),
        "scores": _list_of(_MARK_OF_JUDGE, MOST_JUDGEMENTS), "reasons": _list_of(_or_null(_TEXT), MOST_JUDGEMENTS),
        "replies": _list_of(_or_null(_TEXT), MOST_JUDGEMENTS),
    },
    ("rubric", "score"), others=True,
)  # fmt: skip

_ROW: dict[str, FieldType] = {
    **dict.fromkeys(
        ("id", "task", "benchmark", "part", "subtask", "column", "form", "lang", "cluster", "prompt", "status", "note"),
        _TEXT,
    ),
    **dict.fromkeys(("reason", "kind"), _or_null(_TEXT)),
    "raw": FieldType("a text, or a list of texts", lambda value: _TEXT.fits(value) or _TEXTS.fits(value)),
    "values": _map_of(_or_null(_NUMBER)),
    "strict": _map_of(_NUMBER),
    "score": _or_null(_NUMBER),
    "judge": _list_of(_JUDGED),
    "repeated": _map_of(_list_of(_or_null(_NUMBER), MOST_JUDGEMENTS)),
    "row": _COUNT,
    "record": _ANY_OBJECT,
}

_BOTH = _object({"en": _TEXT, "zh": _TEXT}, ())
# Names of steps and texts of marks: a plain text is English, as these fields had one language before.
_EITHER = FieldType('a text, or an object with "en" and "zh"', lambda value: _TEXT.fits(value) or _BOTH.fits(value))
_MARK = _object(
    {"kind": _one_of(MARKS), "coords": _list_of(_list_of(_NUMBER)), "text": _EITHER}, ("kind", "coords", "text")
)
_LETTER = FieldType("a letter", lambda value: isinstance(value, str) and len(value) == 1 and value.isalpha())
_OPTION = _object({"letter": _LETTER, "text": _BOTH, "kind": _TEXT}, ("letter", "text", "kind"))
_SUBTASK = _or_null(FieldType("a whole number", is_whole))
_STEP = _object(
    {"name": _EITHER, "question": _BOTH, "answer": _BOTH, "subtask_id": _SUBTASK, "mark": _or_null(_MARK)},
    ("name", "question", "answer"),
)
_SIZE = FieldType(
    f"width and height in pixels, at most {MOST_PIXELS:,}, or null",
    lambda value: (
        value is None
        or (isinstance(value, list) and len(value) == 2 and all(is_whole(v, 1, MOST_PIXELS) for v in value))
    ),
)
_RECORD_NEEDED = ("id", "benchmark", "task", "subtask", "form", "images", "question", "answer")
_RECORD: dict[str, FieldType] = {
    **dict.fromkeys(("id", "benchmark", "task", "subtask", "letter", "cluster"), _TEXT),
    "form": _one_of(FORMS),
    "images": _TEXTS,
    "views": _TEXTS,
    **dict.fromkeys(("question", "answer"), _BOTH),
    "options": _list_of(_OPTION),
    "mark": _MARK,
    "steps": _list_of(_STEP),
    "image_size": _SIZE,
    "subtask_id": _SUBTASK,
    **dict.fromkeys(("scene", "meta"), _ANY_OBJECT),
}
