"""Server of the annotation and voting pages: checks of requests before Gradio receives them, reports of failed events.

Gradio accepts any Host and Origin, and bodies of any size and depth. Gradio and uvicorn print a traceback for each
event that fails, also for invalid ones. Here an event that Gradio refuses (unknown, with other values than its inputs)
gives one line, an error of our own code its traceback; each place in the code is reported once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.served_connections import ServedConnections, host_fault
from lmms_eval_ad2.storage.untrusted_json import NestingScanner

# No requests to other hosts, whatever Gradio's page would load; the page cannot be framed.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
CSS = Path(__file__).with_name("page.css")
FONTS = ("system-ui", "-apple-system", "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "sans-serif")
_OURS = Path(__file__).resolve().parents[1]


class EventErrors(logging.Filter):
    """The reported places. As a filter of a logger, it replaces the records of exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self._log = sys.stderr
        self._reported: set[tuple[str, int | None]] = set()

    def install(self, *modules: Any) -> None:
        """Replace what uvicorn and these modules, which call traceback.print_exc, print in this process."""
        logging.getLogger("uvicorn.error").addFilter(self)
        for module in modules:
            module.traceback = SimpleNamespace(**{**vars(traceback), "print_exc": self.print_exc})

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or record.exc_info[1] is None:
            return True
        self.report(record.exc_info[1])
        return False

    def print_exc(self) -> None:
        """As traceback.print_exc: called while an exception is handled."""
        if exc := sys.exc_info()[1]:
            self.report(exc)

    def report(self, exc: BaseException) -> None:
        frames = traceback.extract_tb(exc.__traceback__)
        place = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
        if place in self._reported:
            return
        self._reported.add(place)
        if _is_ours(frames):
            show("".join(traceback.format_exception(exc)), file=self._log, flush=True)
        else:
            text = " ".join(str(exc).split())[:200]
            show(f"an invalid event was refused: {type(exc).__name__}: {text}", file=self._log, flush=True)


def _is_ours(frames: traceback.StackSummary) -> bool:
    """Check that the innermost frame of a package, below Gradio, is ours; the standard library's do not count."""
    for frame in reversed(frames):
        file = Path(frame.filename)
        if file.is_relative_to(_OURS):
            return True
        if "site-packages" in file.parts:
            return False
    return False


MOST_BODY = 1 << 20  # bytes; an action has at most 20,000 characters
MOST_VALUES = 20_000  # in a body
MOST_CONNECTIONS = 256  # of all browsers at once; each may hold a body of MOST_BODY
_BODY_S = 60.0  # time limit for receiving a body
_EVENTS = 1024  # waiting in Gradio's queue: the actions, and one event for each open page (`_never`)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class PageGuard:
    """An ASGI application that passes requests to `app` if they may come from the page that it serves.

    host: the address that is listened on; further: more names of this server (served_connections).
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
        try:
            NestingScanner(most_values=MOST_VALUES).feed(body)
        except ValueError as exc:
            raise _Refusal(400, str(exc)) from None
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def repeat() -> Message:
            return waiting.pop() if waiting else await receive()

        return repeat


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """The whole body. ConnectionError if the client leaves."""
    body = bytearray()
    too_large = _Refusal(413, f"the body has more than {MOST_BODY:,} bytes")
    length = headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:12]) > MOST_BODY:
        raise too_large
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ConnectionError
                body += message.get("body", b"")
                if len(body) > MOST_BODY:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise _Refusal(408, f"the body did not come within {_BODY_S:g} s") from None


async def _reply(send: Send, refusal: _Refusal) -> None:
    text = f"{refusal.text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode()),
               (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def keep_open(blocks: Any) -> None:
    """Set up the queue of a Gradio app, in its context, so that the reply to every event is shown (`_never`)."""
    blocks.load(_never, show_progress="hidden", concurrency_limit=1, concurrency_id="open pages",
                api_visibility="private")  # fmt: skip
    blocks.queue(max_size=_EVENTS)


async def _never() -> None:
    """An event that stays pending, so that the page's stream of replies stays open.

    Gradio closes that stream when the last event of a page is done. An event that is sent before the page has noticed
    is processed, but its reply is shown only with the next event. One of these runs, those of other pages are queued.
    """
    await asyncio.Event().wait()


def serve_blocks(
    blocks: Any, *, title: str, host: str, port: int, allowed_hosts: Sequence[str], css: str = "", head: str = ""
) -> None:
    """Serve a Gradio app behind the page's guard until Ctrl-C or SIGTERM; `css` and `head` extend the page's."""
    gr, fastapi, uvicorn = require("gradio"), require("fastapi"), require("uvicorn")
    app = fastapi.FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def add_headers(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    theme = gr.themes.Default(font=FONTS, font_mono=("ui-monospace", "monospace"))
    app = gr.mount_gradio_app(
        app, blocks, path="/", theme=theme, css=CSS.read_text("utf-8") + css, head=head,
        footer_links=[], run_history=False, show_error=True, ssr_mode=False,
        enable_monitoring=False, mcp_server=False, pwa=False, max_file_size=1,
    )  # fmt: skip
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    print(f"{title}: http://{shown}:{listener.getsockname()[1]}/   (Ctrl-C stops it; everything is saved)", flush=True)
    EventErrors().install(require("gradio.queueing"), require("gradio.routes"))
    guard = PageGuard(app, host, allowed_hosts)
    config = uvicorn.Config(
        guard, http=guard.connections.factory(require("uvicorn.protocols.http.h11_impl").H11Protocol), ws="none",
        log_level="warning", timeout_graceful_shutdown=2,
    )  # fmt: skip
    asyncio.run(_run(uvicorn.Server(config), guard, listener))


async def _run(server: Any, guard: PageGuard, listener: socket.socket) -> None:
    guard.connections.handle_accept_errors(asyncio.get_running_loop())
    await server.serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as exc:
        raise Ad2Error(f"cannot listen on {host}:{port}: {exc}; choose another --port (0: any free one)") from exc
    listener.listen(128)
    return listener
