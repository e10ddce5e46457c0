"""BLEU, ROUGE-L and CIDEr over tokens (words joined by single spaces), numerically equal to pycocoevalcap."""

from __future__ import annotations

from collections.abc import Sequence

Corpus = tuple[float, Sequence[float]]  # value of the set, value of each pair
ROUGE_BETA = 1.2  # weight of recall in ROUGE-L, as in pycocoevalcap


def bleu(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> dict[str, Corpus]:
    """BLEU-1..4 (Papineni 2002): counts pooled over the set, closest reference length.

    No smoothing apart from pycocoevalcap's constant of 1e-15.
    """
    from pycocoevalcap.bleu.bleu import Bleu

    values, items = Bleu(4).compute_score(*_as_dicts(references, candidates), verbose=0)
    return {f"bleu_{n + 1}": (values[n], items[n]) for n in range(4)}


def cider(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> Corpus:
    """CIDEr-D (Vedantam 2015), 0..10: clipped counts, Gaussian length penalty with sigma 6.

    The document frequencies are those of `references`.
    """
    from pycocoevalcap.cider.cider import Cider

    value, items = Cider().compute_score(*_as_dicts(references, candidates))
    return value, items


def rouge_l(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> Corpus:
    """ROUGE-L (Lin 2004) with beta 1.2; the value of the set is the mean over the pairs.

    The formula is pycocoevalcap's. The longest common subsequence is computed by rapidfuzz, because pycocoevalcap's
    full table of Python ints takes gigabytes for two texts of 100 kB.
    """
    items = [_rouge_item(refs, candidate) for refs, candidate in zip(references, candidates, strict=True)]
    return sum(items) / len(items), items


def _rouge_item(references: Sequence[str], candidate: str) -> float:
    """F_beta = (1 + beta^2) P R / (R + beta^2 P), with P = max_r LCS / |candidate| and R = max_r LCS / |r| over the
    references r (LCS: length of the longest common subsequence, in words)."""
    from rapidfuzz.distance import LCSseq

    words = candidate.split(" ")  # as in pycocoevalcap, "" is one empty word: two empty texts score 1
    split = [reference.split(" ") for reference in references]
    common = [LCSseq.similarity(reference, words) for reference in split]
    precision = max(lcs / len(words) for lcs in common)
    recall = max(lcs / len(reference) for lcs, reference in zip(common, split, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision)


def _as_dicts(
    references: Sequence[Sequence[str]], candidates: Sequence[str]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    return {i: list(refs) for i, refs in enumerate(references)}, {i: [text] for i, text in enumerate(candidates)}
