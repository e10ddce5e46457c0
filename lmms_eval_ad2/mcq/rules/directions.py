"""Directions around the ego car: left and right swapped (`across`), front and back swapped (`along`)."""

from __future__ import annotations

import re

_SIDES = {"left": "right", "right": "left"}
_ENDS = {"front": "back", "back": "front"}
# "right" is no direction in "right away", "right in front" and similar phrases.
_SIDE = re.compile(r"\b(left|right)\b(?! (?:away|now|of way|in front|behind|at once))", re.IGNORECASE)


def across(text: str) -> str:
    """Swap left and right; "" if neither occurs."""
    return _SIDE.sub(lambda m: _cased(m[1], _SIDES[m[1].lower()]), text) if _SIDE.search(text) else ""


def along(text: str) -> str:
    """Swap front and back, "behind" and "in front of"; "" if none occurs."""
    flat = re.sub(r"\bin front of\b", "behind_", text)
    flat = re.sub(r"\bbehind\b", "in front of", flat)
    flat = re.sub(r"\bfront\b(?<!in front)|\bback\b", lambda m: _ENDS[m[0]], flat)
    flat = flat.replace("behind_", "behind")
    return flat if flat != text else ""


def _cased(old: str, new: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new
