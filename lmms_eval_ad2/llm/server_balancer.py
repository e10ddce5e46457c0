"""ServerBalancer: the servers of an endpoint in an event loop, with their limits; the choice is server_choice.py's.

A server that is out is asked for its models after a while, with growing pauses, and taken back when it answers.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.base_urls import split_urls
from lmms_eval_ad2.llm.http_connections import HttpAddress, HttpConnections
from lmms_eval_ad2.llm.http_response import InvalidHttpResponse, TooLongResponse
from lmms_eval_ad2.llm.server_choice import ModelServer, ServerChoice

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.client import EndpointConfig

_PROBE_TIMEOUT_S = 5.0


class RequestRateLimiter:
    """Limits the starts of all workers: at most `per_minute`, and none during a pause that the server demands."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._gap_s = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Delay every start until `seconds` from now."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def delay(self) -> float:
        """Seconds until a request may start."""
        return max(0.0, max(self._next, self._paused_until) - asyncio.get_running_loop().time())

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


@dataclass(slots=True, eq=False)
class EndpointServer(ModelServer):
    """A server with its HTTP address. `head`, `probe_head`: of requests for a completion and for the list of models."""

    address: HttpAddress = field(kw_only=True)
    head: bytes = field(kw_only=True)
    probe_head: bytes = field(kw_only=True)
    limiter: RequestRateLimiter = field(kw_only=True)
    probe: asyncio.Task[None] | None = None


class ServerBalancer:
    """The servers of an endpoint. Each has the endpoint's `concurrency` and `rpm` for itself.

    All clients of the endpoint in a process share one, so that a server which one of them found dead is not asked by
    the others. Raises Ad2Error for a base URL that is none.
    """

    def __init__(self, endpoint: EndpointConfig) -> None:
        self.servers = [_server(url, endpoint) for url in split_urls(endpoint.base_url)]
        limit = endpoint.concurrency if len(self.servers) > 1 else math.inf  # one: the session counts
        self.choice = ServerChoice(self.servers, limit)
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, http: HttpConnections, avoid: EndpointServer | None = None) -> EndpointServer:
        """A server for one request, to be released after it; another one than `avoid` if possible."""
        while (server := self._choose(http, avoid)) is None:
            free = asyncio.get_running_loop().create_future()
            self._waiting.append(free)
            try:
                await free
            except asyncio.CancelledError:
                if free.done() and not free.cancelled():
                    self._wake()
                raise
        server.in_flight += 1
        return server

    def release(self, server: EndpointServer) -> None:
        server.in_flight -= 1
        self._wake()

    def note_reply(self, server: EndpointServer) -> None:
        """The server has processed a request."""
        if self.choice.note_reply(server):
            self._wake(len(self._waiting))

    def _choose(self, http: HttpConnections, avoid: EndpointServer | None) -> EndpointServer | None:
        if len(self.servers) == 1:
            return self.servers[0]
        for server in self.choice.due():
            server.probe = asyncio.get_running_loop().create_task(self._probe(server, http))
        return self.choice.least_loaded(avoid, lambda server: server.limiter.delay())

    def _wake(self, count: int = 1) -> None:
        while self._waiting and count:
            if not (free := self._waiting.popleft()).done():
                free.set_result(None)
                count -= 1

    async def _probe(self, server: EndpointServer, http: HttpConnections) -> None:
        answered = False
        try:
            response = await http.send(server.address, server.probe_head, b"", _PROBE_TIMEOUT_S)
            answered = response.status < 500
        except (OSError, TimeoutError, InvalidHttpResponse, TooLongResponse):
            pass
        finally:
            server.probe = None
            self.choice.note_probe(server, answered)
        if answered:
            self._wake(len(self._waiting))


def _server(url: str, endpoint: EndpointConfig) -> EndpointServer:
    url = url.rstrip("/")
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    try:
        address = HttpAddress.of(url)
        head = address.head("POST", f"{url}/chat/completions", {"Content-Type": "application/json", **headers})
        probe_head = address.head("GET", f"{url}/models", headers)
    except ValueError as exc:
        raise Ad2Error(f"base_url {url!r} cannot be used: {exc}") from None
    limiter = RequestRateLimiter(endpoint.rpm)
    return EndpointServer(url, address=address, head=head, probe_head=probe_head, limiter=limiter)
