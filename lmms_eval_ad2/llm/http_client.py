"""HttpClient: aiohttp with the limits that an untrusted server needs. Imported when the first request is sent.

Kept-alive connections, TLS and proxies are aiohttp's. No redirects (a key must not travel), no cookies, and no
compression: a reply of 256 kB could unpack to 256 MB. Why aiohttp: docs/decisions/0013-aiohttp-again.md.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from lmms_eval_ad2.llm.completion import LONGEST_BODY, NoCompletion
from lmms_eval_ad2.llm.http_address import HttpAddress

LONGEST_HEADER = 2**16  # bytes of a header line; aiohttp accepts 128 of them
_IDLE_S = 15.0  # a connection that was idle for longer is closed: the server or a router may have forgotten it
_WRITTEN_AT_ONCE = 2**20  # bytes of a body; a longer one is sent in parts


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response. `headers`: by name in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Connections of the running event loop to any number of addresses. One is opened if no other is idle."""

    def __init__(self) -> None:
        connector = aiohttp.TCPConnector(
            limit=0,  # the gate of an endpoint limits its requests in flight
            keepalive_timeout=_IDLE_S,
            resolver=aiohttp.ThreadedResolver(),  # the system's, also where aiodns is installed
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        )

    async def send(
        self, method: str, address: HttpAddress, path: str, timeout_s: float, body: bytes = b""
    ) -> HttpReply:
        """The response to a request for `path` behind the base URL.

        Raises TimeoutError if it is not complete after `timeout_s`, another OSError for a failed connection or
        a response that is no HTTP, and NoCompletion for a body that is too long or compressed.
        """
        try:
            async with self._session.request(
                method,
                f"{address.url}/{path}",
                data=io.BytesIO(body) if len(body) > _WRITTEN_AT_ONCE else body or None,
                headers=address.headers,
                proxy=address.proxy,
                proxy_headers=address.proxy_headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                return HttpReply(response.status, response.headers, await _bounded_body(response))
        except aiohttp.ClientError as exc:
            if isinstance(exc, TimeoutError):
                raise
            raise _connection_error(exc) from exc

    async def close(self) -> None:
        """Close all connections; requests in progress fail."""
        await self._session.close()


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The body; of an error that is compressed, nothing."""
    if response.status < 200:
        raise ConnectionError("the server switches to another protocol")
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        if response.status >= 300:
            return b""
        raise NoCompletion("invalid_reply", f"a body with Content-Encoding {coding[:40]!r}, which was not requested")
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > LONGEST_BODY:
            raise NoCompletion("too_long", f"a body of more than {LONGEST_BODY:,} bytes")
    return bytes(body)


def _connection_error(exc: aiohttp.ClientError) -> OSError:
    """A failure of aiohttp as an OSError with a short text."""
    if isinstance(exc, aiohttp.ClientHttpProxyError):
        return ConnectionError(f"the proxy does not connect: HTTP {exc.status}")
    if isinstance(exc, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return ClosedConnectionError("the server closed the connection")
    if isinstance(exc, aiohttp.ClientResponseError):
        return ConnectionError(f"no HTTP/1.1 response: {exc.message}")
    if isinstance(exc.__cause__, OSError):
        return exc.__cause__  # aiohttp's text has the address twice, and its own name for the failure
    return exc if isinstance(exc, OSError) else ConnectionError(str(exc))


class ClosedConnectionError(ConnectionError):
    """The server closed the connection before its response was complete."""
