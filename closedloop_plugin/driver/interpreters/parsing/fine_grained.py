"""Fine-grained control (Bench2ADVLM section 5): the suffix "with speed = q" of a command.

The unit of q is not published. Here a bare number from 0 to 1 is a share of the profile's top speed (bench2advlm:
5 m/s, so 0.5 is 2.5 m/s; without a top speed: of the road's limit). A number with m/s, km/h or mph is absolute.
"""

from __future__ import annotations

import math
import re

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Observation
from closedloop_plugin.driver.agents.driving_prompts import top_speed
from closedloop_plugin.driver.interpreters.parsing.key_values import FASTEST, TO_MS

_SUFFIX = re.compile(
    r"\bwith (?:a |the )?(?:target )?speed(?: of)?\s{0,3}[=:]?\s{0,3}"
    r"(?P<sign>-?)(?P<value>\d{1,6}(?:\.\d{1,9})?|\.\d{1,9})"
    r"(?P<unit>\s{0,2}(?:m/s|km/h|kmh|kph|mph|%|percent))?",
    re.IGNORECASE,
)


class SpeedSuffixError(Exception):
    """The suffix is not usable; the message is a stable code."""


def wanted_speed(words: str, profile: Profile, observation: Observation) -> float | None:
    """Speed of the suffix, m/s; None without one. Raises SpeedSuffixError for several speeds or one out of range."""
    speeds = {_speed(m, profile, observation) for m in _SUFFIX.finditer(words)}
    if len(speeds) > 1:
        raise SpeedSuffixError("several_speeds")
    return speeds.pop() if speeds else None


def without_suffix(words: str) -> str:
    """The command without its suffix."""
    return _SUFFIX.sub(" ", words)


def _speed(match: re.Match[str], profile: Profile, observation: Observation) -> float:
    value, unit = float(match["value"]), (match["unit"] or "").strip().lower()
    if match["sign"]:
        raise SpeedSuffixError("speed_off_scale")
    if unit in ("%", "percent"):
        value, unit = value / 100, ""
    speed = value * TO_MS[unit] if unit else value * top_speed(profile, observation)
    if not math.isfinite(speed) or (not unit and value > 1) or speed > FASTEST:
        raise SpeedSuffixError("speed_off_scale")
    return speed


def mentions_speed(words: str) -> bool:
    """Whether the text contains a suffix, usable or not."""
    return _SUFFIX.search(words) is not None
