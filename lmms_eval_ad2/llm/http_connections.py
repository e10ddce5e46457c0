"""HTTP/1.1 connections for JSON requests: kept alive, one request at a time on each.

A bare asyncio protocol, since a general HTTP client takes more processor time per request than everything else that a
judge does (docs/decisions/0011-llm-client.md). It supports what an endpoint of a language model needs: POST and GET,
TLS, proxies from the environment. It follows no redirects, keeps no cookies, and asks for no compression: a reply of
256 kB could unpack to 256 MB.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import ssl
import time
import urllib.request
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.http_response import (
    HttpResponse,
    HttpResponseReader,
    InvalidHttpResponse,
    TooLongResponse,
)

_IDLE_S = 15.0  # a connection that was idle for longer is replaced: the server or a router may have forgotten it
_JOINED = 2**16  # bytes of a body that is copied behind its head, to be sent with one system call
EYEBALLS_S = 0.25  # before the next address of a name is tried


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Host of an http(s) URL, and the proxy that the environment names for it (HTTPS_PROXY, NO_PROXY ...)."""

    host: str
    port: int
    tls: bool
    proxy: str | None = None

    @classmethod
    def of(cls, url: str) -> HttpAddress:
        """Raises ValueError for a text that is no http(s) URL, Ad2Error for a proxy that cannot be used."""
        parts = _parts(url)
        host, tls = _host(parts), parts.scheme == "https"
        proxy = None if urllib.request.proxy_bypass(host) else _proxy(parts.scheme)
        return cls(host, parts.port or (443 if tls else 80), tls, proxy)

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def head(self, method: str, url: str, headers: dict[str, str]) -> bytes:
        """The head of a request to `url`, up to the length of its body. Raises ValueError for a header with a break."""
        path = quote(_parts(url).path or "/", safe="/%:@!$&'()*+,;=~")
        if self.proxy and not self.tls:
            path = f"http://{self.authority}{path}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.authority}", f"User-Agent: lmms-eval-ad2/{__version__}"]
        if self.proxy and not self.tls:
            lines += _proxy_authorization(self.proxy)
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header with a line break")
        return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")


class ClosedConnectionError(ConnectionError):
    """The server closed the connection before its response was complete."""


