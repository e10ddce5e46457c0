"""Untrusted text on its way into a prompt: fenced, and unable to pose as a fence, a verdict or a chat turn.

Predictions are written by the model under test, and leaderboards have seen answers that talk to the judge; the texts of
a data set, and what one model wrote for another to read, are no safer. So each text stands between fences that carry a
nonce, and whatever could be taken for a fence, for a verdict `[[n]]` or for a token of a chat template is broken by a
visible dot. The nonce is derived from the content: the same item gives the same prompt, which the cache needs, while a
text cannot hold the nonce of the item that it is part of.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence

DOT = "·"  # stands where a sequence was broken; the system prompt tells the model so

# Double brackets of any width are the verdict's; runs of angle brackets are the fence's.
_RUNS = re.compile(r"([\[\]［］【】<>])(?=\1)")
# <|im_start|>, <｜User｜>, </s>, [INST], <start_of_turn>, <think>, <image> ...: special to one tokenizer or another.
_SPECIAL = re.compile(
    r"(?i)(?<=<)(?=[|｜])|(?<=[|｜])(?=>)"
    r"|(?<=<)(?=/?(?:s|bos|eos|pad|unk|think|image|video|img|start_of_turn|end_of_turn|system|user|assistant)>)"
    r"|(?<=\[)(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
_SUSPECT = re.compile(r"[\[\]［］【】<>|｜]")
# Two separate letters can still spell a bracket pair with a character between them that nobody sees.
_KEPT_CONTROLS = frozenset("\n\t")


def neutralise(text: str) -> str:
    """`text` without invisible characters, and with a dot inside every sequence that has a meaning to judge or parser.

    The result contains no `[[`, `]]`, `<<`, `>>` and no chat-template token; applied twice it gives the same.
    """
    if not text.replace("\n", "").replace("\t", "").isprintable():  # rare, and slow to look at one by one
        text = "".join(" " if c == "\r" else c for c in text.replace("\r\n", "\n") if _visible(c) or c == "\r")
    if not _SUSPECT.search(text):
        return text
    return _SPECIAL.sub(DOT, _RUNS.sub(rf"\1{DOT}", text))


def _visible(char: str) -> bool:
    return char in _KEPT_CONTROLS or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def nonce(kind: str, fields: Mapping[str, object]) -> str:
    """Twelve hex digits that depend on `kind` (a rubric, a role) and all of an item's content, and on nothing else."""
    text = json.dumps([kind, fields], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def fence(parts: Sequence[tuple[str, str]], mark: str) -> str:
    """`(title, untrusted text)` pairs, each between an opening and a closing fence that carry `mark`."""
    return "\n\n".join(
        f"<<<{title.upper()} {mark}>>>\n{neutralise(text).strip() or '(empty)'}\n<<<END {mark}>>>"
        for title, text in parts
    )
