"""A local HTTP endpoint with OpenAI's chat completions API that returns fixed replies or chosen failures.

    with serve(reply="Rating: [[7]]", latency_s=0.1, failures=["429", "ok", "cut"]) as server:
        ... server.url ... server.requests ...

`python -m lmms_eval_ad2.testing.fake_endpoint --port 8000 --reply A` runs one in the foreground for any client,
including lmms-eval's `openai` model: image parts are accepted and ignored.

Routes: POST /v1/chat/completions, GET /v1/models, GET /stats.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from lmms_eval_ad2.testing import fake_replies

Body = dict[str, Any]

HANG_S = 3600.0
# Outcomes of a request other than a reply. A number is an HTTP status.
FAILURES = (
    "ok", "307", "400", "401", "402", "403", "404", "405", "408", "429", "500", "502", "503", "hang", "cut",
    "cut_body", "invalid_json", "no_choices", "error_200", "empty", "html", "html_200", "truncated", "broken_off",
    "refusal", "filtered", "several",
)  # fmt: skip


@dataclass(slots=True)
class EndpointBehaviour:
    """Configuration of the endpoint.

    `reply` is a text, the name of a rule of `fake_replies`, or a function of the request body. `failures` are the
    outcomes of the first requests, in order (repeated if `cycle`), or a function of the request's number (from 0) and
    body. `per_second` is a rate limit: requests above it get a 429 with `retry_after_s`. `decoy`, like `reply`, is the
    text that failures contain, which no client may take for a reply ("several": and two ratings).
    """

    reply: str | Callable[[Body], str] = "Rating: [[7]]"
    latency_s: float = 0.0
    failures: Sequence[str] | Callable[[int, Body], str] = ()
    cycle: bool = False
    retry_after_s: float | None = 0.05
    per_second: float | None = None
    report_usage: bool = True
    keep_bodies: bool = False
    decoy: str | Callable[[Body], str] = "Rating: [[9]]"

    def __post_init__(self) -> None:
        unknown = [] if callable(self.failures) else [f for f in self.failures if f not in FAILURES]
        if unknown:
            raise ValueError(f"unknown failure {unknown[0]!r}; known: {', '.join(FAILURES)}")

    def failure(self, number: int, body: Body) -> str:
        """The outcome of request `number`."""
        if callable(self.failures):
            return self.failures(number, body)
        if self.cycle and self.failures:
            return self.failures[number % len(self.failures)]
        return self.failures[number] if number < len(self.failures) else "ok"


@dataclass(slots=True)
class FakeEndpointServer:
    """A running endpoint. `requests` counts all chat requests, `replies` those answered with a completion."""

    behaviour: EndpointBehaviour
    url: str = ""
    requests: int = 0
    replies: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    bodies: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _window: list[float] = field(default_factory=list)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=256 * 2**20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        number = self.requests
        self.requests += 1
        if self.behaviour.keep_bodies:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.behaviour.latency_s:
                await asyncio.sleep(self.behaviour.latency_s)
            failure = "429" if self._too_fast() else self.behaviour.failure(number, body)
            return await (self._answer(body) if failure == "ok" else self._fail(failure, body, request))
        finally:
            self.in_flight -= 1

    def _too_fast(self) -> bool:
        if not self.behaviour.per_second:
            return False
        now = asyncio.get_running_loop().time()
        self._window = [t for t in self._window if t > now - 1.0]
        if len(self._window) >= self.behaviour.per_second:
            return True
        self._window.append(now)
        return False

    async def _answer(self, body: Body) -> web.Response:
        self.replies += 1
        return _json(self._completion(body, fake_replies.text(self.behaviour.reply, body)))

    def _completion(self, body: Body, text: str, finish: str = "stop", refusal: str | None = None) -> Body:
        message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
        done: Body = {
            "id": f"chatcmpl-{self.requests}", "object": "chat.completion", "created": 0,
            "model": body.get("model", "fake"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        }  # fmt: skip
        if self.behaviour.report_usage:
            prompt, reply = fake_replies.word_count(body), len(text.split())
            done["usage"] = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
        return done

    async def _fail(self, kind: str, body: Body, request: web.Request) -> web.StreamResponse:
        if kind.isdigit():
            return self._status(int(kind), fake_replies.text(self.behaviour.decoy, body))
        if kind == "hang":
            await asyncio.sleep(HANG_S)
        if kind in ("cut", "hang"):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if kind == "cut_body":
            return await self._cut_body(request, fake_replies.text(self.behaviour.decoy, body))
        return _UNUSABLE[kind](self, body, fake_replies.text(self.behaviour.decoy, body))

    async def _cut_body(self, request: web.Request, decoy: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "4000"})
        await response.prepare(request)
        await response.write(_cut_json(decoy).encode())
        assert request.transport is not None
        request.transport.abort()
        return response

    def _status(self, status: int, decoy: str) -> web.Response:
        headers = {}
        if status in (429, 503) and self.behaviour.retry_after_s is not None:
            headers["Retry-After"] = f"{self.behaviour.retry_after_s:g}"
        error = {"message": f"the fake endpoint says {status}", "type": "fake", "code": None, "param": decoy}
        return _json({"error": error}, status, headers)

    async def _models(self, request: web.Request) -> web.Response:
        return _json({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def _stats(self, request: web.Request) -> web.Response:
        return _json({"requests": self.requests, "replies": self.replies, "most_in_flight": self.most_in_flight})


def _json(data: Body, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json")


def _cut_json(decoy: str) -> str:
    return f'{{"choices": [{{"message": {{"content": {json.dumps(decoy)}'


def _html(decoy: str, status: int) -> web.Response:
    page = f"<html><head><title>{decoy}</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return web.Response(text=page, status=status, content_type="text/html")


_UNUSABLE: dict[str, Callable[[FakeEndpointServer, Body, str], web.Response]] = {
    "invalid_json": lambda s, b, d: web.Response(text=_cut_json(d), content_type="application/json"),
    "no_choices": lambda s, b, d: _json({"object": "chat.completion", "choices": [], "note": d}),
    "error_200": lambda s, b, d: _json({"error": {"message": d, "code": 502}}),  # OpenRouter, after its first bytes
    "empty": lambda s, b, d: _json(s._completion(b, "")),
    "html": lambda s, b, d: _html(d, 502),
    "html_200": lambda s, b, d: _html(d, 200),
    "truncated": lambda s, b, d: _json(s._completion(b, f"One could say {d}, but then agai", "length")),
    "broken_off": lambda s, b, d: _json(s._completion(b, d, "error")),
    "refusal": lambda s, b, d: _json(s._completion(b, "", refusal=f"I cannot help with that. {d}")),
    "filtered": lambda s, b, d: _json(s._completion(b, d, "content_filter")),
    "several": lambda s, b, d: _json(s._completion(b, f"{d} Rating: [[3]] or Rating: [[4]]")),
}  # fmt: skip


@contextmanager
def serve(*, port: int = 0, **behaviour: Any) -> Iterator[FakeEndpointServer]:
    """Run an endpoint on the loopback interface, in a thread of this process, until the block ends.

    `behaviour`: the fields of EndpointBehaviour. `url` ends in /v1, as clients expect for a base URL.
    """
    server = FakeEndpointServer(EndpointBehaviour(**behaviour))
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.05)
    thread = threading.Thread(target=loop.run_forever, name="ad2-fake-endpoint", daemon=True)
    thread.start()
    try:
        server.url = asyncio.run_coroutine_threadsafe(_start(runner, port), loop).result()
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(_stop(runner), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(runner: web.AppRunner) -> None:
    await runner.cleanup()
    hanging = asyncio.all_tasks() - {asyncio.current_task()}  # handlers whose client has disconnected
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def _start(runner: web.AppRunner, port: int) -> str:
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    assert runner.addresses
    return f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


async def _forever(server: FakeEndpointServer, port: int) -> None:
    runner = web.AppRunner(server.application(), access_log=None)
    print(await _start(runner, port), flush=True)
    await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve in the foreground; the first line on standard output is the base URL."""
    p = argparse.ArgumentParser(
        prog="python -m lmms_eval_ad2.testing.fake_endpoint", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--port", type=int, default=0, help="0: any free port")
    p.add_argument("--reply", default="Rating: [[7]]", help=f"a text, or a rule: {', '.join(fake_replies.RULES)}")
    p.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    p.add_argument(
        "--failures", default="", help=f"comma-separated outcomes of the first requests: {', '.join(FAILURES)}"
    )
    p.add_argument("--cycle", action="store_true", help="repeat the failures")
    p.add_argument("--per-second", type=float, default=None, help="reply 429 above this rate")
    args = p.parse_args(argv)
    try:
        behaviour = EndpointBehaviour(
            args.reply,
            args.latency,
            tuple(filter(None, args.failures.split(","))),
            args.cycle,
            per_second=args.per_second,
        )
    except ValueError as exc:
        p.error(str(exc))
    try:
        asyncio.run(_forever(FakeEndpointServer(behaviour), args.port))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
