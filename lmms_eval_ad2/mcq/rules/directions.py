"""Directions around the ego car: swapped from left to right (`across`), from front to back (`along`)."""

from __future__ import annotations

import re

_SIDES = {"left": "right", "right": "left"}
_ENDS = {"front": "back", "back": "front"}
# "right away", "right in front" and a "right turn" given as an action are other words.
_SIDE = re.compile(r"\b(left|right)\b(?! (?:away|now|of way|in front|behind|at once))", re.IGNORECASE)


def across(text: str) -> str:
    """Every left made right and every right made left; "" where there is none."""
    return _SIDE.sub(lambda m: _cased(m[1], _SIDES[m[1].lower()]), text) if _SIDE.search(text) else ""


def along(text: str) -> str:
    """Front and back swapped, "behind" and "in front of" too; "" where there is none."""
    flat = re.sub(r"\bin front of\b", "behind_", text)
    flat = re.sub(r"\bbehind\b", "in front of", flat)
    flat = re.sub(r"\bfront\b(?<!in front)|\bback\b", lambda m: _ENDS[m[0]], flat)
    flat = flat.replace("behind_", "behind")
    return flat if flat != text else ""


def _cased(old: str, new: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new
