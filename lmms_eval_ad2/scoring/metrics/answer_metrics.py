"""Metrics of one answer: points, boxes, exact matches (AD2-Bench A.5, equations 5 to 7), text in the image (OCR).

Coordinates are pixels of the stored image. The character error rate and the character F1 (A.4, A.5 equations 8 to 10,
A.7) follow from one Levenshtein alignment by jiwer over characters, spaces included, white space at the ends removed.
Case, character width and inner spaces are compared as written: the paper names no normalisation.

Symbols: H hits, S substitutions, D deletions, I insertions; lengths N = H + S + D (reference), M = H + S + I (answer).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from lmms_eval_ad2.core.errors import require

Box = Sequence[float]
MAX_WORDS = 50  # A.4: a longer answer is wrong
MAX_CHARACTERS = 100  # A.7: the rest of an answer is ignored

# Each Chinese, Japanese or Korean character counts as one word, as in word processors.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_PUNCTUATION = r"\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}{_CJK_PUNCTUATION}]+")


def location_score(p: Sequence[float], q: Sequence[float], alpha: float = 0.005) -> float:
    """Location score of two points (x, y) in pixels, in (0, 1]: 1 for equal points, 0.5 at 200 px (paper's alpha).

    Symmetric in `p` and `q`. `alpha` is in 1/px.
    """
    if len(p) != 2 or len(q) != 2:
        raise ValueError(f"two points (x, y) are expected, not {len(p)} and {len(q)} numbers")
    return 1.0 / (1.0 + alpha * math.dist(p, q))  # equation 6: 1 / (1 + alpha * ||p - q||)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes (x_min, y_min, x_max, y_max) in pixels, in [0, 1].

    A box with its corners in the wrong order has area 0. Two boxes of area 0 score 0, even if they coincide.
    """
    if len(a) != 4 or len(b) != 4:
        raise ValueError(f"two boxes of four numbers are expected, not {len(a)} and {len(b)} numbers")
    # Equation 7: |A n B| / |A u B|, with |A u B| = |A| + |B| - |A n B|; width and height of A n B are negative if the
    # boxes are disjoint.
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    intersection = max(0.0, width) * max(0.0, height)
    union = _area(a) + _area(b) - intersection
    return intersection / union if union > 0 and math.isfinite(union) else 0.0


def accuracy(predicted: str, target: str) -> float:
    """1.0 if the two canonical values (a letter, "yes"/"no", a number as text) are equal, else 0.0.

    Case and surrounding white space are ignored. Equation 5 is its mean; so is AutoDrive-QA's accuracy.
    """
    return float(predicted.strip().casefold() == target.strip().casefold())


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def word_count(text: str) -> int:
    """Number of words separated by white space; each Chinese, Japanese or Korean character is one word."""
    return sum(1 for _ in _WORD.finditer(text))


def cer(predicted: str, reference: str) -> float:
    """Character error rate (S + D + I) / N. 0 is perfect; insertions can take it above 1.

    Raises ValueError for an empty reference: N is 0.
    """
    return float(_align(predicted, reference).cer)


def char_f1(predicted: str, reference: str) -> float:
    """Harmonic mean of precision P = H/M and recall R = H/N, in [0, 1].

    H comes from the alignment that also gives the CER, so characters in the wrong place do not count (in a bag of
    characters they would). Of several minimal alignments, jiwer's choice is used. Raises ValueError for an empty
    reference.
    """
    out = _align(predicted, reference)
    n = out.hits + out.substitutions + out.deletions
    m = out.hits + out.substitutions + out.insertions
    return 2.0 * out.hits / (m + n)  # 2PR / (P + R) with P = H/M, R = H/N


def score_ocr(predicted: str, reference: str) -> dict[str, float]:
    """`ocr_f1` and `ocr_cer` with the paper's two limits on length.

    Only the first 100 characters of the answer are compared (A.7). An answer of more than 50 words is wrong (A.4): its
    F1 is 0, and its CER is that of its first 100 characters but at least 1, the rate of an answer without a correct
    character; otherwise a long answer could lower the error.
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
