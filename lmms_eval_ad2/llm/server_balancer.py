"""ServerBalancer: the servers of an endpoint in an event loop, with their limits, and the choice among them.

A server that is out is asked for its models after a while, with growing pauses, and taken back when it answers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.llm.completion import NoCompletion
from lmms_eval_ad2.llm.http_address import HttpAddress, split_urls

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.http_address import EndpointConfig
    from lmms_eval_ad2.llm.http_client import HttpClient

# ServerChoice: which of several servers of one model gets the next request.
#
# The one with the fewest requests in flight, below its limit; equal ones take turns. A server that refuses connections,
# or fails several times in a row, is out as long as another one is not. It is to be probed after a pause that grows up
# to half a minute. If all are out, all are asked, as a single one is.

_logger = logging.getLogger(__name__)

_MOST_FAILURES = 3  # in a row: time-outs and 5xx may concern a single request
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0  # before a server that is out is probed


@dataclass(slots=True, eq=False)
class ModelServer:
    """One server. `failures`: since its last reply."""

    url: str
    in_flight: int = 0
    failures: int = 0
    out: bool = False
    pause_s: float = 0.0
    probe_at: float = 0.0  # on the monotonic clock
    probing: bool = False


S = TypeVar("S", bound=ModelServer)


class ServerChoice(Generic[S]):
    """Choice among `servers`, each with at most `limit` requests in flight. Not safe for threads."""

    def __init__(self, servers: Sequence[S], limit: float) -> None:
        self.servers, self._limit = servers, limit
        self._turn = 0

    def least_loaded(self, avoid: S | None = None, delay: Callable[[S], float] = lambda server: 0.0) -> S | None:
        """The server for a request, or None if all are at their limit. `delay`: until one may get a request."""
        among = [server for server in self.servers if not server.out] or self.servers
        # A place at a server that demanded a pause would be free later than one at a busy server.
        among = [server for server in among if not delay(server)] or among
        free = [server for server in among if server.in_flight < self._limit]
        if not free:
            return None
        self._turn += 1
        start = self._turn % len(free)
        return min([*free[start:], *free[:start]], key=lambda s: (s is avoid, delay(s), s.in_flight))

    def note_reply(self, server: S) -> bool:
        """The server has processed a request. Returns whether this takes it back."""
        server.failures, server.pause_s = 0, 0.0
        return server.out and self._take_back(server)

    def note_failure(self, server: S, why: str, gone: bool = False) -> None:
        """A request failed at the server; `gone`: it has no connection, so that the next one would fail as well."""
        server.failures += 1
        if gone or server.failures >= _MOST_FAILURES:
            self.take_out(server, why)

    def take_out(self, server: S, why: str) -> None:
        """Give the server no requests until it answers again, unless it is the only one."""
        if len(self.servers) == 1 or server.out:
            return
        server.out = True
        self._postpone(server)
        if self.is_replaced(server):
            _logger.warning("%s is left out (%s); the other servers get its requests", server.url, why)

    def is_replaced(self, server: S) -> bool:
        """Whether the server is out and another one is not."""
        return server.out and not all(other.out for other in self.servers)

    def due(self) -> list[S]:
        """The servers to be probed now; the result of each goes to `note_probe`."""
        now = time.monotonic()
        found = [s for s in self.servers if s.out and not s.probing and now >= s.probe_at]
        for server in found:
            server.probing = True
        return found

    def note_probe(self, server: S, answered: bool) -> None:
        """`answered`: the server has replied to a request for its models."""
        server.probing = False
        if server.out and answered:
            self._take_back(server)
        elif server.out:
            self._postpone(server)

    def _postpone(self, server: S) -> None:
        # A reply resets the pause, an answered probe does not: generation may fail although the server listens.
        server.pause_s = min(max(2 * server.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        server.probe_at = time.monotonic() + server.pause_s

    def _take_back(self, server: S) -> bool:
        server.out, server.failures = False, 0
        _logger.warning("%s answers again", server.url)
        return True


_PROBE_TIMEOUT_S = 5.0
_CHECK_VALID_S = 10.0  # a reply that is not older proves that a server listens
_HEADERS = {
    "User-Agent": f"lmms-eval-ad2/{__version__}", "Accept": "application/json", "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}  # fmt: skip


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
    """A server with its HTTP address. `replied_at`: its last reply, if no connection has failed since."""

    address: HttpAddress = field(kw_only=True)
    limiter: RequestRateLimiter = field(kw_only=True)
    probe: asyncio.Task[None] | None = None
    replied_at: float = -math.inf  # on the monotonic clock

    @property
    def replied_recently(self) -> bool:
        return time.monotonic() - self.replied_at <= _CHECK_VALID_S


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

    async def acquire(self, http: HttpClient, avoid: EndpointServer | None = None) -> EndpointServer:
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

    def _choose(self, http: HttpClient, avoid: EndpointServer | None) -> EndpointServer | None:
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

    async def _probe(self, server: EndpointServer, http: HttpClient) -> None:
        answered = False
        try:
            response = await http.send("GET", server.address, "models", _PROBE_TIMEOUT_S)
            answered = response.status < 500
        except (OSError, NoCompletion):
            pass
        finally:
            server.probe = None
            self.choice.note_probe(server, answered)
        if answered:
            self._wake(len(self._waiting))


def _server(url: str, endpoint: EndpointConfig) -> EndpointServer:
    url, key = url.rstrip("/"), endpoint.api_key
    if not (key.isascii() and key.isprintable()):
        raise Ad2Error("the API key has a line break or another character that no key has; set it again")
    try:
        address = HttpAddress.of(url, _HEADERS | ({"Authorization": f"Bearer {key}"} if key else {}))
    except ValueError as exc:
        raise Ad2Error(f"base_url {url!r} cannot be used: {exc}") from None
    return EndpointServer(url, address=address, limiter=RequestRateLimiter(endpoint.rpm))
