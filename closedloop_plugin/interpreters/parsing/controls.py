"""Parsing of the slow system's reply to a Control: the last JSON object with control keys. Prose is never interpreted.

Accepted because it is unambiguous: text and code fences around the object, any order and case of keys, further keys,
single quotes or none, a trailing comma, numbers in quotes. Not accepted: units, percentages, words, true/false, lists,
NaN. Values out of range are clamped, as in the published post-processing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.parsing.normalise import declines, without_thoughts

# Reason codes of unparsed replies, which are written to records.
REASONS = (
    "empty", "truncated", "unfinished_thought", "refusal", "no_json", "missing_key", "doubled_key", "not_a_number",
    "not_finite", "not_in_set",
)  # fmt: skip
AXES = ("throttle", "steer", "brake")
_NAMES = {"throttle": "throttle", "steer": "steer", "steering": "steer", "brake": "brake"}
LONGEST = 8000  # characters that are searched, from the end; limits the time for degenerate replies
_STEP = 1e-6  # tolerance between a value and a member of a set

_NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?")
_FLAT = re.compile(r"\{([^{}]{1,400})\}")
_PAIR = re.compile(
    r"\s*(?P<q>[\"']?)(?P<key>[A-Za-z_]{1,40})(?P=q)\s*[:=]\s*"
    r"(?:\"(?P<d>[^\"]*)\"|'(?P<s>[^']*)'|(?P<n>[^\s,\"']+))\s*(?:,|\Z)"
)


class UnreadableReply(Exception):
    """The reply contains no control; the message is one of REASONS, with the key if one is concerned."""


def read_cng(reply: str) -> Control:
    """Continuous numbers, clamped to their ranges. Raises UnreadableReply."""
    values = _values(reply)
    return Control(values["steer"], values["throttle"], values["brake"]).checked()


def read_dcs(reply: str, profile: Profile) -> Control:
    """Members of the profile's sets. Raises UnreadableReply.

    If throttle and brake are both above 0, the smaller becomes 0: the published rule (throttle > brake: no brake) and
    its mirror (else no throttle).
    """
    values = _values(reply)
    sets = {"throttle": profile.throttle_set, "steer": profile.steer_set, "brake": profile.brake_set}
    picked = {axis: _member(axis, values[axis], sets[axis]) for axis in AXES}
    if picked["throttle"] > 0 and picked["brake"] > 0:
        picked["brake" if picked["throttle"] > picked["brake"] else "throttle"] = 0.0
    return Control(picked["steer"], picked["throttle"], picked["brake"]).checked()


def _member(axis: str, value: float, allowed: Sequence[float]) -> float:
    for member in allowed:
        if abs(value - member) <= _STEP:
            return member
    raise UnreadableReply(f"not_in_set {axis}")


def _values(reply: str) -> dict[str, float]:
    """The three numbers of the last control object."""
    failed = failure_reason(reply)
    if failed:
        raise UnreadableReply(failed)
    answer, unfinished = without_thoughts(reply)
    if unfinished:
        raise UnreadableReply("unfinished_thought")
    if not answer:
        raise UnreadableReply("empty")
    found = _last_control(answer[-LONGEST:])
    if found is None:
        raise UnreadableReply("refusal" if declines(answer) else "no_json")
    values: dict[str, Any] = {}
    for key, value in found:
        axis = _NAMES.get(key.strip().lower())
        if axis is None:
            continue
        if axis in values and values[axis] != value:
            raise UnreadableReply(f"doubled_key {axis}")
        values[axis] = value
    for axis in AXES:
        if axis not in values:
            raise UnreadableReply(f"missing_key {axis}")
    return {axis: _number(axis, values[axis]) for axis in AXES}


def _number(axis: str, value: Any) -> float:
    if isinstance(value, str):
        word = value.strip()
        if word.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise UnreadableReply(f"not_finite {axis}")
        if not _NUMBER.fullmatch(word):
            raise UnreadableReply(f"not_a_number {axis}")
        value = float(word)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableReply(f"not_a_number {axis}")
    try:
        number = float(value)
    except OverflowError:
        raise UnreadableReply(f"not_finite {axis}") from None
    if not math.isfinite(number):
        raise UnreadableReply(f"not_finite {axis}")
    return number


Pairs = list[tuple[str, Any]]


class _Object(list):
    """A JSON object as a list of pairs, in which repeated keys are kept."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def _last_control(text: str) -> Pairs | None:
    """Pairs of the last object, possibly nested, with at least one of the three keys."""
    last: Pairs | None = None
    position = text.find("{")
    while position >= 0:
        end = position + 1
        try:
            found, after = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            loose = _FLAT.match(text, position)
            pairs = _loose(loose[1]) if loose else None
            if loose and pairs is not None:
                end = loose.end()
        else:
            pairs = _deepest(found)
            end = after
        if pairs is not None and _has_control_key(pairs):
            last = pairs
        position = text.find("{", end)
    return last


def _deepest(value: Any) -> Pairs | None:
    """The last control object within a decoded value. Iterative, since the depth is not limited."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Object):
            if _has_control_key(node):
                return list(node)
            waiting.extend(v for _, v in node)
        elif isinstance(node, list):
            waiting.extend(node)
    return None


def _has_control_key(pairs: Pairs) -> bool:
    return any(key.strip().lower() in _NAMES for key, _ in pairs)


def _loose(body: str) -> Pairs | None:
    """Pairs of a loose notation such as `'throttle': 0.5, steer: "0", brake: 0,`; None for anything else."""
    pairs: Pairs = []
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
