"""Serves a model without the driving stack: images and a question in, the reply text out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply
from closedloop_plugin.interfaces.serve.api_error import ApiError, wrong
from closedloop_plugin.interfaces.serve.chat import ChatCompletionRequest, CompletionSettings
from closedloop_plugin.interfaces.serve.pictures import pictures
from closedloop_plugin.interfaces.serve.service import ServiceReply, ServiceRequest


class ModelService:
    """Serves a ModelBackend under the model's own name."""

    def __init__(self, backend: ModelBackend) -> None:
        self.backend = backend
        self.name = str(backend.describe().get("model") or backend.name)
        self._numbers = itertools.count()

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """See ChatService.read. Requests with different generation settings are not batched together."""
        self._tuned(chat.settings)
        text = "\n\n".join(filter(None, (chat.system, "\n".join(chat.texts))))
        if not text.strip():
            raise wrong("messages", "a question as text")
        images = pictures(chat.urls, [f"image {i}" for i in range(1, len(chat.urls) + 1)])
        return ServiceRequest(
            chat.settings, (chat.settings, ModelQuestion(str(next(self._numbers)), text, tuple(images)))
        )

    def answer(self, payloads: Sequence[tuple[CompletionSettings, ModelQuestion]]) -> list[ServiceReply]:
        """See ChatService.answer."""
        replies = self._tuned(payloads[0][0]).ask([question for _, question in payloads])
        failed = [reply.error for reply in replies if (reply.error or "").startswith("generation_failed")]
        if 1 < len(replies) == len(failed):  # one exception failed the whole batch: RequestBatcher retries each alone
            raise RuntimeError(failed[0])
        return [_service_reply(reply) for reply in replies]

    def _tuned(self, settings: CompletionSettings) -> ModelBackend:
        """The backend with the settings of a request. ApiError if it cannot take them."""
        if settings == CompletionSettings():
            return self.backend
        tuned = getattr(self.backend, "tuned", None)
        if tuned is None:
            raise ApiError(400, f"{self.name} takes no max_tokens and no temperature", code="unsupported_value")
        return tuned(settings.max_tokens, settings.temperature)


def _service_reply(reply: ModelReply) -> ServiceReply:
    if reply.error is None:
        return ServiceReply(reply.text, "length" if reply.cut else "stop")
    if reply.error.startswith("refused"):  # content filter of the endpoint behind this one
        return ServiceReply("", "content_filter")
    return ServiceReply(error=reply.error, failed=True)
