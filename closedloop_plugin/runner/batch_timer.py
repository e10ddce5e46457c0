"""BatchTimer: when to call a model that answers any number of requests at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

_LEAST_S, _MOST_S = 0.005, 1.0  # bounds of the time that requests wait for others
_LATE, _GRACE_S = 1.5, 0.002  # a world is late after _LATE times its usual time between a response and a request


class BatchTimer:
    """Chooses the moment of a call from the times at which worlds usually ask.

    The call waits for the worlds that are expected within half of the last call's duration, counted from the first
    request and from the end of the last call. A world is expected as long after its response as its last request came,
    so that worlds that are slower than the model are not waited for. Times are in s of `clock`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[int, float] = {}  # world -> time of its open request
        self._answered: dict[int, float] = {}  # world -> time of its last response, until it asks again
        self._gaps: dict[int, float] = {}  # world -> s between its last response and its last request
        self._call_s = self._free_since = 0.0

    def asked(self, world: int) -> None:
        """`world` waits for a response."""
        self._asked[world] = now = self._clock()
        if world in self._answered:
            self._gaps[world] = now - self._answered.pop(world)

    def answered(self, worlds: Collection[int], seconds: float) -> None:
        """A call of `seconds` has answered `worlds`."""
        self._call_s, self._free_since = seconds, self._clock()
        for world in worlds:
            self._asked.pop(world, None)
            self._answered[world] = self._free_since

    def forget(self, world: int) -> None:
        """The episode of `world` has ended; it may ask again, but is not waited for."""
        for times in (self._asked, self._answered, self._gaps):
            times.pop(world, None)

    def wait_s(self) -> float:
        """Seconds until the open requests are due; 0 if they are. There must be one."""
        now = self._clock()
        window = min(max(self._call_s / 2, _LEAST_S), _MOST_S)
        limit = max(min(self._asked.values()), self._free_since) + window
        expected = (self._expected(world, limit) for world in self._answered)
        return max((at - now for at in expected if now < at <= limit), default=0.0)

    def _expected(self, world: int, limit: float) -> float:
        """The latest time at which the next request of an answered world is not late."""
        gap = self._gaps.get(world)
        return limit if gap is None else self._answered[world] + _LATE * gap + _GRACE_S
