"""Replies of an endpoint that contain no answer although the request succeeded (HTTP 200).

The API wrappers of lmms-eval return the text of a completion and ignore why it ended: what a content filter has left of
a reply, or a server that broke off, would be scored as the model's answer. The text of such a reply is replaced by a
failure text (parsing/reasons.py), so that the item is unscored, by the rules of our own client (llm/completion.py).
A reply that ended at the token limit ("length") is the model's answer, however short: also one of which only a thought
was written, wherever the server puts the thought.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from lmms_eval_ad2.llm.completion import (
    AT_TOKEN_LIMIT,
    BROKEN_OFF,
    DETAIL,
    WITHHELD,
    NoCompletion,
    error_text,
    joined_parts,
    read_error,
    token_count,
)

NO_TEXT = "[GENERATION_FAILED] the model returned no text"
_BROKEN_OFF = "[GENERATION_FAILED] the endpoint broke off the reply"
_WITHHELD = "[SAFETY_BLOCKED] the endpoint withheld the reply"


def marked(reply: Any) -> Any:
    """`reply`, an object like openai's ChatCompletion, as the wrappers can use it.

    A choice without an answer has a failure text, parts of a content are joined, and token counts are numbers. Raises
    NoCompletion with the endpoint's message for a reply without choices, which the wrapper repeats as a failed
    request. Other objects are returned unchanged.
    """
    choices = None if isinstance(reply, str) else getattr(reply, "choices", ())
    if choices is None or (isinstance(choices, list) and not any(getattr(c, "message", None) for c in choices[:1])):
        raise NoCompletion("invalid_reply", f"no completion: {read_error(_body(reply))[1][:DETAIL]}")
    if choices and (error := getattr(reply, "error", None)):
        raise NoCompletion("broken_off", error_text(error)[:DETAIL])
    for choice in choices:
        message = getattr(choice, "message", None)
        if message is not None:
            message.content = _content(choice, message)
    _keep_token_counts(reply)
    return reply


def marked_answer(answer: Any, failure: str = NO_TEXT) -> Any:
    """`answer` (a text, or lmms-eval's dataclass with `text`) with a failure text if it is empty."""
    text = getattr(answer, "text", answer)
    if not isinstance(text, str) or text.strip():
        return answer
    return failure if isinstance(answer, str) else dataclasses.replace(answer, text=failure)


def _body(reply: Any) -> bytes:
    """The body of a reply that the client could not read as a completion: a text, or an object without choices."""
    if isinstance(reply, str) or not hasattr(reply, "model_dump_json"):
        return str(reply).encode("utf-8", "replace")
    return str(reply.model_dump_json(exclude_unset=True, warnings=False)).encode("utf-8", "replace")


def _content(choice: Any, message: Any) -> Any:
    """The text of a choice, or its failure text; None for a choice that calls tools."""
    finish, content = getattr(choice, "finish_reason", None), joined_parts(getattr(message, "content", None))
    if finish in WITHHELD or getattr(message, "refusal", None):
        return _WITHHELD
    if finish in BROKEN_OFF:
        return _BROKEN_OFF
    if error := getattr(choice, "error", None):  # of a gateway, beside what was written before it
        return f"{_BROKEN_OFF}: {error_text(error)[:DETAIL]}"
    if content is not None and not isinstance(content, str):
        return f"[GENERATION_FAILED] content is {type(content).__name__}, not text"
    if finish in AT_TOKEN_LIMIT:  # None: the limit ended a thought, which the server keeps apart
        return content or ""
    if finish in ("tool_calls", "function_call") or getattr(message, "tool_calls", None):
        return content
    return content if content and content.strip() else NO_TEXT


def _keep_token_counts(reply: Any) -> None:
    """Remove token counts that are no numbers, which the wrappers would add up."""
    usage = getattr(reply, "usage", None)
    for counts in (usage, getattr(usage, "completion_tokens_details", None)):
        for name in ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens"):
            if token_count(getattr(counts, name, 0)) is None:
                setattr(counts, name, None)
