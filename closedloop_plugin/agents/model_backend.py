"""ModelBackend: the interface between the loop and any model, fast or slow; questions and replies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.image_encoding import ImageEncoding
from lmms_eval_ad2.llm.untrusted_text import DOT, SPECIAL_TOKEN, is_visible


@dataclass(frozen=True)
class ModelQuestion:
    """A prompt with images, which precede the text. `key`: unique within a call; NUMBER|NAME if NAME tells the
    decision from those of all other calls.

    Images are arrays, (H, W, 3) uint8 RGB, or data URLs in the `encoding` of the backend.
    """

    key: str
    text: str
    images: tuple[np.ndarray | str, ...] = ()


@dataclass(frozen=True)
class ModelReply:
    """Reply text, or error. `seconds`: wall time of the call, without the encoding of images."""

    text: str = ""
    error: str | None = None
    seconds: float = 0.0
    cut: bool = False  # truncated at the token limit


class ModelBackend(Protocol):
    """A model behind an endpoint or in this process."""

    name: str  # in tables
    # Optional:
    # concurrent: bool = False  # see agents.base.is_concurrent
    # encoding: ImageEncoding  # of images, which then may be data URLs; without one they are arrays

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """One ModelReply per question, in order. Raises Ad2Error only for errors of the user (no server, wrong key)."""
        ...

    def describe(self) -> dict[str, Any]: ...


def encoding_of(backend: ModelBackend) -> tuple[ImageEncoding | None, frozenset[ImageEncoding] | None]:
    """(the encoding of a backend's images, `encodings` of a system that asks it: see image_encodings)."""
    encoding = getattr(backend, "encoding", None)
    return encoding, None if encoding is None else frozenset([encoding])


# Escaping of model text inside another model's prompt. As for judges (llm/untrusted_text.py), and braces are escaped
# too: the slow system answers in JSON, and quoted text must not look like an answer.
_RUNS = re.compile(r"([<>])(?=\1)")
_BRACES = str.maketrans({"{": "(", "}": ")", "｛": "(", "｝": ")"})
LONGEST = 4000  # characters of one text that enter another prompt


def harmless(text: str) -> str:
    """`text` without invisible characters, fences, chat-template tokens and braces, cut at LONGEST. Idempotent."""
    text = "".join(c for c in text[:LONGEST].replace("\r\n", "\n").replace("\r", "\n") if is_visible(c))
    return SPECIAL_TOKEN.sub(DOT, _RUNS.sub(rf"\1{DOT}", text.translate(_BRACES))).strip()


def fenced(title: str, text: str) -> str:
    """Untrusted `text` between an opening and a closing line that it cannot contain."""
    return f"<<<{title.upper()}>>>\n{harmless(text) or '(nothing)'}\n<<<END {title.upper()}>>>"