class HttpConnections:
    """Connections of the running event loop to any number of addresses. One is opened if no other is idle.

    `most`: bytes of the longest accepted response.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: dict[HttpAddress, list[_HttpConnection]] = {}
        self._open: set[_HttpConnection] = set()

    async def send(self, address: HttpAddress, head: bytes, body: bytes, timeout_s: float) -> HttpResponse:
        """The response to a request. `head`: from `HttpAddress.head`.

        Raises TimeoutError if it is not complete after `timeout_s`, OSError for a failed connection,
        InvalidHttpResponse, TooLongResponse.
        """
        if (connection := self._take(address)) is None:
            started = time.monotonic()
            connection = await asyncio.wait_for(self._connect(address), timeout_s)
            timeout_s = max(0.001, timeout_s - (time.monotonic() - started))
        try:
            response = await connection.request(b"%s%d\r\n\r\n" % (head, len(body)), body, timeout_s)
        except BaseException:  # also a cancelled task: the response of this request must not answer the next one
            connection.abort()
            raise
        if response.reusable and connection.has_sent_all:
            connection.idle_since = time.monotonic()
            self._idle.setdefault(address, []).append(connection)
        else:
            connection.abort()
        return response

    async def close(self) -> None:
        """Close all connections; requests in progress fail."""
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # connection_lost is called

    def _take(self, address: HttpAddress) -> _HttpConnection | None:
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.alive and time.monotonic() - connection.idle_since < _IDLE_S:
                return connection
            connection.abort()
        return None

    async def _connect(self, address: HttpAddress) -> _HttpConnection:
        context = _tls_context() if address.tls else None
        made = functools.partial(_HttpConnection, self._open, self._most)
        loop = asyncio.get_running_loop()
        if address.proxy is None:
            _, connection = await loop.create_connection(
                made, address.host, address.port, ssl=context, happy_eyeballs_delay=EYEBALLS_S
            )
            return connection
        proxy = _parts(address.proxy)
        tls = _tls_context() if proxy.scheme == "https" else None
        port = proxy.port or (443 if tls else 80)
        _, connection = await loop.create_connection(made, _host(proxy), port, ssl=tls)
        if context is not None:
            try:
                await connection.open_tunnel(address, context)
            except BaseException:
                connection.abort()
                raise
        return connection


class _HttpConnection(asyncio.Protocol):
    """One connection; `open_ones` contains it while it is open."""

    def __init__(self, open_ones: set[_HttpConnection], most: int) -> None:
        self._open, self._most = open_ones, most
        self._transport: asyncio.Transport | None = None
        self._reader: HttpResponseReader | None = None
        self._response: asyncio.Future[HttpResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.alive = True
        self.idle_since = 0.0

    def request(
        self, head: bytes, body: bytes, timeout_s: float | None, has_body: bool = True
    ) -> asyncio.Future[HttpResponse]:
        """Send a request; the future gets its response or the failure. Without `timeout_s`, the caller ends it."""
        assert self._transport is not None
        response: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._reader, self._response = HttpResponseReader(self._most, has_body), response
        if timeout_s is not None:
            self._timer = self._loop.call_later(timeout_s, self._fail, TimeoutError())
        if len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return response

    @property
    def has_sent_all(self) -> bool:
        """Whether nothing of the last request is left to send: a server may answer before it has read all of it."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    async def open_tunnel(self, address: HttpAddress, context: ssl.SSLContext) -> None:
        """Make this connection to a proxy a TLS connection to `address` behind it."""
        assert address.proxy is not None
        where = f"{f'[{address.host}]' if ':' in address.host else address.host}:{address.port}"
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}", *_proxy_authorization(address.proxy)]
        response = await self.request("\r\n".join([*lines, "", ""]).encode("latin-1"), b"", None, has_body=False)
        if response.status != 200 or self._transport is None:
            raise OSError(f"the proxy does not connect: HTTP {response.status}")
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=address.host)
        self._transport = transport

    def abort(self) -> None:
        self.alive = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:  # nothing was asked
            self.abort()
            return
        try:
            response = self._reader.feed(data)
        except (InvalidHttpResponse, TooLongResponse) as exc:
            self._fail(exc)
            self.abort()
        else:
            if response is not None:
                self._finish(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._open.discard(self)
        response = self._reader.end() if self._reader is not None and exc is None else None
        if response is not None:
            self._finish(response)
        elif isinstance(exc, OSError):
            self._fail(exc)
        else:
            self._fail(ClosedConnectionError("the server closed the connection"))

    def _finish(self, response: HttpResponse) -> None:
        if (waiting := self._end_request()) is not None:
            waiting.set_result(response)

    def _fail(self, exc: Exception) -> None:
        if (waiting := self._end_request()) is not None:
            waiting.set_exception(exc)

    def _end_request(self) -> asyncio.Future[HttpResponse] | None:
        """The future of the request in progress, if anyone still waits for it."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._reader, self._response, self._timer = self._response, None, None, None
        return waiting if waiting is not None and not waiting.done() else None


def _parts(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http(s)://host[:port], found {url[:80]!r}")
    return parts


def _host(parts: SplitResult) -> str:
    """The host name in ASCII. Raises ValueError (UnicodeError) if it has none: a label is empty or too long."""
    host = parts.hostname or ""
    return host if ":" in host else host.encode("idna").decode("ascii")


def _proxy(scheme: str) -> str | None:
    """The proxy that the environment names for a scheme; like curl, http if it names none. Raises Ad2Error."""
    named = urllib.request.getproxies().get(scheme)
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    try:
        parts = _parts(proxy)
        _host(parts), parts.port
    except ValueError:
        shown = f"{proxy.partition('://')[0]}://...@..." if "@" in proxy else repr(named[:80])  # without a password
        raise Ad2Error(
            f"the environment variable {scheme}_proxy cannot be used: expected http(s)://[user:password@]host:port, "
            f"found {shown}"
        ) from None
    return proxy


def _proxy_authorization(proxy: str) -> list[str]:
    """The header with user and password of a proxy's URL."""
    parts = _parts(proxy)
    if parts.username is None:
        return []
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return [f"Proxy-Authorization: Basic {base64.b64encode(user).decode('ascii')}"]


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
