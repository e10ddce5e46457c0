"""What the fake endpoint says: a fixed text, a function, or one of a few rules."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from lmms_eval_ad2.testing import fake_mcq

Body = dict[str, Any]

_BLOCK = re.compile(r"<<<(?!END)[^\n]*>>>\n(.*?)\n<<<END[^\n]*>>>", re.DOTALL)


def text(reply: str | Callable[[Body], str], body: Body) -> str:
    """The content of the completion for `body`."""
    if callable(reply):
        return reply(body)
    return RULES[reply](body) if reply in RULES else reply


def asked(body: Body) -> str:
    """The text of the last user message; other content parts (images) are skipped."""
    for message in reversed(body.get("messages") or []):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "\n".join(p.get("text", "") for p in content or [] if p.get("type") == "text")
    return ""


def words(body: Body) -> int:
    """Words in all messages: stands in for a token count."""
    return sum(len(m["content"].split()) for m in body.get("messages") or [] if isinstance(m.get("content"), str))


def _quote(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}\nThat is all it says.\nRating: [[3]]"


def _echo_then_nothing(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}"


def _overlap(body: Body) -> str:
    """Share of distinct words that the last two fenced texts have in common, as a mark: a crude honest judge."""
    blocks = _BLOCK.findall(asked(body))
    if len(blocks) < 2:
        return "There are no two texts to compare."
    a, b = (set(re.findall(r"\w+", block.lower())) for block in blocks[-2:])
    share = len(a & b) / len(a | b) if a | b else 0.0
    return f"The texts share {share:.0%} of their words.\nRating: [[{1 + round(9 * share)}]]"


def _hash(body: Body) -> str:
    return f"Rating: [[{1 + hashlib.sha256(asked(body).encode()).digest()[0] % 10}]]"


RULES: dict[str, Callable[[Body], str]] = {
    "echo": _echo_then_nothing,
    "quote": _quote,
    "overlap": _overlap,
    "hash": _hash,
    "mcq": fake_mcq.reply,
    "mcq_lying": fake_mcq.lying,
}
