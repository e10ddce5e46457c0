"""Parsing of the slow system's reply to a Control: the JSON object with control keys. Prose is never interpreted.

Of several objects with different numbers the last one counts if the words before it call it the answer or a correction;
else the reply is unread, since one of them may be an example.

Accepted because it is unambiguous: text and code fences around the object, any order and case of keys, further keys,
single quotes or none, a trailing comma, numbers in quotes. Not accepted: units, percentages, words, true/false, lists,
NaN. Values out of range are clamped, as in the published post-processing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control
from lmms_eval_ad2.parsing import FAILURES
from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values, wanted_objects
from lmms_eval_ad2.parsing.refusals import declines
from lmms_eval_ad2.parsing.wrappers import unwrapped

# Reason codes of unparsed replies, which are written to records.
REASONS = (
    "empty", "truncated", "unfinished_thought", "refusal", "no_json", "missing_key", "doubled_key", "not_a_number",
    "not_finite", "not_in_set", "several", *FAILURES,
)  # fmt: skip
AXES = ("throttle", "steer", "brake")
_NAMES = {"throttle": "throttle", "steer": "steer", "steering": "steer", "brake": "brake"}
# What was changed in a reply, under the policy "official"; names of counts in records.
SNAPPED, MISSING = "snapped", "missing_as_zero"
LONGEST = 8000  # characters that are searched, from the end; limits the time for degenerate replies
_STEP = 1e-6  # tolerance between a value and a member of a set

_NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_CALLED_ANSWER = re.compile(
    r"\b(?:answer|final|finally|result|output|response|decision|command|therefore|thus|hence|so|instead"
    r"|actually|no|wait"
    r"|correct(?:ed|ion)|revis(?:ed|ion)|adjust(?:ed|ment)|updated|improved|better|then)\b|答案|最终|结果"
    r"|因此|所以|更正|修正|改为",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\b(?:example|e\.g\.|for instance|such as|format|template|alternative(?:ly)?|or|maybe)\b|例如|示例|格式|或者?",
    re.IGNORECASE,
)


class UnreadableReply(Exception):
    """The reply contains no control; the message is one of REASONS, with the key if one is concerned."""


def read_cng(reply: str, adapted: list[str] | None = None) -> Control:
    """Continuous numbers, clamped to their ranges. Raises UnreadableReply.

    `adapted`: read as the public code does, and append what was changed: a missing key is 0 (MISSING). It compares the
    pedals before it clips them, so of two beyond their range the larger counts.
    """
    values = _values(reply, adapted)
    if adapted is not None and values["throttle"] > values["brake"] >= 1.0:
        values["brake"] = 0.0
    return Control(values["steer"], values["throttle"], values["brake"]).checked()


def read_dcs(reply: str, profile: Profile, adapted: list[str] | None = None) -> Control:
    """Members of the profile's sets. Raises UnreadableReply.

    `adapted`: read as the public code does, and append what was changed: another number becomes the nearest member
    (SNAPPED). A missing key ends the public code with an exception; here the reply is unread.
    If throttle and brake are both above 0: the published rule (throttle > brake: no brake); without `adapted` also its
    mirror (else no throttle), since the prompt forbids both.
    """
    values = _values(reply, None)
    sets = {"throttle": profile.throttle_set, "steer": profile.steer_set, "brake": profile.brake_set}
    picked = {axis: _member(axis, values[axis], sets[axis], adapted) for axis in AXES}
    if picked["throttle"] > picked["brake"]:
        picked["brake"] = 0.0
    elif picked["brake"] > 0 and adapted is None:
        picked["throttle"] = 0.0
    return Control(picked["steer"], picked["throttle"], picked["brake"]).checked()


def _member(axis: str, value: float, allowed: Sequence[float], adapted: list[str] | None) -> float:
    # Of two equally near members the public code takes the one nearer to 0 (0.1 of steering becomes 0).
    nearest = min(allowed, key=lambda member: (abs(value - member), abs(member)))
    if abs(value - nearest) > _STEP:
        if adapted is None:
            raise UnreadableReply(f"not_in_set {axis}")
        adapted.append(SNAPPED)
    return nearest


def _values(reply: str, adapted: list[str] | None) -> dict[str, float]:
    """The three numbers of the control object that is the answer; `adapted` as in read_cng."""
    answer, missing = unwrapped(reply)
    if missing:
        raise UnreadableReply(missing)
    answer = answer[-LONGEST:]
    found = [
        (pairs, start, end)
        for value, start, end in json_values(answer)
        for pairs in reversed(list(wanted_objects(value, is_axis)))
    ]
    if not found:
        raise UnreadableReply("refusal" if declines(answer) else "no_json")
    values = values_of(found[-1][0], adapted)
    before = [pairs for pairs, _, _ in found[:-1] if _numbers(pairs) != _numbers(found[-1][0])]
    if before and not _called_answer(answer[found[-2][2] : found[-1][1]]):
        raise UnreadableReply("several")
    return values


def _numbers(pairs: KeyValuePairs) -> dict[str, float] | str:
    """The numbers of an object, or why it has none, to compare objects."""
    try:
        return values_of(pairs, [])
    except UnreadableReply as exc:
        return str(exc)


def _called_answer(between: str) -> bool:
    """Whether the words between two objects call the second one the answer or a correction, and no example."""
    return bool(_CALLED_ANSWER.search(between)) and not _EXAMPLE.search(between)


def is_axis(key: str) -> bool:
    """Whether `key` of an object names a control: throttle, steer (steering) or brake."""
    return key.strip().lower() in _NAMES


def values_of(found: KeyValuePairs, adapted: list[str] | None = None) -> dict[str, float]:
    """The three numbers of a control object; `adapted` as in read_cng. Raises UnreadableReply."""
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
            if adapted is None:
                raise UnreadableReply(f"missing_key {axis}")
            values[axis] = 0.0
            adapted.append(MISSING)
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
