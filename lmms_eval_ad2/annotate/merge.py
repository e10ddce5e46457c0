"""Majority merge of several reviews of one record. Without a majority the result is a reason code, never a guess.

Verdict of a text: that of more than half of the reviewers. Of several changed texts, the one most similar to the others
is taken (largest sum of similarities; ties go to the first reviewer). Boxes, correct letter, completeness and the order
of steps: the value that more than half share. Added steps and objects: kept if more than half added a similar one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from lmms_eval_ad2.annotate.record_review import PieceReview, RecordReview

ALIKE = 0.8  # similarity from which two added texts count as the same
T = TypeVar("T", bound=Hashable)


def similarity(a: str, b: str) -> float:
    """1 - (insertions + deletions) / (len(a) + len(b)), in 0..1."""
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(a, b))


def majority(reviews: Sequence[RecordReview]) -> RecordReview | str:
    """Return the merged review, or a code for the disagreement. A single review is returned unchanged."""
    if len(reviews) == 1:
        return reviews[0]
    first = reviews[0]
    complete = _majority_value(s.complete for s in reviews)
    if complete is None:
        return "disagree: complete"
    if not complete:
        return dataclasses.replace(first, complete=False)
    mark, letter = _majority_value(s.mark for s in reviews), _majority_value(s.letter for s in reviews)
    if mark is None or letter is None:
        return "disagree: boxes" if mark is None else "disagree: letter"
    whole = [s for s in reviews if s.complete]
    lines: list[PieceReview] = []
    for key in _order(whole):
        line = _merged([found for s in whole if (found := s.line(key)) is not None], len(whole))
        if isinstance(line, str):
            return line
        lines.append(line)
    lines += _added(whole)
    return dataclasses.replace(first, complete=True, mark=mark, letter=letter, lines=tuple(lines), open=())


def _majority_value(values: Iterable[T]) -> T | None:
    """The value held by more than half; None if there is none."""
    counts = Counter(values)
    value, n = counts.most_common(1)[0]
    return value if 2 * n > counts.total() else None


def _order(reviews: Sequence[RecordReview]) -> list[str]:
    """The keys of the original pieces, in the order of the majority, else of the first review."""
    orders = [tuple(line.base.key for line in s.lines if line.verdict != "add") for s in reviews]
    return list(_majority_value(orders) or orders[0])


def _merged(lines: Sequence[PieceReview], of: int) -> PieceReview | str:
    verdict = _majority_value(line.verdict or "keep" for line in lines)
    if verdict is None or 2 * len(lines) <= of:
        return "disagree: verdict"
    if verdict != "change":
        return next(line for line in lines if (line.verdict or "keep") == verdict)
    return _most_similar([line for line in lines if line.verdict == "change"])


def _most_similar(lines: Sequence[PieceReview]) -> PieceReview:
    texts = ["\n".join(line.now.words) for line in lines]
    return lines[max(range(len(lines)), key=lambda i: sum(similarity(texts[i], other) for other in texts))]


def _added(reviews: Sequence[RecordReview]) -> list[PieceReview]:
    """The additions shared by more than half: of each group of similar ones, the most similar member."""
    groups: list[list[tuple[int, PieceReview]]] = []
    for author, review in enumerate(reviews):
        for line in review.lines:
            if line.verdict != "add":
                continue
            alike = (
                g for g in groups
                if all(a != author for a, _ in g) and similarity(g[0][1].now.text, line.now.text) >= ALIKE
            )  # fmt: skip
            group = next(alike, None)
            if group is None:
                groups.append([(author, line)])
            else:
                group.append((author, line))
    return [_most_similar([line for _, line in g]) for g in groups if 2 * len(g) > len(reviews)]
