"""EndpointModel: a model behind an OpenAI-compatible endpoint. Questions are sent concurrently, images as data URLs."""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.image_encoding import JPEG_QUALITY, ImageEncoding
from closedloop_plugin.core.state import EpisodeFault
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm import session
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatClient, ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig, checked_urls
from lmms_eval_ad2.llm.settings import OPENAI_URL, key_for

MAX_TOKENS = 256


class EndpointModel:
    """ModelBackend for an endpoint. `options`: from endpoint_options. `cache`: a file that keeps replies between runs.

    A cached reply has no latency, so a run with --config latency=measured must not use a cache.
    """

    concurrent = True

    def __init__(self, options: Mapping[str, Any], *, cache: Path | None = None, seed: int = 0) -> None:
        self.options = dict(options)
        self.name = f"endpoint:{options['model']}"
        self.tally = session.RequestUsage()
        self._seed = int(options.get("seed", seed))
        self._temperature = float(options.get("temperature", 0.0))
        self._limit_key = endpoint_choice(options, "max_tokens_key", ("max_tokens", "max_completion_tokens"))
        self.encoding = ImageEncoding(
            endpoint_choice(options, "format", ("jpeg", "png")), options.get("quality", JPEG_QUALITY)
        )
        self._cache = ReplyCache(cache) if cache else None
        self._served: set[str] = set()
        self.endpoint = EndpointConfig(
            base_url=options["base_url"],
            api_key=key_for(options["base_url"], options.get("api_key_env", "")),
            timeout_s=options.get("timeout", 60.0),
            max_retries=options.get("max_retries", 3),
            concurrency=options.get("concurrency", 64),
            rpm=options.get("rpm"),
            backoff_s=options.get("backoff", 0.5),
        )

    @classmethod
    def from_spec(cls, spec: str, *, cache: Path | None = None, seed: int = 0) -> EndpointModel:
        return cls(endpoint_options(spec), cache=cache, seed=seed)

    def tuned(self, max_tokens: int | None = None, temperature: float | None = None) -> EndpointModel:
        """The same model with other settings; None: unchanged."""
        given = {"max_tokens": max_tokens, "temperature": temperature}
        changed = {**self.options, "seed": self._seed, **{k: v for k, v in given.items() if v is not None}}
        return EndpointModel(changed)

    def reach(self) -> None:
        """Check that the endpoint answers, before any world is started. Raises Ad2Error if it does not."""

        async def connect() -> None:
            async with ChatClient(self.endpoint) as client:
                await client.reach()

        asyncio.run(connect())

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """See ModelBackend.ask. `seconds`: from the first request to the last reply of the call."""
        urls = self._data_urls(questions)
        payloads = [self._payload(q, [urls[id(image)] for image in q.images]) for q in questions]
        keys = [self._key(q, p) for q, p in zip(questions, payloads, strict=True)]
        start = time.monotonic()
        outcomes = session.ask(
            dict(zip(keys, payloads, strict=True)), self.endpoint, cache=self._cache, tally=self.tally,
            keep=lambda key, reply: reply.finish_reason != "content_filter", progress=False,
        )  # fmt: skip
        seconds = time.monotonic() - start
        self._served.update({o.model for o in outcomes.values() if isinstance(o, ChatReply) and o.model})
        return [_reply(outcomes[key], seconds) for key in keys]

    def describe(self) -> dict[str, Any]:
        """Settings without the API key. `served_as`: model names in the replies, to which an alias resolved."""
        return {
            "backend": "endpoint",
            "model": self.options["model"],
            "base_url": self.endpoint.base_url,
            "temperature": self._temperature,
            "seed": self._seed,
            "max_tokens": self.options.get("max_tokens", MAX_TOKENS),
            "image_format": self.encoding.format,
            "cache": self._cache is not None,
            "served_as": sorted(self._served),
        }

    def _payload(self, question: ModelQuestion, urls: Sequence[str]) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        content.append({"type": "text", "text": question.text})
        return {
            "model": self.options["model"],
            # Text-only servers often reject a list of parts.
            "messages": [{"role": "user", "content": content if question.images else question.text}],
            self._limit_key: self.options.get("max_tokens", MAX_TOKENS),
            "temperature": self._temperature,
            "seed": self._seed,
        }

    def _key(self, question: ModelQuestion, payload: Mapping[str, Any]) -> str:
        if self._cache is None:
            return question.key
        # A sampled reply is cached for its episode and tick; a greedy one for every request with the same content.
        return key_of({**payload, "_of": question.key} if self._temperature else payload)

    def _data_urls(self, questions: Sequence[ModelQuestion]) -> dict[int, str]:
        """Data URLs by id of the image, which a decision's tasks share."""
        images = {id(image): image for q in questions for image in q.images}
        return {
            key: image if isinstance(image, str) else self.encoding.data_url(image) for key, image in images.items()
        }


