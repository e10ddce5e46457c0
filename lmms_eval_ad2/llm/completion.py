"""Parsing of an endpoint's response: a chat completion, or the code and message of an error.

The response is untrusted: any field may have any type, be nested too deeply, be too large a number, or be text that
cannot be encoded as UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.core.printed import encodable
from lmms_eval_ad2.storage.untrusted_json import parse

# HTTP statuses and codes with which an endpoint refuses every request: wrong key, address or model, no credit.

# The key, the account or the address is wrong, not the request: every further request would fail as well.
FATAL_STATUS = (401, 402, 403, 404, 405)
FATAL_CODES = ("insufficient_quota", "billing_hard_limit_reached", "model_not_found")
_REMEDIES = {
    402: "The account has no credit left",
    403: "The key has no right to this model or endpoint",
    404: "Check the model's name, and that base_url ends as the server's does (often in /v1)",
    405: "Check base_url: the server at this address is no chat endpoint",
    429: "The account has no credit left",
}


def remedy(status: int, variable: str) -> str:
    """What the user should check, or "". `variable`: where the key comes from."""
    if status < 400:
        return "It points elsewhere, and requests with a key do not follow redirects: correct base_url"
    if status == 401:
        return f"Is the key in the environment right? ({variable})"
    return _REMEDIES.get(status, "")


LONGEST_BODY = 8 * 2**20  # bytes; far above the longest answer of any model
BROKEN_OFF = ("error", "abort", "network_error")  # finish reasons of gateways and servers that failed within a reply
# Finish reasons of a reply that the token limit ended: OpenAI's, and those that some gateways hand on unchanged.
AT_TOKEN_LIMIT = ("length", "max_tokens", "max_output_tokens", "model_length", "MAX_TOKENS")
# Finish reasons of a reply that a filter has withheld or cut: OpenAI's, Gemini's, Claude's, Bedrock's, Zhipu's.
WITHHELD = (
    "content_filter", "SAFETY", "IMAGE_SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "refusal",
    "content_filtered", "guardrail_intervened", "sensitive",
)  # fmt: skip
DETAIL = 300  # characters of a message or name that are kept
_MOST_TOKENS = 10**9  # of one reply; a larger count is an error of the endpoint


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A completion. Token counts are None if the endpoint does not report them. cached: no request was made for it."""

    text: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached: bool = field(default=False, compare=False)


class NoCompletion(Exception):
    """A body without a completion. `reason` is a short stable code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def read_completion(raw: bytes) -> ChatReply:
    """The ChatReply in a body with status 200. Raises NoCompletion if it contains none."""
    try:
        data = parse(raw, finite=False)  # NaN as a cost or log-probability does not concern the text
        choice = data["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as exc:
        start = raw[:DETAIL].decode("utf-8", "replace").strip()
        raise NoCompletion("invalid_reply", f"not a chat completion: {start!r}") from exc
    finish, model = _short_text(choice.get("finish_reason")), _short_text(data.get("model"))
    if finish in BROKEN_OFF:
        raise NoCompletion("broken_off", f"finish_reason {finish!r}")
    for error in (choice.get("error"), data.get("error")):
        if error:  # of a gateway, beside what was written before it
            raise NoCompletion("broken_off", error_text(error)[:DETAIL])
    if message.get("refusal"):
        return ChatReply(encodable(str(message["refusal"])), "content_filter", model, *_tokens(data))
    finish = "length" if finish in AT_TOKEN_LIMIT else "content_filter" if finish in WITHHELD else finish
    content = joined_parts(content)
    if content is not None and not isinstance(content, str):
        raise NoCompletion("invalid_reply", f"content is {type(content).__name__}, not text")
    if not (content or "").strip() and finish not in ("length", "content_filter"):
        raise NoCompletion("empty_reply", f"finish_reason {finish!r}")
    return ChatReply(encodable(content or ""), finish, model, *_tokens(data))


def joined_parts(content: Any) -> Any:
    """The text of a message's `content` if that is a list of parts, without thoughts and pictures; else `content`."""
    if not isinstance(content, list):
        return content
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    texts = [p.get("text") for p in parts if isinstance(p, dict) and p.get("type", "text") in ("text", "output_text")]
    return "".join(str(text) for text in texts if text)


def read_error(raw: bytes) -> tuple[str, str]:
    """Code and message of an error body of any structure; of an HTML page, its beginning."""
    text = raw.decode("utf-8", "replace")
    try:
        data = parse(text)
    except ValueError:
        return "", text.strip()[:DETAIL] or "(no body)"
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict):
        return str(error.get("code") or ""), str(error.get("message") or error.get("detail") or text)
    return "", str(error)


def error_text(error: Any) -> str:
    """The message of an error beside a completion, of any structure."""
    return encodable(str(error.get("message") or error if isinstance(error, dict) else error))


def _short_text(value: Any) -> str | None:
    return encodable(value[:DETAIL]) if isinstance(value, str) else None


def _tokens(data: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None, None
    return token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))


def token_count(value: Any) -> int | None:
    """A number of tokens as an endpoint reports it; None for anything that is no plausible number."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
