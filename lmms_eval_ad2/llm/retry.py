"""When to ask again, and how fast to ask: backoff, Retry-After, one pace for all workers."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0  # a server that asks for hours is answered with a failure, not with a hanging run


@dataclass(slots=True)
class Backoff:
    """Exponential waiting with jitter, the same in every run with the same seed."""

    first_s: float = 0.5
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the failed attempt number `attempt` (0 is the first)."""
        full = min(self.first_s * 2.0 ** min(attempt, 16), LONGEST_BACKOFF_S)
        return full * self._random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks us to wait (Retry-After as seconds or a date; retry-after-ms), else None."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            pass
    try:
        when = email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, when - time.time())


class Pace:
    """The common gate of all workers: at most `per_minute` starts, and none while the server asks for quiet."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._gap_s = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._quiet_until = 0.0

    def quiet(self, seconds: float) -> None:
        """Let nobody start for `seconds` from now."""
        self._quiet_until = max(self._quiet_until, asyncio.get_running_loop().time() + seconds)

    async def wait(self) -> None:
        """Return when it is this worker's turn."""
        clock = asyncio.get_running_loop().time
        while True:
            start = max(clock(), self._next, self._quiet_until)
            if self._gap_s:
                self._next = start + self._gap_s
            if (delay := start - clock()) <= 0:
                return
            await asyncio.sleep(delay)
            if clock() >= self._quiet_until:
                return
