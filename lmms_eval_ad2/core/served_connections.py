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
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from lmms_eval_ad2.core.printed import show

# The host names under which clients may address a local HTTP server.
#
# A web page of any site can send requests to a server on this machine, under a name of that site which it lets point
# here (DNS rebinding); the browser then treats the replies as the site's own. Such a request has that name in its Host
# header. An IP address or a name of this machine there cannot come from another site.

LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    return host == LOCAL or ((address := _address(host)) is not None and address.is_loopback)


def allowed_names(text: str) -> tuple[str, ...]:
    """The names of the key allow_host of --config."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def host_fault(header: str | None, bound: str, further: Sequence[str] = ()) -> str | None:
    """Why a request with this Host header is refused, or None.

    bound: the address that the server listens on; further: more names that are accepted. A request without the header
    comes from no browser.
    """
    if header is None:
        return None
    name = _name(header)
    if is_loopback(name) or name in {_plain(known) for known in (bound, *further)} | _own_names():
        return None
    if _address(name) is not None and _listens_everywhere(bound):
        return None
    return f"Host: '{name[:200]}' is not a name of this server; if clients use it: --config allow_host={name[:200]}"


def _name(header: str) -> str:
    """The host without its port; "" if it is none."""
    if header.startswith("["):
        address, _, rest = header[1:].partition("]")
        return _plain(address) if not rest or rest.startswith(":") else ""
    return _plain(header.partition(":")[0])


def _plain(name: str) -> str:
    return name.strip().rstrip(".").lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _listens_everywhere(bound: str) -> bool:
    address = _address(bound)
    return not bound or (address is not None and address.is_unspecified)


@cache
def _own_names() -> frozenset[str]:
    full = _plain(socket.gethostname())
    short = full.partition(".")[0]
    return frozenset({full, short, f"{short}.local"})


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
