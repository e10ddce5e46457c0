"""What is offered under one model name: reads a request, and answers many that waited together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from closedloop_plugin.serve.chat import ChatCompletionRequest


@dataclass(frozen=True)
class ServiceRequest:
    """One request, read. Only orders of one `group` may be answered in one call."""

    group: Hashable
    payload: Any


@dataclass(frozen=True)
class ServiceReply:
    """The words of an answer, or `error`: why there are none. `failed`: count it as such, whatever the words say."""

    text: str = ""
    finish: str = "stop"  # OpenAI's finish_reason: stop, length, content_filter
    error: str | None = None
    failed: bool = False


class ChatService(Protocol):
    name: str  # in /v1/models

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """Refusal where the request is wrong. Called in any thread."""
        ...

    def answer(self, payloads: Sequence[Any]) -> list[ServiceReply]:
        """One Done a payload, in order. Called in the one thread that works with models."""
        ...
