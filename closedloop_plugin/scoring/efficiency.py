"""Efficiency: the ego's speed against the traffic about it (Bench2Drive, "Driving Efficiency").

After each 5 % of the route one message says the ego's mean speed in percent of the background vehicles' mean speed.
A route's figure is the mean of its percentages that are not above 1,000; the result's, the mean over the routes that
have one. The referee writes the messages with `percent` and `message`; `route_efficiency` reads them again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

DROP_ABOVE = 1000.0  # percent: next to standing traffic the ratio says nothing

_PERCENT = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?)\s*%")


def percent(ego_mean: float, background_mean: float | None) -> float:
    """Ego's mean speed in percent of the background's (both m/s); 100 where there was no traffic, or it stood still."""
    if not math.isfinite(ego_mean) or ego_mean < 0:
        raise ValueError(f"a mean speed is finite and not negative, not {ego_mean}")
    if background_mean is None or background_mean == 0:
        return 100.0
    if not math.isfinite(background_mean) or background_mean < 0:
        raise ValueError(f"a mean speed is finite and not negative, not {background_mean}")
    return ego_mean / background_mean * 100.0


def message(value: float) -> str:
    """The official file's line for one segment; the number with two decimals."""
    return f"Average speed is {round(value, 2)}% of the surrounding traffic's one"


def percents(messages: Sequence[str]) -> list[float]:
    """The percentage of each message that has one: the first number before a percent sign."""
    found = (_PERCENT.search(text) for text in messages)
    return [float(hit.group(1)) for hit in found if hit]


def route_efficiency(messages: Sequence[str]) -> float | None:
    """Mean percentage of one route, those above 1,000 left out; None where nothing is left."""
    kept = [value for value in percents(messages) if value <= DROP_ABOVE]
    return math.fsum(kept) / len(kept) if kept else None
