"""Efficiency: the ego's speed relative to the surrounding traffic (Bench2Drive, "Driving Efficiency").

After each 5 % of the route, one message reports p = 100 * mean ego speed / mean speed of the background vehicles. A
route's efficiency is the mean of its p <= 1,000; the overall figure is the mean over the routes that have one. The
referee writes the messages with `percent` and `message`; `route_efficiency` parses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

DROP_ABOVE = 1000.0  # percent: next to stationary traffic the ratio is meaningless

_PERCENT = re.compile(r"(?<![\w.,])(\d+(?:\.\d*)?)\s*%")


def percent(ego_mean: float, background_mean: float | None) -> float:
    """Ego's mean speed in percent of the background's (both m/s); 100 without traffic or if it was stationary."""
    if not math.isfinite(ego_mean) or ego_mean < 0:
        raise ValueError(f"a mean speed must be finite and not negative, found {ego_mean}")
    if background_mean is None or background_mean == 0:
        return 100.0
    if not math.isfinite(background_mean) or background_mean < 0:
        raise ValueError(f"a mean speed must be finite and not negative, found {background_mean}")
    return ego_mean / background_mean * 100.0


def message(value: float) -> str:
    """The message of one segment in official result files; the percentage has two decimals."""
    return f"Average speed is {round(value, 2)}% of the surrounding traffic's one"


def percents(messages: Sequence[str]) -> list[float]:
    """Percentage of each message that contains one: the first number followed by a percent sign.

    A number with a decimal comma is not read: its last digits alone would be another percentage.
    """
    found = (_PERCENT.search(text) for text in messages)
    return [float(hit.group(1)) for hit in found if hit]


def route_efficiency(messages: Sequence[str]) -> float | None:
    """Mean percentage of one route without values above 1,000; None if none remain or a message has no percentage."""
    values = percents(messages)
    kept = [value for value in values if value <= DROP_ABOVE and len(values) == len(messages)]
    return math.fsum(kept) / len(kept) if kept else None
