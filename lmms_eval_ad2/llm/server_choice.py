"""ServerChoice: which of several servers of one model gets the next request.

The one with the fewest requests in flight, below its limit; equal ones take turns. A server that refuses connections,
or fails several times in a row, is out as long as another one is not. It is to be probed after a pause that grows up to
half a minute. If all are out, all are asked, as a single one is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
