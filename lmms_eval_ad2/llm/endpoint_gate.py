"""EndpointGate: how many requests to one endpoint may start, over all sessions of the process that use it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from lmms_eval_ad2.errors import Ad2Error

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.client import EndpointConfig

# A wrong key is refused within this time, with few requests in flight; without a reply the others follow.
_FIRST_IN_FLIGHT, _FIRST_WAIT_S = 4, 10.0


class EndpointGate:
    """At most `concurrency` requests in flight, `rpm` a minute, and few before the first outcome.

    Sessions that run at the same time share the gate; in the closed loop, each decision is a session. The count and a
    refusal are reset when a session enters while no other is open, so that a corrected server is asked again.
    """

    def __init__(self, endpoint: EndpointConfig) -> None:
        self.slots = asyncio.Semaphore(endpoint.concurrency)
        self.limiter = RequestRateLimiter(endpoint.rpm)
        self._sessions = 0
        self._begin()

    def _begin(self) -> None:
        self._started, self._first_outcome = 0, asyncio.Event()
        self._refusal: Ad2Error | None = None

    def enter(self) -> None:
        if not self._sessions:
            self._begin()
        self._sessions += 1

    def leave(self) -> None:
        self._sessions -= 1

    def note_outcome(self, refusal: Ad2Error | None = None) -> None:
        """A request has ended; `refusal`: no request can succeed."""
        self._refusal = refusal or self._refusal
        self._first_outcome.set()

    async def wait_for_first(self, accepted: bool) -> None:
        """Wait for the first outcome if enough requests are in flight, unless the endpoint has `accepted` the key."""
        self._started += 1
        if accepted or self._started <= _FIRST_IN_FLIGHT:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first_outcome.wait(), _FIRST_WAIT_S)
        if self._refusal is not None:
            raise self._refusal


class RequestRateLimiter:
    """Limits the starts of all workers: at most `per_minute`, and none during a pause that the server demands."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._gap_s = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Delay every start until `seconds` from now."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    async def wait(self) -> None:
        """Return when this worker may start a request."""
        clock = asyncio.get_running_loop().time
        while True:
            start = max(clock(), self._next, self._paused_until)
            if self._gap_s:
                self._next = start + self._gap_s
            if (delay := start - clock()) <= 0:
                return
            await asyncio.sleep(delay)
            if clock() >= self._paused_until:
                return
