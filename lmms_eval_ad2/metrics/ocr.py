"""Text read from an image: character error rate and character F1 (AD2-Bench A.4, A.5 equations 8 to 10, A.7).

Both come from one Levenshtein alignment by jiwer, characters as units, spaces included, blanks at
the ends removed. Case, width and inner spaces count as written: the paper names no normalisation.
"""

from __future__ import annotations

import re
from typing import Any

from lmms_eval_ad2.errors import require

MAX_WORDS = 50  # A.4: a longer answer is wrong
MAX_CHARACTERS = 100  # A.7: only so many count

# Chinese, Japanese and Korean are written without spaces: each such character is a word, as word processors count.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_PUNCTUATION = r"\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}{_CJK_PUNCTUATION}]+")


def word_count(text: str) -> int:
    """Words separated by blanks; each Chinese, Japanese or Korean character is one word."""
    return sum(1 for _ in _WORD.finditer(text))


def cer(predicted: str, reference: str) -> float:
    """(S + D + I) / N with N characters in `reference`. 0 is perfect; passes 1 where much is inserted.

    Raises ValueError on an empty reference: the rate has no denominator.
    """
    return float(_align(predicted, reference).cer)


def char_f1(predicted: str, reference: str) -> float:
    """Harmonic mean of P = H/M and R = H/N, in [0, 1], which is 2H / (M + N).

    H is the number of hits in the alignment that also gives the CER (jiwer's `hits`), so both
    numbers tell of the same reading and letters in the wrong place do not count, as they would
    in a bag of characters. Where several alignments are equally short, jiwer's choice holds.
    Raises ValueError on an empty reference.
    """
    out = _align(predicted, reference)
    n = out.hits + out.substitutions + out.deletions
    m = out.hits + out.substitutions + out.insertions
    return 2.0 * out.hits / (m + n)


def score_ocr(predicted: str, reference: str) -> dict[str, float]:
    """`ocr_f1` and `ocr_cer` under the paper's two rules on length.

    Only the first 100 characters of the answer count (A.7). An answer of more than 50 words is
    wrong (A.4): its F1 is 0, and its CER is that of its first 100 characters but at least 1, the
    rate of an answer without a single right character; otherwise rambling would lower the error.
    """
    kept = predicted.strip()[:MAX_CHARACTERS]
    error = cer(kept, reference)
    if word_count(predicted) > MAX_WORDS:
        return {"ocr_f1": 0.0, "ocr_cer": max(1.0, error)}
    return {"ocr_f1": char_f1(kept, reference), "ocr_cer": error}


def _align(predicted: str, reference: str) -> Any:
    if not reference.strip():
        raise ValueError("the OCR reference is empty: an error rate has no denominator")
    return require("jiwer", "for OCR scores").process_characters(reference, predicted)
