"""JSON objects in a model's reply: between other text, in code fences, nested, or in a loose notation.

An object is a list of (key, value) pairs, because a reply may repeat a key with another value. Nothing is executed, and
the time is bounded by the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_FLAT = re.compile(r"\{([^{}]{1,400})\}")
_PAIR = re.compile(
    r"\s*(?P<q>[\"']?)(?P<key>[A-Za-z_]{1,40})(?P=q)\s*[:=]\s*"
    r"(?:\"(?P<d>[^\"]*)\"|'(?P<s>[^']*)'|(?P<n>[^\s,\"']+))\s*(?:,|\Z)"
)


class KeyValuePairs(list[tuple[str, Any]]):
    """A JSON object as a list of pairs, in which repeated keys are kept."""


_DECODER = json.JSONDecoder(object_pairs_hook=KeyValuePairs)
_PLAIN = json.JSONDecoder()


def json_values(
    text: str, most: int | None = None, decoder: json.JSONDecoder = _DECODER
) -> Iterator[tuple[Any, int, int]]:
    """(value, start, end) of each value that starts at a brace outside of earlier ones. `most`: braces tried."""
    start, tried = text.find("{"), 0
    while start >= 0 and (most is None or tried < most):
        value, end = _value_at(text, start, decoder)
        if end is not None:
            yield value, start, end
        tried += 1
        start = text.find("{", end or start + 1)


def last_object(values: Iterable[Any], wanted: Callable[[str], bool]) -> KeyValuePairs | None:
    """The last object, possibly nested, that has a key for which `wanted(key)` holds."""
    last: KeyValuePairs | None = None
    for value in values:
        last = next(wanted_objects(value, wanted), last)
    return last


def wanted_objects(value: Any, wanted: Callable[[str], bool]) -> Iterator[KeyValuePairs]:
    """The objects within a decoded value that have a wanted key, the last first. Iterative: depth is not limited."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, KeyValuePairs):
            if any(wanted(key) for key, _ in node):
                yield node
            else:
                waiting.extend(v for _, v in node)
        elif isinstance(node, list):
            waiting.extend(node)


def last_dict(text: str, most: int = 1000) -> dict[str, Any] | None:
    """The last object as Python's json module reads it: of repeated keys the last. `most`: braces that are tried."""
    last = None
    for value, _, _ in json_values(text, most, _PLAIN):
        last = value
    return last if isinstance(last, dict) else None


def leaves(found: KeyValuePairs, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """(key, value) of the values below wanted keys that are no objects, in order; those of a list have its key."""
    waiting: list[tuple[str, Any]] = [("", found)]
    while waiting:  # iterative, since the depth is not limited
        name, node = waiting.pop()
        if isinstance(node, KeyValuePairs):
            waiting.extend(pair for pair in reversed(node) if wanted(pair[0]))
        elif isinstance(node, list):
            waiting.extend((name, item) for item in reversed(node))
        else:
            yield name, node


def _value_at(text: str, start: int, decoder: json.JSONDecoder) -> tuple[Any, int | None]:
    """The value at `start` and its end; the end is None if there is none."""
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        loose = _FLAT.match(text, start) if decoder is _DECODER else None
        pairs = _loose(loose[1]) if loose else None
        return pairs, loose.end() if loose and pairs is not None else None


def _loose(body: str) -> KeyValuePairs | None:
    """KeyValuePairs of a loose notation such as `'throttle': 0.5, steer: "0", brake: 0,`; None for anything else."""
    pairs = KeyValuePairs()
    position = 0
    body = body.strip()
    while position < len(body):
        match = _PAIR.match(body, position)
        if not match:
            return None
        value = next(v for v in (match["d"], match["s"], match["n"]) if v is not None)
        pairs.append((match["key"], _bare(value, quoted=match["n"] is None)))
        position = match.end()
    return pairs


def _bare(value: str, *, quoted: bool) -> Any:
    """A bare true/false/null stays a non-number; every other value is a text."""
    return {"true": True, "false": False, "null": None}.get(value.lower(), value) if not quoted else value
