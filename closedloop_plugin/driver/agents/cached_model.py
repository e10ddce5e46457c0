"""CachedModel: a model of this process whose replies are kept in a file between runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, PromptHashes
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply


class CachedModel:
    """See ModelBackend. A cached reply has no `seconds`. Failures are not kept.

    A sampled reply (temperature above 0) is kept for its decision, a greedy one for every equal question.
    """

    def __init__(self, model: ModelBackend, file: Path) -> None:
        self.model, self.name = model, model.name
        self._cache, self._described = ReplyCache(file), model.describe()

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """See ModelBackend.ask; only questions without a cached reply reach the model."""
        hashes = PromptHashes()
        keys = [self._key(question, hashes) for question in questions]
        known = {key: _reply(reply) for key, reply in self._cache.get_many(keys).items()}
        missing = {key: q for key, q in zip(keys, questions, strict=True) if key not in known}
        replies = self.model.ask(list(missing.values())) if missing else []
        asked = dict(zip(missing, replies, strict=True))
        self._cache.put_many((key, _stored(reply)) for key, reply in asked.items() if reply.error is None)
        return [{**known, **asked}[key] for key in keys]

    def describe(self) -> dict[str, Any]:
        return {**self._described, "cache": True}

    def _key(self, question: ModelQuestion, hashes: PromptHashes) -> str:
        sampled = bool(self._described.get("temperature"))
        return key_of(
            {
                "model": self._described,
                "prompt": hashes.prompt_sha256([question]),
                "of": question.key.partition("|")[2] if sampled else None,
            }
        )


def _stored(reply: ModelReply) -> ChatReply:
    finish = "length" if reply.cut else "stop"
    return ChatReply(reply.text, finish, None, reply.tokens_in, reply.tokens_out)


def _reply(stored: ChatReply) -> ModelReply:
    return ModelReply(
        stored.text,
        cut=stored.finish_reason == "length",
        tokens_in=stored.prompt_tokens,
        tokens_out=stored.completion_tokens,
    )
