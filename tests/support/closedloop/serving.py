"""A served model for tests: the batcher in a thread, HTTP on a real socket, models that record their questions."""

from __future__ import annotations

import base64
import io
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import openai
from PIL import Image
from support.closedloop.models import FakeModel

from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.interfaces.serve.batching import ChatService, RequestBatcher
from closedloop_plugin.interfaces.serve.http_api import ChatHttpApi, RequestLimits
from closedloop_plugin.interfaces.serve.requests import ChatCompletionRequest, read_chat
from closedloop_plugin.interfaces.serve.server import listening
from closedloop_plugin.interfaces.serve.services import DriverService, ModelService


class Tunable(FakeModel):
    """A FakeModel whose tuned copies record in a shared list the settings of each call."""

    def __init__(
        self, answer: Callable[[ModelQuestion], str | ModelReply], settings: tuple[Any, Any] = (None, None)
    ) -> None:
        super().__init__(answer)
        self.settings, self.call_settings = settings, list[tuple[Any, Any]]()

    def tuned(self, max_tokens: int | None, temperature: float | None) -> Tunable:
        copy = Tunable(self.answer, (max_tokens, temperature))
        copy.call_settings = self.call_settings
        return copy

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        self.call_settings.append(self.settings)
        return super().ask(questions)


@dataclass
class Served:
    api: ChatHttpApi
    url: str  # ends in /v1

    def call(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers; `body` as bytes or as a JSON value."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers} if data is not None else headers
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, data, sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read()), dict(reply.headers)
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, json.loads(exc.read()), dict(exc.headers)

    def chat(self, **body: Any) -> tuple[int, Any, dict[str, str]]:
        return self.call("/v1/chat/completions", {"model": "fake", "messages": user("hi"), **body})


@contextmanager
def served(
    services: Sequence[ChatService] | FakeModel = (),
    *,
    driver: DriverService | None = None,
    batcher: RequestBatcher | None = None,
    limits: RequestLimits | None = None,
    key: str = "",
    opened: bool = True,
) -> Iterator[Served]:
    """Serve until the block ends. `opened` False: the model is still loading."""
    offered = [ModelService(services)] if isinstance(services, FakeModel) else list(services)
    api = ChatHttpApi(batcher or RequestBatcher(), limits or RequestLimits(), key, "loading-model")
    if opened:
        api.open([*offered, *([driver] if driver else [])], driver, "fake")
    worker = threading.Thread(target=api.batcher.work, daemon=True)
    worker.start()
    try:
        with listening(api, "127.0.0.1", 0) as url:
            yield Served(api, url)
            api.batcher.close()
    finally:
        api.batcher.close()
        worker.join(30)
    assert not worker.is_alive()


def client(url: str, key: str = "none") -> openai.OpenAI:
    """An OpenAI client without retries."""
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)


def chat(**body: Any) -> ChatCompletionRequest:
    """A request as the services receive it."""
    return read_chat(json.dumps({"model": "fake", "messages": user("x"), **body}).encode())


def user(*parts: Any) -> list[dict[str, Any]]:
    """One user message: a text, or a list of parts (texts as str, images as arrays, other values unchanged)."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return [{"role": "user", "content": parts[0]}]
    return [{"role": "user", "content": [_part(p) for p in parts]}]


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, np.ndarray):
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    return part


def data_url(image: np.ndarray, kind: str = "png", **options: Any) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind.upper(), **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
