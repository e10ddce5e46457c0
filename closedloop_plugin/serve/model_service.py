"""The bare model: pictures and a question in, its words out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, ModelReply
from closedloop_plugin.serve.api_error import ApiError, wrong
from closedloop_plugin.serve.chat import ChatCompletionRequest, CompletionSettings
from closedloop_plugin.serve.pictures import pictures
from closedloop_plugin.serve.service import ServiceReply, ServiceRequest


class ModelService:
    """A Backend as a service, under the model's own name."""

    def __init__(self, backend: ModelBackend) -> None:
        self.backend = backend
        self.name = str(backend.describe().get("model") or backend.name)
        self._numbers = itertools.count()

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """See Service.read. Requests with other settings of generation go into calls of their own."""
        self._tuned(chat.settings)
        text = "\n\n".join(filter(None, (chat.system, "\n".join(chat.texts))))
        if not text.strip():
            raise wrong("messages", "a question in words")
        images = pictures(chat.urls, [f"image {i}" for i in range(1, len(chat.urls) + 1)])
        return ServiceRequest(
            chat.settings, (chat.settings, ModelQuestion(str(next(self._numbers)), text, tuple(images)))
        )

    def answer(self, payloads: Sequence[tuple[CompletionSettings, ModelQuestion]]) -> list[ServiceReply]:
        """See Service.answer."""
        said = self._tuned(payloads[0][0]).ask([question for _, question in payloads])
        failed = [s.error for s in said if (s.error or "").startswith("generation_failed")]
        if 1 < len(said) == len(failed):  # one exception was everybody's: then each is asked alone
            raise RuntimeError(failed[0])
        return [_done(s) for s in said]

    def _tuned(self, settings: CompletionSettings) -> ModelBackend:
        """The model with a request's own settings."""
        if settings == CompletionSettings():
            return self.backend
        tuned = getattr(self.backend, "tuned", None)
        if tuned is None:
            raise ApiError(400, f"{self.name} takes no max_tokens and no temperature", code="unsupported_value")
        return tuned(settings.max_tokens, settings.temperature)


def _done(said: ModelReply) -> ServiceReply:
    if said.error is None:
        return ServiceReply(said.text, "length" if said.cut else "stop")
    if said.error.startswith("refused"):  # an endpoint behind this one withheld it
        return ServiceReply("", "content_filter")
    return ServiceReply(error=said.error, failed=True)
