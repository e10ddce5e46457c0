"""Validates requests: the body of POST /v1/chat/completions, and the JSON object and images in it. Errors are OpenAI's.

Content that a model would not see is refused, not dropped. Fields used: model, messages, max_tokens
(max_completion_tokens), temperature, n, stream, stream_options. All others are ignored, as OpenAI-compatible servers
do.
"""

from __future__ import annotations

import base64
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, Discriminator, Field, ValidationError, field_validator

from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb
from lmms_eval_ad2.storage.untrusted_json import parse

MOST_IMAGES = 64
MOST_TOKENS = 65_536
MOST_VALUES = 100_000  # in a body; bounds the memory of the parsed request
# Limit for all images of one request together: six of 2560 x 1440 are 22 million. A few KB of PNG can hold billions.
MOST_PIXELS = 40_000_000
_IMAGE_HEAD = re.compile(r"(?i)data:image/(?:jpeg|jpg|png|webp);base64")
_IMAGE_FORMATS = ("JPEG", "PNG", "WEBP")
_SHORT = reprlib.Repr()  # bounded in depth and length: the values shown come from clients
_SHORT.maxstring = _SHORT.maxother = 80
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
# What a field must be, for the message. "[]": an entry of a list.
_EXPECTED = {
    "max_tokens": f"a whole number from 1 to {MOST_TOKENS}",
    "max_completion_tokens": f"a whole number from 1 to {MOST_TOKENS}",
    "temperature": "a number from 0 to 2",
    "model": "a name; GET /v1/models lists them",
    "n": "1: one answer a request",
    "stream": "true or false",
    "stream_options": '{"include_usage": true}',
    "stream_options.include_usage": "true or false",
    "messages": "a list with one user message",
    "messages[]": "an object with role and content",
    "messages[].role": "system or user (there is no multi-turn chat)",
    "messages[].content": "a text or a list of parts",
    "messages[].content[]": "a text or image_url part",
    "messages[].content[].image_url": '{"url": "data:image/..."}',
    "messages[].content[].image_url.url": "a text: data:image/...",
}
Fields = TypeVar("Fields", bound=BaseModel)


class ApiError(Exception):
    """A request that is refused or failed.

    `param`: the invalid field of the request; `code`: a short stable name; `retry_s`: seconds for Retry-After.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_s = status, message, param, code, retry_s

    @property
    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_s)} if self.retry_s else {}


def wrong(param: str, expected: str, found: Any = None) -> ApiError:
    """HTTP 400 for an invalid field; the found value is shortened."""
    shown = "" if found is None else f", found {_SHORT.repr(found)}"
    return ApiError(400, f"{param}: expected {expected}{shown}", param=param, code="invalid_value")


def parsed(raw: bytes | bytearray | str, what: str, kind: type[Fields], expected: Mapping[str, str]) -> Fields:
    """Parse and validate a JSON object. ApiError names the invalid field; `what` names the object in the message."""
    try:
        # A number that is not finite is refused later, with the name of its field.
        data = parse(raw, finite=False, most_values=MOST_VALUES)
    except ValueError as exc:
        raise ApiError(400, f"{what}: not JSON: {str(exc)[:200]}", code="invalid_json") from None
    if not isinstance(data, dict):
        raise ApiError(400, f"{what}: expected a JSON object", code="invalid_json")
    try:
        return kind.model_validate(data)
    except ValidationError as exc:
        fault = exc.errors(include_url=False, include_context=False)[0]
    path, before = "", None
    for name in fault["loc"]:
        if not (isinstance(before, int) and name in ("text", "image_url")):  # the type of a part follows its index
            path += f"[{name}]" if isinstance(name, int) else f".{name}"
        before = name
    path = path.removeprefix(".")
    words = expected.get(re.sub(r"\[\d+\]", "[]", path)) or fault["msg"].removeprefix("Input should be ")
    raise wrong(path, words, None if fault["type"] == "missing" else fault["input"])


class CompletionSettings(NamedTuple):
    """Generation settings of one request; None: the model's default."""

    max_tokens: int | None = None
    temperature: float | None = None


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class ImageUrl(BaseModel):
    url: str


