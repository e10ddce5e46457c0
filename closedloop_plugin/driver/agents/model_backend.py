"""ModelBackend: the interface between the loop and any model, fast or slow; questions and replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.image_encoding import ImageEncoding
from closedloop_plugin.core.state import EpisodeFault, ModelUsage
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
    """Reply text, or error. `seconds`: wall time of the call, without the encoding of images.

    `tokens_in`, `tokens_out`: of this question; None if the backend does not report them.
    """

    text: str = ""
    error: str | None = None
    seconds: float = 0.0
    cut: bool = False  # truncated at the token limit
    tokens_in: int | None = None
    tokens_out: int | None = None
    fault: EpisodeFault = EpisodeFault.DRIVER  # what is to blame for the error


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


class PromptHashes:
    """Usage of the questions of one call, whose images are hashed once each."""

    def __init__(self) -> None:
        self._images: dict[int, str] = {}  # by id; the questions keep the images alive

    def usage(self, questions: Sequence[ModelQuestion], replies: Sequence[ModelReply]) -> ModelUsage:
        """Usage of one decision's questions. A count is None if a reply lacks it."""
        return ModelUsage(
            self.prompt_sha256(questions),
            _total(reply.tokens_in for reply in replies),
            _total(reply.tokens_out for reply in replies),
        )

    def prompt_sha256(self, questions: Iterable[ModelQuestion]) -> str:
        """sha256 of the JSON [[text, [sha256 of each image]], ...] of the questions."""
        asked = [[q.text, [self._image(image) for image in q.images]] for q in questions]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

    def _image(self, image: np.ndarray | str) -> str:
        """sha256 of a data URL, or of the shape and the bytes of an array."""
        if (found := self._images.get(id(image))) is None:
            hashed = hashlib.sha256(image.encode() if isinstance(image, str) else repr(image.shape).encode())
            if not isinstance(image, str):
                hashed.update(np.ascontiguousarray(image).data)
            found = self._images[id(image)] = hashed.hexdigest()
        return found


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


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
