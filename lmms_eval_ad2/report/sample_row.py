"""Contents of a row of samples/<task>.jsonl, for a reader: question, options, reference, reading, the judge's replies.

Rows may be files of others: an absent field, or one of a wrong type, is an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lmms_eval_ad2.core.numbers import is_number

_NO_REPLY = "(no reply is stored)"


def record_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    record = row.get("record")
    return record if isinstance(record, Mapping) else {}


def question(row: Mapping[str, Any]) -> str:
    """The record's question in the language of the task; without one, the prompt."""
    return _in(record_of(row).get("question"), _lang(row)) or str(row.get("prompt", ""))


def options(row: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(letter, text, kind) of each option offered."""
    offered = record_of(row).get("options") if row.get("form") == "mc" else None
    return [
        (str(o.get("letter", "")), _in(o.get("text"), _lang(row)), str(o.get("kind", "")))
        for o in _objects(offered)
    ]  # fmt: skip


def reference(row: Mapping[str, Any]) -> str:
    """The reference answer; of a chain, one line per step."""
    record, lang = record_of(row), _lang(row)
    if row.get("form") == "mc":
        return str(record.get("letter", ""))
    if row.get("form") == "chain":
        return "\n".join(f"{i}. {_in(s.get('answer'), lang)}" for i, s in enumerate(_objects(record.get("steps")), 1))
    return _in(record.get("answer"), lang)


def mark(row: Mapping[str, Any]) -> str:
    """Kind, pixels and words of the visual prompt; empty without one."""
    found = record_of(row).get("mark")
    if not isinstance(found, Mapping) or found.get("kind") in (None, "none"):
        return ""
    return f"{found['kind']} {plain(found.get('coords'))} {_in(found.get('text'), _lang(row))}".rstrip()


def replies(row: Mapping[str, Any]) -> list[str]:
    """The model's reply as received; several texts if it was asked in rounds."""
    raw = row.get("raw")
    return [str(text) for text in raw] if isinstance(raw, list) else [str(row.get("raw", ""))]


def read_as(row: Mapping[str, Any]) -> str | None:
    """The parsed answer; None if there is none, or if it equals the raw text."""
    answer = row.get("answer")
    return None if answer is None or answer == row.get("raw") else plain(answer)


def judged(row: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """The judge's marks: (rubric and part, mark of 10 or the reason for none, its replies).

    A judge that was asked several times about a text has several replies, each after its mark.
    """
    entries = _objects(row.get("judge"))
    for entry in entries:
        part = "" if entry.get("part") in (None, "0") and len(entries) == 1 else f" {entry.get('part')}"
        several = [entry.get(name) for name in ("scores", "reasons", "replies")]
        if all(isinstance(values, list) for values in several):
            asked = zip(*several, strict=False)
            words = [f"{_mark(score, reason)}: {reply or _NO_REPLY}" for score, reason, reply in asked]
        else:
            words = [str(entry.get("reply") or _NO_REPLY)]
        yield f"{entry.get('rubric')}{part}", _mark(entry.get("score"), entry.get("reason")), words


def _mark(score: Any, reason: Any) -> str:
    return f"{score:.3g}" if is_number(score) else str(reason)


def plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _lang(row: Mapping[str, Any]) -> str:
    return str(row.get("lang", "en"))


def _in(text: Any, lang: str) -> str:
    """A text of a record in the language of the task, else in the other one."""
    if not isinstance(text, Mapping):
        return str(text or "")
    return str(text.get(lang) or text.get("en") or text.get("zh") or "")
