"""What counts as a number in JSON, YAML and result files that others wrote, and in environment variables."""

from __future__ import annotations

import math
import os
import re
from typing import Any, TypeGuard

from lmms_eval_ad2.core.errors import Ad2Error


def is_number(value: Any) -> TypeGuard[int | float]:
    """True for a finite int or float that fits a float. False for bool, NaN, infinities, 10**400 and texts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int of more than 308 digits
        return False


def is_bounded(value: Any) -> TypeGuard[int | float]:
    """True for a number (see is_number) of less than 1e15 in either direction: the bound for measurements in files."""
    return is_number(value) and abs(value) < 1e15


def is_whole(value: Any, low: float = -math.inf, high: float = math.inf) -> TypeGuard[int]:
    """True for an int from `low` to `high`, bounds included. False for bool and for 1.0."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def environment_number(name: str, default: int) -> int:
    """The whole number in an environment variable, of which an empty one is not set. Raises Ad2Error for other text."""
    text = os.environ.get(name, "").strip()
    if not re.fullmatch(r"\d{0,9}", text, re.ASCII):
        raise Ad2Error(f"environment variable {name}={text[:40]!r}: expected a whole number; correct or unset it")
    return int(text) if text else default
