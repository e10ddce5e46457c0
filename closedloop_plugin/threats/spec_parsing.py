"""A model's reply -> ThreatSpec, or what is wrong with it. Nothing in a reply is executed, and nothing in it raises.

Read is the first JSON object; prose and code fences around it do not matter. Replies are bounded in size and depth,
and a doubled key, NaN or a number of many digits is refused, not mended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.agents.model_backend import harmless
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import ThreatSpec

LONGEST = 20_000  # characters of a reply that are read
DEEPEST = 8  # brackets within brackets; a spec has 3
DIGITS = 12  # of a whole number
MOST = 8  # problems that are told at once
KEPT_BYTES = 20_000  # of a text in a transcript
_FREE = ("description", "why")


@dataclass(frozen=True)
class ParsedSpec:
    """`spec`, or the `problems` in sentences that a model can act upon."""

    spec: ThreatSpec | None = None
    problems: tuple[str, ...] = ()


def read_spec(reply: str, site: ThreatSite, description: str = "") -> ParsedSpec:
    """`description` stands in where the object has none."""
    data, problem = first_object(reply)
    if data is None:
        return ParsedSpec(problems=(problem,))
    data = {key: harmless(value) if key in _FREE and isinstance(value, str) else value for key, value in data.items()}
    if not data.get("description"):
        data["description"] = short(harmless(description), 600)
    try:
        spec = ThreatSpec.model_validate(data)
    except ValidationError as exc:
        return ParsedSpec(problems=_told(exc))
    problems = fit(spec, site)
    return ParsedSpec(problems=tuple(problems[:MOST])) if problems else ParsedSpec(spec)


def first_object(reply: str) -> tuple[dict[str, Any] | None, str]:
    """(the first JSON object, "") or (None, what is wrong)."""
    text = reply.rpartition("</think>")[2][:LONGEST]
    start, problem = text.find("{"), "there is no JSON object in the reply"
    while start >= 0:
        end, fault = _closing(text, start)
        if end is None:
            return None, fault
        found, fault = _decoded(text[start : end + 1])
        if found is not None:
            return found, ""
        problem = fault
        start = text.find("{", end + 1)
    return None, problem


def _closing(text: str, start: int) -> tuple[int | None, str]:
    """Where the bracket at `start` is closed. Brackets inside strings do not count."""
    depth, quoted, escaped = 0, False, False
    for i in range(start, len(text)):
        char = text[i]
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
            if depth > DEEPEST:
                return None, f"the JSON object has more than {DEEPEST} brackets within brackets"
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return i, ""
    return None, f"the JSON object has no end (of a reply at most {LONGEST:,} characters are read)"


def _decoded(text: str) -> tuple[dict[str, Any] | None, str]:
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_not_a_number, parse_int=_whole)
    except json.JSONDecodeError as exc:
        return None, f"not valid JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
    except ValueError as exc:
        return None, f"not valid JSON: {exc}"
    return found, ""


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:i]])
        raise ValueError(f"the key '{short(harmless(twice), 40)}' stands there twice")
    return found


def _not_a_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _told(exc: ValidationError) -> tuple[str, ...]:
    """Field and message of each error; keys are a stranger's text and are cleaned."""
    told = []
    for error in exc.errors(include_url=False, include_context=False)[:MOST]:
        field = ".".join(short(harmless(str(part)), 40) for part in error["loc"])
        said = str(error["msg"]).removeprefix("Value error, ")
        told.append(f"{field}: {said}" if field else said)
    return tuple(told)


def short(text: str, most: int) -> str:
    """One line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def kept(text: str, most: int = KEPT_BYTES) -> str:
    """As a transcript keeps it: valid UTF-8 of at most `most` bytes; what is cut is said."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode("utf-8")
    return data[:most].decode("utf-8", "ignore") + f"\n[cut: {len(data):,} bytes in all]"
