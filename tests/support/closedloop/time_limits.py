"""Time limits for tests on machines that may stall for a second."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from closedloop_plugin.runner import pool
from closedloop_plugin.runner.pool import WorldPool

T = TypeVar("T")
LIMITS_S = (0.4, 3.0, 20.0)


def with_growing_limits(
    attempt: Callable[[float], T], stalled: Callable[[T], object], limits_s: Sequence[float] = LIMITS_S
) -> T:
    """Call `attempt` with growing limits until its result shows no stall (`stalled` is false); returns the result.

    One limit applies to the request that hangs, which costs the test this time, and to the concurrent requests that are
    answered. `stalled`: whether one of the latter timed out. The result for the last limit is returned in any case.
    """
    for limit_s in limits_s:
        found = attempt(limit_s)
        if not stalled(found):
            break
        warnings.warn(RuntimeWarning(f"{limit_s:g} s were too short on this machine: {found!r:.300}"), stacklevel=2)
    return found


def speed_up_clock(patch: pytest.MonkeyPatch, due: Callable[[], object]) -> None:
    """Let the pool's clock run a thousand times as fast from when `due()` is true until a world is lost.

    The pool then gives up a hanging world after minutes of its clock, which is longer than any stall of this machine.
    Worlds that are not to be lost must be idle by then.
    """
    ahead_s, before, done = 0.0, time.monotonic(), False
    replace_lost = WorldPool._replace_lost

    def monotonic() -> float:
        nonlocal ahead_s, before
        now = time.monotonic()
        if not done and due():
            ahead_s += 1000 * (now - before)
        before = now
        return now + ahead_s

    def lost(self: WorldPool, *what: Any) -> None:
        nonlocal done
        done = True
        replace_lost(self, *what)

    patch.setattr(pool, "time", SimpleNamespace(monotonic=monotonic))
    patch.setattr(WorldPool, "_replace_lost", lost)
