"""Parses the body of POST /v1/chat/completions strictly: content that a model would not see is refused, not dropped.

Fields used: model, messages, max_tokens (max_completion_tokens), temperature, n, stream, stream_options. All others are
ignored, as OpenAI-compatible servers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.interfaces.serve.api_error import ApiError, wrong
from lmms_eval_ad2.core.numbers import is_number, is_whole
from lmms_eval_ad2.storage.untrusted_json import parse

MOST_IMAGES = 64
MOST_TOKENS = 65_536
MOST_VALUES = 100_000  # in a body; bounds the memory of the parsed request


@dataclass(frozen=True)
class CompletionSettings:
    """Generation settings of one request; None: the model's default."""

    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class ChatCompletionRequest:
    """One request. `system`, `texts`: its text parts; `urls`: its images in order, as data URLs.

    usage_chunk: a stream ends with a chunk for the usage (stream_options.include_usage).
    """

    model: str
    system: str
    texts: tuple[str, ...]
    urls: tuple[str, ...]
    settings: CompletionSettings
    stream: bool = False
    usage_chunk: bool = False


def read_chat(raw: bytes | bytearray) -> ChatCompletionRequest:
    """Parse a request body. ApiError names the invalid field."""
    body = mapping_of(raw, "the body")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise wrong("model", "a name; GET /v1/models lists them", model)
    if body.get("n") not in (None, 1):
        raise wrong("n", "1: one answer a request", body["n"])
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise wrong("stream", "true or false", stream)
    system, texts, urls = _messages(body.get("messages"))
    return ChatCompletionRequest(
        model=model, system=system, texts=texts, urls=urls, settings=_settings(body), stream=bool(stream),
        usage_chunk=_usage_chunk(body.get("stream_options")),
    )  # fmt: skip


def mapping_of(raw: bytes | bytearray | str, what: str) -> Mapping[str, Any]:
    """Parse a JSON object. ApiError if `raw` is not one; `what` names it in the message."""
    try:
        # A number that is not finite is refused later, with the name of its field.
        data = parse(raw, finite=False, most_values=MOST_VALUES)
    except ValueError as exc:
        raise ApiError(400, f"{what}: not JSON: {str(exc)[:200]}", code="invalid_json") from None
    if not isinstance(data, dict):
        raise ApiError(400, f"{what}: expected a JSON object", code="invalid_json")
    return data


def number(data: Mapping[str, Any], key: str, low: float, high: float) -> float:
    """A finite number of `data` in [low, high]."""
    value = data.get(key)
    if not is_number(value) or not low <= value <= high:
        raise wrong(key, f"a number from {low:g} to {high:g}", value)
    return float(value)


def whole(data: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """A whole number of `data` in [low, high]."""
    value = data.get(key)
    if not is_whole(value, low, high):
        raise wrong(key, f"a whole number from {low} to {high}", value)
    return value


def _settings(body: Mapping[str, Any]) -> CompletionSettings:
    limit = next((k for k in ("max_completion_tokens", "max_tokens") if body.get(k) is not None), None)
    return CompletionSettings(
        whole(body, limit, 1, MOST_TOKENS) if limit else None,
        number(body, "temperature", 0.0, 2.0) if body.get("temperature") is not None else None,
    )


def _usage_chunk(options: Any) -> bool:
    if options is not None and not isinstance(options, dict):
        raise wrong("stream_options", '{"include_usage": true}', options)
    included = (options or {}).get("include_usage")
    if included is not None and not isinstance(included, bool):
        raise wrong("stream_options.include_usage", "true or false", included)
    return bool(included)


def _messages(messages: Any) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """System text, user texts, user image URLs. There is no multi-turn chat: exactly one user message is accepted."""
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", "a list with one user message", messages)
    system: list[str] = []
    user: tuple[list[str], list[str]] | None = None
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer", "user"):
            raise wrong(f"{where}.role", "system or user (there is no multi-turn chat)", role)
        texts, urls = _parts(message.get("content"), f"{where}.content")
        if role == "user":
            if user is not None:
                raise wrong(where, "no second user message: one question a request")
            user = texts, urls
        elif urls:
            raise wrong(f"{where}.content", "text only in a system message")
        else:
            system += texts
    if user is None:
        raise wrong("messages", "one user message")
    if len(user[1]) > MOST_IMAGES:
        raise wrong("messages", f"at most {MOST_IMAGES} images", len(user[1]))
    return "\n".join(system), tuple(user[0]), tuple(user[1])


def _parts(content: Any, where: str) -> tuple[list[str], list[str]]:
    """Texts and image URLs of one message's content."""
    texts: list[str] = []
    urls: list[str] = []
    if isinstance(content, str):
        return [_without_surrogates(content)], urls
    if not isinstance(content, list):
        raise wrong(where, "a text or a list of parts", content)
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(_without_surrogates(part["text"]))
        elif kind == "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            if not isinstance(url, str):
                raise wrong(f"{where}[{i}].image_url", '{"url": "data:image/..."}')
            urls.append(url)
        else:
            raise wrong(f"{where}[{i}]", "a text or image_url part", kind)
    return texts, urls


def _without_surrogates(text: str) -> str:
    """Lone surrogates replaced: tokenizers reject them, and one would fail its whole batch."""
    return text.encode("utf-8", "replace").decode()
