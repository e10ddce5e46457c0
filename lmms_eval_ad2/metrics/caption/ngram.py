"""BLEU, ROUGE-L and CIDEr over tokens (strings of words joined by single spaces), with pycocoevalcap's numbers."""

from __future__ import annotations

from collections.abc import Sequence

Corpus = tuple[float, Sequence[float]]
ROUGE_BETA = 1.2  # recall weight of ROUGE-L, as in pycocoevalcap


def bleu(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> dict[str, Corpus]:
    """BLEU-1..4, pooled over the set, closest reference length, no smoothing beyond pycocoevalcap's 1e-15."""
    from pycocoevalcap.bleu.bleu import Bleu

    values, items = Bleu(4).compute_score(*_as_dicts(references, candidates), verbose=0)
    return {f"bleu_{n + 1}": (values[n], items[n]) for n in range(4)}


def cider(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> Corpus:
    """CIDEr-D (clipped, Gaussian length penalty, sigma 6), 0..10; document frequencies from these references."""
    from pycocoevalcap.cider.cider import Cider

    value, items = Cider().compute_score(*_as_dicts(references, candidates))
    return value, items


def rouge_l(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> Corpus:
    """ROUGE-L: best precision and best recall over the references, beta 1.2; value is the mean.

    The formula is pycocoevalcap's; the longest common subsequence comes from rapidfuzz, because pycocoevalcap's
    full table of Python ints takes gigabytes for two texts of 100 kB.
    """
    items = [_rouge_item(refs, candidate) for refs, candidate in zip(references, candidates, strict=True)]
    return sum(items) / len(items), items


def _rouge_item(references: Sequence[str], candidate: str) -> float:
    from rapidfuzz.distance import LCSseq

    words = candidate.split(" ")  # "" is one empty word, as there: two empty texts score 1
    cut = [reference.split(" ") for reference in references]
    common = [LCSseq.similarity(reference, words) for reference in cut]
    precision = max(lcs / len(words) for lcs in common)
    recall = max(lcs / len(reference) for lcs, reference in zip(common, cut, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision)


def _as_dicts(
    references: Sequence[Sequence[str]], candidates: Sequence[str]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    return {i: list(refs) for i, refs in enumerate(references)}, {i: [text] for i, text in enumerate(candidates)}
