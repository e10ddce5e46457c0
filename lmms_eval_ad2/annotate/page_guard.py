"""Checks of the annotation page's requests, before Gradio receives them.

Gradio accepts any Host and Origin, and bodies of any size and depth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from lmms_eval_ad2.core.served_connections import ServedConnections
from lmms_eval_ad2.core.served_hosts import host_fault
from lmms_eval_ad2.storage.untrusted_json import NestingScanner

MOST_BODY = 1 << 20  # bytes; an action has at most 20,000 characters
MOST_VALUES = 20_000  # in a body
MOST_CONNECTIONS = 256  # of all browsers at once; each may hold a body of MOST_BODY
_BODY_S = 60.0  # time limit for receiving a body

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class PageGuard:
    """An ASGI application that passes requests to `app` if they may come from the page that it serves.

    host: the address that is listened on; further: more names of this server (served_hosts).
    """

    def __init__(self, app: Callable[..., Awaitable[None]], host: str, further: Sequence[str] = ()) -> None:
        self.app, self.host, self.further = app, host, further
        self.connections = ServedConnections(MOST_CONNECTIONS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":  # the page uses no web sockets
            peer = scope.get("client") or ()
            with self.connections.request(peer):
                await self._answer(scope, receive, send, peer)

    async def _answer(self, scope: Message, receive: Receive, send: Send, peer: tuple[Any, ...]) -> None:
        try:
            receive = await self._checked(scope, receive)
        except _Refusal as refusal:
            await _reply(send, refusal)
            return
        except ConnectionError:
            return
        self.connections.answering(peer)
        await self.app(scope, receive, send)

    async def _checked(self, scope: Message, receive: Receive) -> Receive:
        """Check a request; returns a `receive` that repeats its body."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if fault := host_fault(headers.get("host"), self.host, self.further):
            raise _Refusal(421, fault)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise _Refusal(403, f"Origin: {origin[:200]!r} is another site")
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise _Refusal(415, "Content-Encoding: send the body uncompressed")
        body = await _body(headers, receive)
        _check_values(body)
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def repeat() -> Message:
            return waiting.pop() if waiting else await receive()

        return repeat


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """The whole body. ConnectionError if the client leaves."""
    body = bytearray()
    length = headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:12]) > MOST_BODY:
        raise _too_large()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ConnectionError
                body += message.get("body", b"")
                if len(body) > MOST_BODY:
                    raise _too_large()
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise _Refusal(408, f"the body did not come within {_BODY_S:g} s") from None


def _too_large() -> _Refusal:
    return _Refusal(413, f"the body has more than {MOST_BODY:,} bytes")


def _check_values(body: bytes) -> None:
    try:
        NestingScanner(most_values=MOST_VALUES).feed(body)
    except ValueError as exc:
        raise _Refusal(400, str(exc)) from None


async def _reply(send: Send, refusal: _Refusal) -> None:
    text = f"{refusal.text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode()),
               (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