def _reply(outcome: ChatReply | RequestFailure, seconds: float) -> ModelReply:
    if isinstance(outcome, RequestFailure):
        error = f"{outcome.reason}: {outcome.detail}" if outcome.detail else outcome.reason
        return ModelReply(error=error, seconds=seconds, fault=EpisodeFault.ENDPOINT)
    if outcome.finish_reason == "content_filter":
        reply = ModelReply(error="refused: the endpoint withheld the reply", seconds=seconds)
    elif not outcome.text.strip() and outcome.finish_reason != "length":  # at the limit, the model has only thought
        reply = ModelReply(error="empty_reply", seconds=seconds)
    else:
        reply = ModelReply(outcome.text, seconds=seconds, cut=outcome.finish_reason == "length")
    return replace(reply, tokens_in=outcome.prompt_tokens, tokens_out=outcome.completion_tokens)


# Options of `endpoint:MODEL@URL,key=value,...` with their types; the same names as in a judge's spec.
ENDPOINT_OPTIONS: Mapping[str, type] = {
    "model": str, "base_url": str, "api_key_env": str, "timeout": float, "max_retries": int, "concurrency": int,
    "rpm": float, "backoff": float, "temperature": float, "seed": int, "max_tokens": int, "max_tokens_key": str,
    "format": str, "quality": int,
}  # fmt: skip
_AT_LEAST = {"timeout": 0.001, "max_retries": 0, "concurrency": 1, "rpm": 0.001, "backoff": 0.0, "temperature": 0.0,
             "max_tokens": 1, "quality": 1}  # fmt: skip


def endpoint_options(spec: str) -> dict[str, Any]:
    """Checked options, with `model` and `base_url`, from the text after `endpoint:`. Raises Ad2Error."""
    first, _, rest = spec.partition(",")
    options: dict[str, Any] = {}
    if first.startswith(("http://", "https://")):
        options["base_url"] = first
    elif "=" in first and "@" not in first:
        rest = spec
    else:
        model, at, address = first.partition("@")
        options["model"] = model
        if at:
            options["base_url"] = address
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = (s.strip() for s in part.partition("="))
        if not equals:
            raise Ad2Error(f"endpoint:{spec}: expected KEY=VALUE, found '{part}'")
        options[key] = _value(key, value)
    if not options.get("model"):
        raise Ad2Error(f"endpoint:{spec}: which model? e.g. endpoint:MODEL@http://host:port/v1")
    options["base_url"] = checked_urls(options.get("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    return options


def _value(key: str, text: str) -> Any:
    if key == "api_key":
        raise Ad2Error("endpoint: no key belongs here; set OPENAI_API_KEY, or name another variable with api_key_env")
    if key not in ENDPOINT_OPTIONS:
        near = difflib.get_close_matches(key, ENDPOINT_OPTIONS, 1)
        raise Ad2Error(
            f"endpoint: unknown option '{key}'"
            + (f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(ENDPOINT_OPTIONS)}")
        )
    try:
        value = ENDPOINT_OPTIONS[key](text)
    except ValueError:
        raise Ad2Error(f"endpoint: {key}: expected {_expected(key)}, found '{text}'") from None
    if key in _AT_LEAST and not _AT_LEAST[key] <= value < float("inf"):
        raise Ad2Error(f"endpoint: {key}: expected {_expected(key)} of at least {_AT_LEAST[key]:g}, found '{text}'")
    return value


def _expected(key: str) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}[ENDPOINT_OPTIONS[key]]


def endpoint_choice(options: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    """The value of an option, one of `allowed`; the default is the first."""
    value = str(options.get(key, allowed[0]))
    if value not in allowed:
        raise Ad2Error(f"endpoint: {key}: expected one of {', '.join(allowed)}, found '{value}'")
    return value
