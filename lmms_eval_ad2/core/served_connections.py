"""Bounds on the connections of a local HTTP server, which the libraries that serve HTTP do not have.

A connection whose request header is not complete after HEADER_S is closed; so is one that is silent for IDLE_S between
two requests. If `most` connections are open, a new one displaces the oldest that waits for a client: half-sent requests
cannot lock others out.

    connections = ServedConnections(most=512)
    loop.create_server(connections.factory(make_protocol), ...)
    with connections.request(peername):   # the header is complete; in the handler of a request
        body = await receive()
        connections.answering(peername)   # no longer displaced
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lmms_eval_ad2.core.printed import show

HEADER_S = 10.0
IDLE_S = 75.0
NOTE_S = 60.0  # at most one line about connections that the system does not accept in this time
_ACCEPT = "socket.accept()"  # in asyncio's message

Peer = tuple[Any, ...]  # address of a client: host, port


class ServedConnections:
    """The open connections of one server, in the order in which they were accepted. Used in the server's event loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Peer, _Connection] = {}
        self._noted_s = float("-inf")

    def factory(self, make: Callable[..., Any]) -> Callable[..., asyncio.Protocol]:
        """A protocol factory for asyncio, with the arguments of `make`, which makes the protocols of a library."""
        return lambda *args, **kwargs: _Connection(self, make(*args, **kwargs))

    @contextmanager
    def request(self, peer: Peer) -> Iterator[None]:
        """While the block lasts, the connection of `peer` has a request whose header is complete."""
        connection = self._open.get(_key(peer))
        if connection is None:  # it is lost already
            yield
            return
        connection.wait(None)
        try:
            yield
        finally:
            connection.is_answered = connection.has_data = False
            connection.wait(IDLE_S)

    def answering(self, peer: Peer) -> None:
        """The request of this connection is complete: it is not displaced until it is answered."""
        if connection := self._open.get(_key(peer)):
            connection.is_answered = True

    def add(self, peer: Peer, connection: _Connection) -> bool:
        """False if there is no room for another connection."""
        if len(self._open) >= self.most and not self._displace():
            return False
        self._open[_key(peer)] = connection
        return True

    def remove(self, peer: Peer, connection: _Connection) -> None:
        if self._open.get(_key(peer)) is connection:  # not a newer one of the same port
            del self._open[_key(peer)]

    def handle_accept_errors(self, loop: asyncio.AbstractEventLoop) -> None:
        """Print one line, instead of a traceback each time, if the system accepts no more connections."""
        log = sys.stderr  # while a model runs, sys.stderr is replaced

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if _ACCEPT not in context.get("message", ""):
                loop.default_exception_handler(context)
                return
            self._displace()
            if loop.time() - self._noted_s >= NOTE_S:
                self._noted_s = loop.time()
                show(f"no more connections are accepted: {context.get('exception')}", file=log, flush=True)

        loop.set_exception_handler(handle)

    def _displace(self) -> bool:
        for peer, connection in self._open.items():
            if not connection.is_answered:
                del self._open[peer]
                connection.close()
                return True
        return False


def _key(peer: Peer) -> Peer:
    return tuple(peer[:2])  # the addresses of IPv6 have more


class _Connection(asyncio.Protocol):
    """Passes everything on to the protocol of the library. has_data: a part of a request has been received."""

    def __init__(self, connections: ServedConnections, inner: Any) -> None:
        self.is_answered = False
        self.has_data = True  # the time limit of the first header begins with the connection
        self._connections, self._inner = connections, inner
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer: Peer = transport.get_extra_info("peername") or ("", id(self))
        if not self._connections.add(self._peer, self):
            self._inner = asyncio.Protocol()  # which does nothing
            self.close()
            return
        self.wait(HEADER_S)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._limit is not None and not self.has_data:
            self.has_data = True
            self.wait(HEADER_S)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        kept: bool | None = self._inner.eof_received()
        return kept

    def connection_lost(self, exc: Exception | None) -> None:
        self.wait(None)
        self._connections.remove(self._peer, self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def wait(self, seconds: float | None) -> None:
        """Close the connection after this time; None: no limit."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = None
        if seconds is not None and not self._transport.is_closing():
            self._limit = self._loop.call_later(seconds, self.close)

    def close(self) -> None:
        self._transport.abort()
