"""Replies of an endpoint that contain no answer although the request succeeded (HTTP 200).

The API wrappers of lmms-eval return the text of a completion and ignore why it ended: what a content filter has left of
a reply, or a server that broke off, would be scored as the model's answer. The text of such a reply is replaced by a
failure text (parsing/reasons.py), so that the item is unscored, by the rules of our own client (llm/completion.py).
A reply that ended at the token limit ("length") is the model's answer, however short.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from lmms_eval_ad2.llm.completion import BROKEN_OFF

NO_TEXT = "[GENERATION_FAILED] the model returned no text"
_BROKEN_OFF = "[GENERATION_FAILED] the endpoint broke off the reply"
_WITHHELD = "[SAFETY_BLOCKED] the endpoint withheld the reply"


def marked(reply: Any) -> Any:
    """`reply`, an object like openai's ChatCompletion, with a failure text in each choice without an answer.

    Other objects are returned unchanged.
    """
    for choice in getattr(reply, "choices", None) or ():
        message = getattr(choice, "message", None)
        if message is not None and (failure := _failure(choice, message)):
            message.content = failure
    return reply


def marked_answer(answer: Any, failure: str = NO_TEXT) -> Any:
    """`answer` (a text, or lmms-eval's dataclass with `text`) with a failure text if it is empty."""
    text = getattr(answer, "text", answer)
    if not isinstance(text, str) or text.strip():
        return answer
    return failure if isinstance(answer, str) else dataclasses.replace(answer, text=failure)


def _failure(choice: Any, message: Any) -> str | None:
    finish, content = getattr(choice, "finish_reason", None), getattr(message, "content", None)
    if finish == "content_filter" or getattr(message, "refusal", None):
        return _WITHHELD
    if finish in BROKEN_OFF:
        return _BROKEN_OFF
    if finish in ("length", "tool_calls", "function_call") or getattr(message, "tool_calls", None):
        return None
    return None if isinstance(content, str) and content.strip() else NO_TEXT
