"""JSON bodies of requests. Data URLs of pictures are inserted without escaping.

They contain no character that JSON escapes, and scanning half a megabyte again for each of a question's 17 requests
took two thirds of the processor time of `ad2 mcq build`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9+/=:;,._-]*", re.ASCII)
_LEAVES = frozenset((str, int, float, bool, type(None)))
_MARK = secrets.token_hex(16)  # new in each process, so no text of a data set can contain it
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_PLACE = re.compile(rf"{_MARK}-(\d+)-".encode())


class JsonSafeText(str):
    """A text without any character that JSON escapes. Raises ValueError for other texts."""

    raw: bytes

    def __new__(cls, text: str) -> JsonSafeText:
        if not _PLAIN.fullmatch(text):
            raise ValueError("the text has characters that JSON escapes: use a str")
        made = super().__new__(cls, text)
        made.raw = text.encode("ascii")
        return made


def encoded(payload: Mapping[str, Any]) -> bytes:
    """The payload as UTF-8 JSON; lone surrogates become question marks."""
    found: list[bytes] = []
    # Pictures are in messages; the rest, with the schema of the reply, is not searched for them.
    body = {**payload, "messages": _with_placeholders(payload["messages"], found)} if "messages" in payload else payload
    text = _ENCODER.encode(body).encode("utf-8", "replace")
    if not found:
        return text
    parts = _PLACE.split(text)  # text, number, text, number, ...
    parts[1::2] = [found[int(number)] for number in parts[1::2]]
    return b"".join(parts)


def _with_placeholders(value: Any, found: list[bytes]) -> Any:
    """`value` with a placeholder for each JsonSafeText, whose bytes are appended to `found`."""
    kind = type(value)
    if kind is JsonSafeText:
        found.append(value.raw)
        return f"{_MARK}-{len(found) - 1}-"
    if kind is dict:
        return {
            key: inner if type(inner) in _LEAVES else _with_placeholders(inner, found) for key, inner in value.items()
        }
    if kind is list or kind is tuple:
        return [_with_placeholders(inner, found) for inner in value]
    return value
