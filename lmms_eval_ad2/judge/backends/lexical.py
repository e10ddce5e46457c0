"""The lexical judge, the offline default: word overlap of an answer with its reference. No model, no network.

Mark = 1 + 9 · F, with F the ROUGE-L F-measure (Lin 2004, beta = 1): the longest common subsequence of
tokens, as recall of the reference and precision of the answer. Tokens are lower-cased words and
numbers after NFKC; each Chinese or Japanese character is a token.

It measures wording, not truth: "turn left" and "turn right" get a high mark, a good paraphrase a low one.
Rubrics without a reference (SLPS, ORCS, DJSS) are Unscored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating, new_usage
from lmms_eval_ad2.judge.rubrics import RUBRICS
from lmms_eval_ad2.llm.settings import one_of

# Rubrics that compare an answer with a reference. The others rate the logic of a chain, which no similarity measures.
COMPARING = ("coda_general", "coda_suggestion", "coda_region", "ad2_sacs", "ad2_vqa")
NOT_JUDGEABLE = "not_judgeable_lexically"

_CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]|\d+(?:[.,]\d+)*|(?:(?![{_CJK}])[^\W\d_])+(?:'[^\W\d_]+)?")


class LexicalJudge:
    """ROUGE-L on a scale of 1..10."""

    label = "lexical"

    def __init__(self) -> None:
        self.usage = new_usage()

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """See Judge.rate. Raises Ad2Error only for an unknown rubric."""
        return [self._rate(item) for item in items]

    def _rate(self, item: JudgeItem) -> JudgeRating | Unscored:
        reason = unfit(item, NOT_JUDGEABLE)
        if reason:
            return Unscored(item.rubric, reason)
        reference = tokens(item.reference)
        if not reference:
            return Unscored(item.rubric, "no_reference", "the reference holds no word")
        f = rouge_l(tokens(item.answer), reference)
        return JudgeRating(item.id, 1 + 9 * f, f"ROUGE-L F {f:.4f}")

    def describe(self) -> dict[str, Any]:
        return {"backend": "lexical", "model": None, "mark": "1 + 9 * ROUGE-L F", "seed": None, "temperature": None}


def unfit(item: JudgeItem, not_judgeable: str) -> str | None:
    """Reason why a judge that compares two texts cannot rate `item`, or None. Raises Ad2Error for an unknown rubric."""
    if one_of(item.rubric, RUBRICS, "rubric") not in COMPARING:
        return not_judgeable
    return None if item.reference.strip() else "no_reference"


def tokens(text: str) -> list[str]:
    """Lower-cased words and numbers; CJK characters one by one."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).lower())


def rouge_l(answer: Sequence[str], reference: Sequence[str]) -> float:
    """ROUGE-L F-measure with beta 1, from 0 to 1; 0 if either text is empty.

    F = 2 P R / (P + R) with P = L / len(answer), R = L / len(reference), L the LCS length: F = 2 L / (sum of lengths).
    """
    common = lcs(answer, reference)
    return 2 * common / (len(answer) + len(reference)) if common else 0.0


def lcs(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö 2004).

    Bit i of `row` is 0 if the LCS of a[: i + 1] with the tokens of b read so far is longer than that of a[:i].
    """
    places: dict[str, int] = {}
    for i, token in enumerate(a):
        places[token] = places.get(token, 0) | 1 << i
    full = row = (1 << len(a)) - 1
    for token in b:
        match = row & places.get(token, 0)
        row = ((row + match) | (row - match)) & full
    return len(a) - row.bit_count()
