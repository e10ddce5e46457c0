"""The event loop of all requests of a process, and the connections that stay open between calls.

A closed-loop run sends a few requests for each decision. `run` executes them on one event loop, in a daemon thread that
lives as long as the process, so that all requests share one `ConnectionPool`: a decision reuses the connections of the
one before (keep-alive), without a new TCP and TLS handshake. The pool serves any number of base URLs.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.server_balancer import ServerBalancer

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.http_address import EndpointConfig

# EndpointGate: how many requests to one endpoint may start, over all sessions of the process that use it.

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


_CLOSE_S = 2.0  # time to close the connections at the end of the process


class ConnectionPool:
    """Keep-alive connections of the running event loop, and the gates of the endpoints behind them."""

    def __init__(self) -> None:
        from lmms_eval_ad2.llm.http_client import HttpClient  # aiohttp, which a run without requests does not need

        self.http = HttpClient()
        self._gates: dict[EndpointConfig, EndpointGate] = {}

    def gate(self, endpoint: EndpointConfig) -> EndpointGate:
        """The gate of all requests to `endpoint`; to be called in the event loop."""
        if endpoint not in self._gates:
            self._gates[endpoint] = EndpointGate(endpoint)
        return self._gates[endpoint]

    async def close(self) -> None:
        await self.http.close()


class _RequestLoop:
    """An event loop in a daemon thread, with its connection pool."""

    def __init__(self) -> None:
        import lmms_eval_ad2.llm.http_client  # noqa: F401  # takes longer than an event loop should stand still

        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ad2-requests", daemon=True)
        self._thread.start()
        self._pool: ConnectionPool | None = None

    def run(self, main: Callable[[ConnectionPool], Coroutine[Any, Any, None]]) -> None:
        ended = threading.Event()
        tasks: list[asyncio.Task[None]] = []

        async def pooled() -> None:
            self._pool = self._pool or ConnectionPool()
            await main(self._pool)

        def start() -> None:
            tasks.append(self._loop.create_task(pooled()))
            tasks[0].add_done_callback(lambda task: ended.set())

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # `start` was never scheduled
                ended.set()

        try:
            self._loop.call_soon_threadsafe(start)
            ended.wait()
        except BaseException:  # Ctrl-C in the calling thread, at any point: `main` is cancelled and cleans up
            self._loop.call_soon_threadsafe(cancel)
            ended.wait()
            raise
        tasks[0].result()

    def close(self) -> None:
        if self._pool is not None:
            closing = asyncio.run_coroutine_threadsafe(self._pool.close(), self._loop)
            with contextlib.suppress(Exception):
                closing.result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()


_lock = threading.Lock()
_request_loops: list[_RequestLoop] = []  # at most one of this process, after those inherited by a fork


def run(main: Callable[[ConnectionPool], Coroutine[Any, Any, None]]) -> None:
    """Execute `main(pool)` to its end on the request loop of this process; callable with or without a running loop."""
    with _lock:
        if not _request_loops or _request_loops[-1].pid != os.getpid():  # threads do not survive a fork
            _request_loops.append(_RequestLoop())
        request_loop = _request_loops[-1]
    request_loop.run(main)


@atexit.register
def _close() -> None:
    for request_loop in _request_loops:
        if request_loop.pid == os.getpid():
            request_loop.close()
