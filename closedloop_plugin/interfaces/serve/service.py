"""The interface of what is served under one model name: validates requests and answers them in batches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from closedloop_plugin.interfaces.serve.chat import ChatCompletionRequest


@dataclass(frozen=True)
class ServiceRequest:
    """A validated request. Only requests of one `group` may be answered in one call."""

    group: Hashable
    payload: Any


@dataclass(frozen=True)
class ServiceReply:
    """Reply text, or `error` if there is none. `failed`: counted as a failure even if there is a text."""

    text: str = ""
    finish: str = "stop"  # OpenAI's finish_reason: stop, length, content_filter
    error: str | None = None
    failed: bool = False


class ChatService(Protocol):
    name: str  # as listed in /v1/models

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """Validate a request. ApiError if it is invalid. Called from any thread."""
        ...

    def answer(self, payloads: Sequence[Any]) -> list[ServiceReply]:
        """One ServiceReply per payload, in order. Called only from the thread of RequestBatcher.work."""
        ...
