"""JSON of requests: their bodies, and the canonical form for cache keys. What many requests contain is encoded once.

Data URLs of pictures contain no character that JSON escapes, and scanning half a megabyte again for each of a
question's 17 requests took two thirds of the processor time of `ad2 mcq build`. The schema of a reply has many small
parts: to encode it takes longer than a prompt.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Pictures in requests: JPEG as a data URL, with the hash that stands for it in cache keys.

JPEG_QUALITY = 95


@dataclass(frozen=True, slots=True)
class DataUrlImage:
    """The picture of one camera as a data URL. `view` is "" if it has no name; `sha256` is that of the JPEG.

    size: width and height in pixels, in which tags and boxes of objects are given.
    """

    view: str
    sha256: str
    url: str
    size: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, view: str, image: Any) -> DataUrlImage:
        """Encode a PIL image. Slow: call it in a thread."""
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=JPEG_QUALITY)
        data = buffer.getvalue()
        url = JsonSafeText("data:image/jpeg;base64," + base64.b64encode(data).decode("ascii"))
        return cls(view, hashlib.sha256(data).hexdigest(), url, image.size)


_PLAIN = re.compile(r"[A-Za-z0-9+/=:;,._-]*", re.ASCII)
_LEAVES = frozenset((str, int, float, bool, type(None)))
_MARK = secrets.token_hex(16)  # new in each process, so no text of a data set can contain it
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
_PLACE = re.compile(rf'"{_MARK}-(\d+)-"')


class JsonSafeText(str):
    """A text without any character that JSON escapes. Raises ValueError for other texts."""

    raw: bytes

    def __new__(cls, text: str) -> JsonSafeText:
        if not _PLAIN.fullmatch(text):
            raise ValueError("the text has characters that JSON escapes: use a str")
        made = super().__new__(cls, text)
        made.raw = f'"{text}"'.encode("ascii")
        return made


class EncodedJson(dict[str, Any]):
    """A JSON object that many requests have as one of their values. Must not be changed."""

    __slots__ = ("canonical", "raw")

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.raw = _utf8(_ENCODER.encode(self))
        self.canonical = _CANONICAL.encode(self)


def encoded(payload: Mapping[str, Any]) -> bytes:
    """The payload as UTF-8 JSON; lone surrogates become question marks."""
    found: list[bytes] = []
    body: dict[str, Any] = {}
    for key, value in payload.items():
        if type(value) is EncodedJson:
            body[key] = _placeholder(len(found))
            found.append(value.raw)
        else:  # pictures are in messages; the rest is not searched for them
            body[key] = _with_placeholders(value, found) if key == "messages" else value
    text = _ENCODER.encode(body)
    if not found:
        return _utf8(text)
    parts = _PLACE.split(text)  # text, number, text, number, ...
    return b"".join([found[int(part)] if i % 2 else _utf8(part) for i, part in enumerate(parts)])


def canonical(value: Any) -> str:
    """`value` as JSON with sorted keys and without spaces."""
    if type(value) is not dict:
        return _CANONICAL.encode(value)
    known = [key for key, inner in value.items() if type(inner) is EncodedJson]
    text = _CANONICAL.encode(value | {key: _placeholder(i) for i, key in enumerate(known)})
    return _PLACE.sub(lambda m: value[known[int(m[1])]].canonical, text) if known else text


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _placeholder(number: int) -> str:
    return f"{_MARK}-{number}-"


def _with_placeholders(value: Any, found: list[bytes]) -> Any:
    """`value` with a placeholder for each JsonSafeText, whose bytes are appended to `found`."""
    kind = type(value)
    if kind is JsonSafeText:
        found.append(value.raw)
        return _placeholder(len(found) - 1)
    if kind is dict:
        return {
            key: inner if type(inner) in _LEAVES else _with_placeholders(inner, found) for key, inner in value.items()
        }
    if kind is list or kind is tuple:
        return [_with_placeholders(inner, found) for inner in value]
    return value
