"""Parse a model's reply into a ThreatSpec or a list of problems. No reply is executed, and none raises an error.

The first JSON object is parsed; text and code fences around it are ignored. Size and nesting are limited; duplicate
keys, NaN and integers of many digits are rejected, not repaired.

The problems enter repair prompts: their wording is part of the measurement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.driver.agents.model_backend import harmless
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import ThreatSpec

LONGEST = 20_000  # characters of a reply that are parsed
DEEPEST = 8  # maximum nesting; a spec has 5 levels
DIGITS = 12  # maximum digits of an integer
MAX_PROBLEMS = 8  # reported at once
KEPT_BYTES = 20_000  # maximum size of a text in a transcript
_FREE = ("description", "why")


@dataclass(frozen=True)
class ParsedSpec:
    """`spec`, or the `problems` as sentences for a repair prompt."""

    spec: ThreatSpec | None = None
    problems: tuple[str, ...] = ()


def read_spec(reply: str, site: ThreatSite, description: str = "") -> ParsedSpec:
    """Parse and validate a reply. `description` is used if the object has none."""
    data, problem = first_object(reply)
    if data is None:
        return ParsedSpec(problems=(problem,))
    data = {key: harmless(value) if key in _FREE and isinstance(value, str) else value for key, value in data.items()}
    if not data.get("description"):
        data["description"] = short(harmless(description), 600)
    try:
        spec = ThreatSpec.model_validate(data)
    except ValidationError as exc:
        return ParsedSpec(problems=_problems(exc))
    problems = fit(spec, site)
    return ParsedSpec(problems=tuple(problems[:MAX_PROBLEMS])) if problems else ParsedSpec(spec)


def first_object(reply: str) -> tuple[dict[str, Any] | None, str]:
    """(first JSON object of the text, "") or (None, problem)."""
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
    """(index of the bracket that closes the one at `start`, "") or (None, problem). Strings are skipped."""
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
        found = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_int=_integer)
    except json.JSONDecodeError as exc:
        return None, f"not valid JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
    except ValueError as exc:
        return None, f"not valid JSON: {exc}"
    return found, ""


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        duplicate = next(key for i, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:i]])
        raise ValueError(f"the key '{short(harmless(duplicate), 40)}' stands there twice")
    return found


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _problems(exc: ValidationError) -> tuple[str, ...]:
    """Field and message of each error. Keys are untrusted text and are sanitised."""
    problems = []
    for error in exc.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        field = ".".join(short(harmless(str(part)), 40) for part in error["loc"])
        message = str(error["msg"]).removeprefix("Value error, ")
        problems.append(f"{field}: {message}" if field else message)
    return tuple(problems)


def short(text: str, most: int) -> str:
    """The text on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def kept(text: str, most: int = KEPT_BYTES) -> str:
    """The text as stored in a transcript: valid UTF-8 of at most `most` bytes, with a note if it is cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode("utf-8")
    return data[:most].decode("utf-8", "ignore") + f"\n[cut: {len(data):,} bytes in all]"
