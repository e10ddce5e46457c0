"""A question to a model and what it said: the one interface between the loop and any model, fast or slow."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class ModelQuestion:
    """`key` is unique within a call and names episode, tick and task; `images` are (H, W, 3) uint8 RGB, shown first."""

    key: str
    text: str
    images: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class ModelReply:
    """The model's words, or `error`: why there are none. `seconds`: wall time of the call, encoding left out."""

    text: str = ""
    error: str | None = None
    seconds: float = 0.0
    cut: bool = False  # ended at the token limit


class ModelBackend(Protocol):
    """A model: behind an endpoint or in this process. Passed by every implementation: tests/contracts."""

    name: str  # as it stands in tables

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """One Said a question, in order. Raises Ad2Error only for what the user must mend (no server, wrong key)."""
        ...

    def describe(self) -> dict[str, Any]: ...


# A model's words inside another model's prompt. Judges have the same need (llm/shield.py), but here braces matter
# too: the slow system answers in JSON, so nothing quoted may look like an answer.
_RUNS = re.compile(r"([<>])(?=\1)")
_SPECIAL = re.compile(
    r"(?i)(?<=<)(?=[|｜])|(?<=[|｜])(?=>)"
    r"|(?<=<)(?=/?(?:s|bos|eos|pad|unk|think|image|video|img|start_of_turn|end_of_turn|system|user|assistant)>)"
    r"|(?<=\[)(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
_BRACES = str.maketrans({"{": "(", "}": ")", "｛": "(", "｝": ")"})
_DOT = "·"
LONGEST = 4000  # characters of one text that enter another prompt


def harmless(text: str) -> str:
    """`text` without invisible characters, fences, chat-template tokens and braces; cut at LONGEST. Idempotent."""
    text = "".join(c for c in text[:LONGEST].replace("\r\n", "\n").replace("\r", "\n") if _visible(c))
    return _SPECIAL.sub(_DOT, _RUNS.sub(rf"\1{_DOT}", text.translate(_BRACES))).strip()


def fenced(title: str, text: str) -> str:
    """Untrusted `text` between an opening and a closing line that it cannot contain."""
    return f"<<<{title.upper()}>>>\n{harmless(text) or '(nothing)'}\n<<<END {title.upper()}>>>"


def _visible(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")
