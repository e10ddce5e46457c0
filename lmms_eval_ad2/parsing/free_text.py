"""Parse free text: OCR and open questions. The text is the answer, apart from fences, labels and quotes."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.normalise import is_refused_reply
from lmms_eval_ad2.records import Answer, Unparsed

_FENCED = re.compile(r"\A```[A-Za-z]{0,12}\n?(?P<body>[^`]*)```\Z")
_LABEL = re.compile(r"\A(?:final answer|answer|答案|回答|识别结果)\s*[:：]\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "`": "`"}


def read_vqa(text: str) -> Answer | Unparsed:
    """The reply unchanged. A short reply that only declines is Unparsed "refusal"."""
    return Unparsed("vqa", "refusal", text[:200]) if is_refused_reply(text) else Answer("vqa", text)


def read_ocr(text: str) -> Answer | Unparsed:
    """The reply without a code fence, a leading "Answer:" and one pair of quotes around all of it."""
    if is_refused_reply(text):
        return Unparsed("ocr", "refusal", text[:200])
    fenced = _FENCED.match(text)
    bare = fenced.group("body").strip() if fenced else text
    bare = _LABEL.sub("", bare).strip()
    closing = _QUOTES.get(bare[:1])
    if closing and len(bare) >= 2 and bare.endswith(closing) and not {bare[0], closing} & set(bare[1:-1]):
        bare = bare[1:-1].strip()
    return Answer("ocr", bare) if bare else Unparsed("ocr", "empty")
