"""The HTTP API: routes, API key, request limits, choice of the model. Errors are OpenAI's error objects."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sys
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from closedloop_plugin.interfaces.serve.batching import ChatService, RequestBatcher, ServiceReply, ServiceRequest
from closedloop_plugin.interfaces.serve.requests import ApiError, ChatCompletionRequest, read_chat
from closedloop_plugin.interfaces.serve.services import DriverService
from lmms_eval_ad2.core.served_connections import ServedConnections, host_fault

# A client that leaves, or sends no HTTP.
CLIENT_FAULTS = (ConnectionError, web.RequestPayloadError, HttpProcessingError)
_BODY_S = 60.0  # time limit for receiving a request body
_LOADING_RETRY_S = 5
_CONNECTIONS = 512
_PARSERS = 2  # requests parsed at the same time; each may need 1.2 GB


@dataclass(frozen=True)
class RequestLimits:
    """Limits of the requests in progress, which also bound memory (docs/security.md).

    queue: requests at once, from first byte to reply; body_bytes: of one body; bodies_bytes: of all bodies that are
    being received or wait to be parsed; parsed: requests at once whose images are decoded, until their replies.
    """

    queue: int = 256
    body_bytes: int = 64 * 2**20
    bodies_bytes: int = 512 * 2**20
    parsed: int = 16


class ChatHttpApi:
    """OpenAI-compatible HTTP API. Replies 503 until `open` is called."""

    def __init__(
        self,
        batcher: RequestBatcher,
        limits: RequestLimits,
        key: str = "",
        model: str = "",
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self.batcher, self.limits, self.model = batcher, limits, model
        self.answered = self.failed = self.pending = 0
        self.connections = ServedConnections(_CONNECTIONS)
        self._bodies_bytes = 0
        self._parsed = asyncio.Semaphore(limits.parsed)
        self._parsers = ThreadPoolExecutor(max_workers=_PARSERS, thread_name_prefix="ad2-serve-parser")
        self.last_failure = ""
        self._key = key.encode()
        self._host, self._allowed_hosts = "127.0.0.1", tuple(allowed_hosts)
        self._log = sys.stderr  # keep this object: while a model runs, sys.stderr is replaced to hide its output
        self._services: dict[str, ChatService] = {}
        self._driver: DriverService | None = None
        self._since = int(time.time())

    def open(self, services: Sequence[ChatService], driver: DriverService | None, model: str) -> None:
        """Start answering with the loaded services."""
        self._driver, self.model = driver, model
        self._services = {service.name: service for service in services}

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._services)

    def application(self, host: str = "127.0.0.1") -> web.Application:
        """`host`: the address that is listened on; other Host headers are refused (served_connections)."""
        self._host = host
        app = web.Application(client_max_size=self.limits.body_bytes, middlewares=[self._guard])
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{name:.+}", self._model)
        app.router.add_get("/v1/ad2/driver", self._describe)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    def close(self) -> None:
        self._parsers.shutdown(wait=False)

    def summary(self) -> str:
        """Counts so far, as one line for the log."""
        mean = self.batcher.requests / self.batcher.batches if self.batcher.batches else 0.0
        line = f"answered {self.answered}, failed {self.failed}, waiting {self.pending}, {mean:.1f} a batch"
        return f"{line}; last failure: {self.last_failure}" if self.last_failure else line

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            with self.connections.request(_peer(request)):
                self._check_headers(request)
                if request.path != "/health":
                    self._check_key(request)
                return await handler(request)
        except CLIENT_FAULTS:  # the connection is lost: nobody receives this
            return error_response(ApiError(400, "the request was not received completely"))
        except ApiError as refusal:
            return error_response(refusal)
        except web.HTTPException as exc:  # no such path, wrong method, body too large
            return error_response(ApiError(exc.status, f"{request.method} {request.path[:200]}: {exc.reason}"))
        except Exception:  # a bug: the client gets an error object, the log the traceback
            traceback.print_exc(file=self._log)
            return error_response(ApiError(500, "internal error of this server; see its log", code="internal_error"))

    def _check_headers(self, request: web.Request) -> None:
        if fault := host_fault(request.headers.get("Host"), self._host, self._allowed_hosts):
            raise ApiError(421, fault, code="wrong_host")
        coding = request.headers.get("Content-Encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            raise ApiError(
                415, f"Content-Encoding {coding[:40]!r}: send the body uncompressed", code="unsupported_encoding"
            )

    def _check_key(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if self._key and not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._key):
            raise ApiError(401, "a key is needed here: Authorization: Bearer KEY", code="invalid_api_key")

    async def _health(self, request: web.Request) -> web.Response:
        state = {
            "status": "ok" if self._services else "loading",
            "model": self.model,
            "waiting": self.pending,
            "answered": self.answered,
            "failed": self.failed,
            "batches": self.batcher.batches,
            "mean_batch": round(self.batcher.requests / self.batcher.batches, 2) if self.batcher.batches else None,
        }
        return json_response(state, 200 if self._services else 503)

    async def _models(self, request: web.Request) -> web.Response:
        return json_response(model_list(self._loaded(), self._since))

    async def _model(self, request: web.Request) -> web.Response:
        service = self._service(request.match_info["name"])
        return json_response(model_list([service.name], self._since)["data"][0])

    async def _describe(self, request: web.Request) -> web.Response:
        self._loaded()
        if self._driver is None:
            raise ApiError(404, "there is no driver here", code="model_not_found")
        return json_response(self._driver.describe())

    async def _complete(self, request: web.Request) -> web.Response:
        self._loaded()
        if self.pending >= self.limits.queue:
            raise ApiError(429, f"{self.pending} requests are in progress already", code="queue_full", retry_s=1)
        self.pending += 1
        try:
            async with contextlib.AsyncExitStack() as held:
                chat, service, parsed = await self._parse(request, held)
                reply = await asyncio.wrap_future(self.batcher.put(service, parsed))
        finally:
            self.pending -= 1
        self.failed, self.answered = self.failed + reply.failed, self.answered + (not reply.failed)
        if reply.error is not None:
            self.last_failure = reply.error
            raise ApiError(500, f"the model failed: {reply.error}", code="model_failed")
        return completion_response(chat, reply)

    async def _parse(
        self, request: web.Request, held: contextlib.AsyncExitStack
    ) -> tuple[ChatCompletionRequest, ChatService, ServiceRequest]:
        """Receive and parse a request. Its place among the parsed ones is added to `held`."""
        body = bytearray()
        try:
            await self._receive(request, body)
            self.connections.answering(_peer(request))
            await held.enter_async_context(self._parsed)

            def read() -> tuple[ChatCompletionRequest, ChatService, ServiceRequest]:
                chat = read_chat(body)
                service = self._service(chat.model)
                return chat, service, service.read(chat)

            return await asyncio.get_running_loop().run_in_executor(self._parsers, read)
        finally:
            self._bodies_bytes -= len(body)

    async def _receive(self, request: web.Request, body: bytearray) -> None:
        """Append the body of a request, and count its bytes in `_bodies_bytes`."""
        # A web page cannot send this content type cross-origin without a CORS preflight: protects against CSRF.
        if request.content_type != "application/json":
            raise ApiError(415, "expected Content-Type: application/json", code="unsupported_media_type")
        most = self.limits.body_bytes
        too_large = ApiError(
            413, f"the body has more than {most / 2**20:g} MB: smaller or fewer images", code="too_large"
        )
        if (request.content_length or 0) > most:
            raise too_large
        try:
            async with asyncio.timeout(_BODY_S):
                async for part in request.content.iter_any():
                    body += part
                    self._bodies_bytes += len(part)
                    if len(body) > most:
                        raise too_large
                    if self._bodies_bytes > max(self.limits.bodies_bytes, most):
                        raise ApiError(429, "too many large requests at once", code="queue_full", retry_s=1)
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {_BODY_S:g} s") from None

    def _service(self, name: str) -> ChatService:
        service = self._loaded().get(name)
        if service is None:
            known = ", ".join(self._services)
            raise ApiError(
                404, f"no model {name[:200]!r} here; available: {known}", param="model", code="model_not_found"
            )
        return service

    def _loaded(self) -> dict[str, Any]:
        """The services by name. ApiError 503 while the model is loading."""
        if not self._services:
            raise ApiError(503, f"{self.model} is still loading", code="loading", retry_s=_LOADING_RETRY_S)
        return self._services


def _peer(request: web.Request) -> tuple[Any, ...]:
    return (request.transport and request.transport.get_extra_info("peername")) or ()


def completion_response(chat: ChatCompletionRequest, reply: ServiceReply) -> web.Response:
    """A completion in OpenAI's format. `usage` is null: lmms-eval's models do not count tokens."""
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": chat.model, "usage": None}
    if chat.stream:
        return _stream(head, reply, bool(chat.stream_options and chat.stream_options.include_usage))
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return json_response({**head, "object": "chat.completion", "choices": [choice]})


def error_response(refusal: ApiError) -> web.Response:
    return json_response(refusal.body, refusal.status, refusal.headers)


def model_list(names: Iterable[str], since: int) -> dict[str, Any]:
    """The body of GET /v1/models."""
    listed = [{"id": name, "object": "model", "created": since, "owned_by": "lmms-eval-ad2"} for name in names]
    return {"object": "list", "data": listed}


def json_response(data: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json")


def _stream(head: Mapping[str, Any], reply: ServiceReply, usage_chunk: bool) -> web.Response:
    """A completion as server-sent events. The text is one chunk: the model returns it at once.

    usage_chunk: add OpenAI's last chunk, which has no choice; its `usage` is null too.
    """
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": reply.text}, None),
        ({}, reply.finish),
    ]
    choices = [
        [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}] for delta, finish in deltas
    ] + [[]] * usage_chunk
    lines = [json.dumps({**head, "object": "chat.completion.chunk", "choices": choice}) for choice in choices]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return web.Response(
        body=body.encode(), content_type="text/event-stream", charset="utf-8", headers={"Cache-Control": "no-cache"}
    )
