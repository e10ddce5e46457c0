"""Time limits on a machine that may stand still for a second: short ones first, longer ones where they hit the good."""

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
    attempt: Callable[[float], T], held_up: Callable[[T], object], limits_s: Sequence[float] = LIMITS_S
) -> T:
    """What `attempt` finds with the first limit that does not also hit what should have passed.

    One limit bounds the request that hangs, whose time the test costs, and those beside it that are answered. `held_up`
    says of a finding that one of those was hit; the last finding is given back whatever it holds.
    """
    for limit_s in limits_s:
        found = attempt(limit_s)
        if not held_up(found):
            break
        warnings.warn(RuntimeWarning(f"{limit_s:g} s were too short on this machine: {found!r:.300}"), stacklevel=2)
    return found


def speed_up_clock(patch: pytest.MonkeyPatch, due: Callable[[], object]) -> None:
    """The pool's clock runs a thousand times as fast from when `due` says so until a world is lost.

    So a hanging world is given up after minutes that nobody waits for, and that no standstill of this machine comes
    near. Whoever is not to be lost must be idle by then.
    """
    ahead_s, before, over = 0.0, time.monotonic(), False
    lose = WorldPool._replace_lost

    def monotonic() -> float:
        nonlocal ahead_s, before
        now = time.monotonic()
        if not over and due():
            ahead_s += 1000 * (now - before)
        before = now
        return now + ahead_s

    def lost(self: WorldPool, *what: Any) -> None:
        nonlocal over
        over = True
        lose(self, *what)

    patch.setattr(pool, "time", SimpleNamespace(monotonic=monotonic))
    patch.setattr(WorldPool, "_replace_lost", lost)
