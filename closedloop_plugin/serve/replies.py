"""What is sent back: completions, chunks of a stream, error objects, all as OpenAI's clients read them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from closedloop_plugin.serve.chat import Chat
from closedloop_plugin.serve.refusal import Refusal
from closedloop_plugin.serve.service import Done


def answered(chat: Chat, done: Done) -> web.Response:
    """`usage` is null: lmms-eval's models do not count tokens, and a zero would be a false number."""
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": chat.model, "usage": None}
    if chat.stream:
        return _stream(head, done)
    message = {"role": "assistant", "content": done.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": done.finish}
    return as_json({**head, "object": "chat.completion", "choices": [choice]})


def refused(refusal: Refusal) -> web.Response:
    return as_json(refusal.body, refusal.status, refusal.headers)


def models(names: Iterable[str], since: int) -> dict[str, Any]:
    """GET /v1/models."""
    listed = [{"id": name, "object": "model", "created": since, "owned_by": "lmms-eval-ad2"} for name in names]
    return {"object": "list", "data": listed}


def as_json(data: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json")


def _stream(head: Mapping[str, Any], done: Done) -> web.Response:
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
