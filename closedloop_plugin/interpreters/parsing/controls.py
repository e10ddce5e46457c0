"""Parsing of the slow system's reply to a Control: the last JSON object with control keys. Prose is never interpreted.

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
from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, last_object, split_objects
from lmms_eval_ad2.parsing.refusals import declines
from lmms_eval_ad2.parsing.wrappers import unwrapped

# Reason codes of unparsed replies, which are written to records.
REASONS = (
    "empty", "truncated", "unfinished_thought", "refusal", "no_json", "missing_key", "doubled_key", "not_a_number",
    "not_finite", "not_in_set", *FAILURES,
)  # fmt: skip
AXES = ("throttle", "steer", "brake")
_NAMES = {"throttle": "throttle", "steer": "steer", "steering": "steer", "brake": "brake"}
# What was changed in a reply, under the policy "official"; names of counts in records.
SNAPPED, MISSING = "snapped", "missing_as_zero"
LONGEST = 8000  # characters that are searched, from the end; limits the time for degenerate replies
_STEP = 1e-6  # tolerance between a value and a member of a set

_NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?")


class UnreadableReply(Exception):
    """The reply contains no control; the message is one of REASONS, with the key if one is concerned."""


def read_cng(reply: str, adapted: list[str] | None = None) -> Control:
    """Continuous numbers, clamped to their ranges. Raises UnreadableReply.

    `adapted`: read as the public code does, and append what was changed: a missing key is 0 (MISSING). It compares the
    pedals before it clips them, so of two beyond their range the larger counts.
    """
    values = values_of(_control_pairs(reply), adapted)
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
    values = values_of(_control_pairs(reply))
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


def _control_pairs(reply: str) -> KeyValuePairs:
    """The last control object."""
    answer, missing = unwrapped(reply)
    if missing:
        raise UnreadableReply(missing)
    found = last_object(split_objects(answer[-LONGEST:])[0], is_axis)
    if found is None:
        raise UnreadableReply("refusal" if declines(answer) else "no_json")
    return found


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
