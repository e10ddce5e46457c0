"""EndpointGate: how many requests to one endpoint may start, over all sessions of the process that use it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.server_balancer import ServerBalancer

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.client import EndpointConfig

# A wrong key is refused within this time, with few requests in flight; without a reply the others follow.
_FIRST_IN_FLIGHT, _FIRST_WAIT_S = 4, 10.0


class EndpointGate:
    """At most `concurrency` requests in flight and `rpm` a minute at each server, and few before the first outcome.

    Sessions that run at the same time share the gate; in the closed loop, each decision is a session. The count and a
    refusal are reset when a session enters while no other is open, so that a corrected server is asked again.
    """

    def __init__(self, endpoint: EndpointConfig) -> None:
        self.slots = asyncio.Semaphore(endpoint.in_flight)
        self.balancer = ServerBalancer(endpoint)
        self.accepted = False  # whether a completion has been received with this key
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

    async def wait_for_first(self) -> None:
        """Wait for the first outcome if enough requests are in flight, unless the key has been accepted."""
        self._started += 1
        if self.accepted or self._started <= _FIRST_IN_FLIGHT:
            return
        if not self._first_outcome.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._first_outcome.wait(), _FIRST_WAIT_S)
        if self._refusal is not None:
            raise self._refusal
