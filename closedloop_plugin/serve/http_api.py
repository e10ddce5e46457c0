"""The HTTP side: who may ask, how much at once, which model; what is wrong comes back as OpenAI's error object."""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from closedloop_plugin.serve.api_error import ApiError
from closedloop_plugin.serve.batching import RequestBatcher
from closedloop_plugin.serve.chat import ChatCompletionRequest, read_chat
from closedloop_plugin.serve.driver_service import DriverService
from closedloop_plugin.serve.service import ChatService, ServiceReply, ServiceRequest

_BODY_S = 60.0  # a request that is still not there then is given up
_LOADING_RETRY_S = 5


@dataclass(frozen=True)
class RequestLimits:
    """`queue`: requests held at once, from their first byte to their answer, which bounds memory as well."""

    queue: int = 256
    body_bytes: int = 64 * 2**20


class ChatHttpApi:
    """Answers 503 until `open` names what there is."""

    def __init__(self, desk: RequestBatcher, limits: RequestLimits, key: str = "", model: str = "") -> None:
        self.desk, self.limits, self.model = desk, limits, model
        self.answered = self.failed = self.held = 0
        self.last_failure = ""
        self._key = key.encode()
        self._log = sys.stderr  # this one: while a model answers, its wrapper's output is kept off sys.stderr
        self._services: dict[str, ChatService] = {}
        self._driver: DriverService | None = None
        self._since = int(time.time())

    def open(self, services: Sequence[ChatService], driver: DriverService | None, model: str) -> None:
        """The model is loaded."""
        self._driver, self.model = driver, model
        self._services = {service.name: service for service in services}

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.limits.body_bytes, middlewares=[self._guard])
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{name:.+}", self._model)
        app.router.add_get("/v1/ad2/driver", self._describe)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    def news(self) -> str:
        """What was done so far, for the log."""
        mean = self.desk.asked / self.desk.batches if self.desk.batches else 0.0
        line = f"answered {self.answered}, failed {self.failed}, waiting {self.held}, {mean:.1f} a batch"
        return f"{line}; last failure: {self.last_failure}" if self.last_failure else line

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            if request.path != "/health":
                self._check_key(request)
            return await handler(request)
        except ApiError as refusal:
            return refused(refusal)
        except web.HTTPException as exc:  # no such path, wrong method, body too large
            return refused(ApiError(exc.status, f"{request.method} {request.path[:200]}: {exc.reason}"))
        except Exception:  # ours to mend: the caller still gets an error object, the log the place
            traceback.print_exc(file=self._log)
            return refused(ApiError(500, "an error of this server's own; its log has it", code="internal_error"))

    def _check_key(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if self._key and not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._key):
            raise ApiError(401, "a key is needed here: Authorization: Bearer KEY", code="invalid_api_key")

    async def _health(self, request: web.Request) -> web.Response:
        state = {
            "status": "ok" if self._services else "loading",
            "model": self.model,
            "waiting": self.held,
            "answered": self.answered,
            "failed": self.failed,
            "batches": self.desk.batches,
            "mean_batch": round(self.desk.asked / self.desk.batches, 2) if self.desk.batches else None,
        }
        return as_json(state, 200 if self._services else 503)

    async def _models(self, request: web.Request) -> web.Response:
        return as_json(models(self._offered(), self._since))

    async def _model(self, request: web.Request) -> web.Response:
        service = self._service(request.match_info["name"])
        return as_json(models([service.name], self._since)["data"][0])

    async def _describe(self, request: web.Request) -> web.Response:
        self._offered()
        if self._driver is None:
            raise ApiError(404, "there is no driver here", code="model_not_found")
        return as_json(self._driver.describe())

    async def _complete(self, request: web.Request) -> web.Response:
        self._offered()
        if self.held >= self.limits.queue:
            raise ApiError(429, f"{self.held} requests are held here already", code="queue_full", retry_s=1)
        self.held += 1
        try:
            raw = await self._body(request)
            chat, service, order = await asyncio.get_running_loop().run_in_executor(None, self._read, raw)
            done = await asyncio.wrap_future(self.desk.put(service, order))
        finally:
            self.held -= 1
        return self._counted(chat, done)

    async def _body(self, request: web.Request) -> bytes:
        # A web page cannot send this type to another address unasked: nobody's browser drives our model.
        if request.content_type != "application/json":
            raise ApiError(415, "expected Content-Type: application/json", code="unsupported_media_type")
        most = self.limits.body_bytes
        too_large = ApiError(
            413, f"the body has more than {most / 2**20:g} MB: smaller or fewer images", code="too_large"
        )
        if (request.content_length or 0) > most:
            raise too_large
        try:
            return await asyncio.wait_for(request.read(), _BODY_S)
        except web.HTTPRequestEntityTooLarge:
            raise too_large from None
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {_BODY_S:g} s") from None

    def _read(self, raw: bytes) -> tuple[ChatCompletionRequest, ChatService, ServiceRequest]:
        chat = read_chat(raw)
        service = self._service(chat.model)
        return chat, service, service.read(chat)

    def _counted(self, chat: ChatCompletionRequest, done: ServiceReply) -> web.Response:
        self.failed, self.answered = self.failed + done.failed, self.answered + (not done.failed)
        if done.error is not None:
            self.last_failure = done.error
            raise ApiError(500, f"the model failed: {done.error}", code="model_failed")
        return answered(chat, done)

    def _service(self, name: str) -> ChatService:
        service = self._offered().get(name)
        if service is None:
            known = ", ".join(self._services)
            raise ApiError(
                404, f"no model {name[:200]!r} here; there is: {known}", param="model", code="model_not_found"
            )
        return service

    def _offered(self) -> dict[str, Any]:
        if not self._services:
            raise ApiError(503, f"{self.model} is still loading", code="loading", retry_s=_LOADING_RETRY_S)
        return self._services


# What is sent back: completions, chunks of a stream, error objects, all as OpenAI's clients read them.
def answered(chat: ChatCompletionRequest, done: ServiceReply) -> web.Response:
    """`usage` is null: lmms-eval's models do not count tokens, and a zero would be a false number."""
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": chat.model, "usage": None}
    if chat.stream:
        return _stream(head, done)
    message = {"role": "assistant", "content": done.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": done.finish}
    return as_json({**head, "object": "chat.completion", "choices": [choice]})


def refused(refusal: ApiError) -> web.Response:
    return as_json(refusal.body, refusal.status, refusal.headers)


def models(names: Iterable[str], since: int) -> dict[str, Any]:
    """GET /v1/models."""
    listed = [{"id": name, "object": "model", "created": since, "owned_by": "lmms-eval-ad2"} for name in names]
    return {"object": "list", "data": listed}


def as_json(data: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json")


def _stream(head: Mapping[str, Any], done: ServiceReply) -> web.Response:
    """All words in one chunk, since they are all there: the model behind gives them at once."""
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": done.text}, None),
        ({}, done.finish),
    ]
    lines = [
        json.dumps(
            {
                **head,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
            }
        )
        for delta, finish in deltas
    ]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return web.Response(
        body=body.encode(), content_type="text/event-stream", charset="utf-8", headers={"Cache-Control": "no-cache"}
    )