class ImagePart(BaseModel):
    type: Literal["image_url"]
    image_url: ImageUrl

    @field_validator("image_url", mode="before")
    @classmethod
    def _url_alone(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user"]
    content: list[Annotated[TextPart | ImagePart, Discriminator("type")]]

    @field_validator("content", mode="before")
    @classmethod
    def _text_alone(cls, value: Any) -> Any:
        return [{"type": "text", "text": value}] if isinstance(value, str) else value

    @property
    def texts(self) -> list[str]:
        # Lone surrogates are replaced: tokenizers reject them, and one would fail its whole batch.
        return [part.text.encode("utf-8", "replace").decode() for part in self.content if isinstance(part, TextPart)]

    @property
    def urls(self) -> list[str]:
        return [part.image_url.url for part in self.content if isinstance(part, ImagePart)]


class StreamOptions(BaseModel):
    include_usage: bool | None = Field(None, strict=True)


class ChatCompletionRequest(BaseModel):
    """One request. Made by read_chat, which checks that there is exactly one user message."""

    model: str = Field(min_length=1)
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, strict=True, ge=1, le=MOST_TOKENS)
    max_tokens: int | None = Field(None, strict=True, ge=1, le=MOST_TOKENS)
    temperature: float | None = Field(None, strict=True, allow_inf_nan=False, ge=0.0, le=2.0)
    n: Literal[1] | None = None
    stream: bool | None = Field(None, strict=True)
    stream_options: StreamOptions | None = None

    @property
    def user(self) -> ChatMessage:
        return next(message for message in self.messages if message.role == "user")

    @property
    def system(self) -> str:
        return "\n".join(text for message in self.messages if message.role != "user" for text in message.texts)

    @property
    def settings(self) -> CompletionSettings:
        return CompletionSettings(self.max_completion_tokens or self.max_tokens, self.temperature)


def read_chat(raw: bytes | bytearray) -> ChatCompletionRequest:
    """Parse a request body. ApiError names the invalid field. There is no multi-turn chat: one user message."""
    chat = parsed(raw, "the body", ChatCompletionRequest, _EXPECTED)
    users = [i for i, message in enumerate(chat.messages) if message.role == "user"]
    if not users:
        raise wrong("messages", "one user message")
    if len(users) > 1:
        raise wrong(f"messages[{users[1]}]", "no second user message: one question a request")
    for i, message in enumerate(chat.messages):
        if message.role != "user" and message.urls:
            raise wrong(f"messages[{i}].content", "text only in a system message")
    if len(chat.user.urls) > MOST_IMAGES:
        raise wrong("messages", f"at most {MOST_IMAGES} images", len(chat.user.urls))
    return chat


def pictures(urls: Sequence[str], names: Sequence[str]) -> list[np.ndarray]:
    """Decode each image to (H, W, 3) uint8 RGB: data URLs only (nothing is fetched). ApiError names the invalid one."""
    left, decoded = MOST_PIXELS, []
    for url, name in zip(urls, names, strict=True):
        try:
            image = _picture(url, left)
        except ValueError as exc:
            raise ApiError(400, f"{name}: {exc}", param="messages", code="invalid_image") from None
        left -= image.shape[0] * image.shape[1]
        decoded.append(image)
    return decoded


def _picture(url: str, most: int) -> np.ndarray:
    """ValueError if it is no image, or, before it is decoded, if it has more than `most` pixels."""
    head, _, data = url.partition(",")
    if not _IMAGE_HEAD.fullmatch(head):
        raise ValueError(f"expected data:image/jpeg;base64,... (or png, webp), found {head[:40]!r}; nothing is fetched")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError as exc:  # also for characters outside ASCII
        raise ValueError(f"not base64: {exc}") from None
    try:
        with open_image(content, formats=_IMAGE_FORMATS) as image:
            if image.width * image.height > most:
                raise ValueError(f"more than {MOST_PIXELS:,} pixels in one request ({image.width}x{image.height})")
            return np.asarray(shown_rgb(image))
    except OSError as exc:
        raise ValueError(f"not a complete image: {str(exc)[:120]}") from None
