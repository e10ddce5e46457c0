"""Biases that reveal the right option without the image: its length, its position, its words.

Pure functions of multiple-choice records (options and a right letter) with JSON-able results. The chance level is 1/k
for k options; ties count as fractions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scipy.stats import chisquare

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq.chance import ChanceComparison, against_chance
from lmms_eval_ad2.mcq.wording import normal

_LEAST_EXPECTED = 5  # expected count of each cell that a chi-square test needs
_PRIOR = 1.0  # pseudo-count of every feature, right at the rate of chance
Features = Callable[[str], Iterable[str]]


def texts_of(record: Record) -> list[str]:
    """The texts of the options, in order."""
    return [option.text.get("en") for option in record.options]


def right_place(record: Record) -> int:
    """Index of the right option, from 0."""
    return next(place for place, option in enumerate(record.options) if option.letter == record.letter)


def chosen_best(scores: Sequence[float], right: int) -> float:
    """Accuracy of choosing the highest score: 1 if only the right option has it, 1/m if it is one of m, else 0."""
    best = max(scores)
    winners = [place for place, score in enumerate(scores) if score >= best - 1e-12]
    return 1 / len(winners) if right in winners else 0.0


def compare_with_chance(records: Sequence[Record], hits: Sequence[float]) -> ChanceComparison | None:
    """Compare `hits` (one per record, 0 to 1) with guessing among the options of each record."""
    return against_chance(hits, [1 / len(r.options) for r in records], [r.cluster or r.id for r in records])


def length(records: Sequence[Record]) -> dict[str, Any]:
    """Length in characters of right and wrong options, and the accuracy of choosing the longest or the shortest.

    ratio: exp(mean of ln(l / m)) over the questions, l the right option's length, m the mean of the wrong ones'.
    rank: 0 if the right option is always the shortest, 1 if always the longest, 0.5 without bias.
    """
    if not records:
        return {"n": 0}
    rows = [([len(text) for text in texts_of(record)], right_place(record)) for record in records]
    right = [sizes[place] for sizes, place in rows]
    wrong = [(sum(sizes) - sizes[place]) / (len(sizes) - 1) for sizes, place in rows]
    longest = compare_with_chance(records, [chosen_best(sizes, place) for sizes, place in rows])
    ratios = [math.log(max(1, a) / max(1, b)) for a, b in zip(right, wrong, strict=True)]
    shortest = compare_with_chance(records, [chosen_best([-size for size in sizes], place) for sizes, place in rows])
    return {
        "n": len(records), "right_mean": _mean(right), "wrong_mean": _mean(wrong),
        "ratio": round(math.exp(_mean(ratios)), 4),
        "rank": _mean([_rank(sizes, place) for sizes, place in rows]),
        "choose_longest": longest.to_dict() if longest else None,
        "choose_shortest": shortest.to_dict() if shortest else None,
    }  # fmt: skip


def _rank(sizes: Sequence[int], place: int) -> float:
    """Share of the wrong options that are shorter than the right one; equal ones count half."""
    others = [size for at, size in enumerate(sizes) if at != place]
    return sum((sizes[place] > size) + (sizes[place] == size) / 2 for size in others) / len(others)


def position(records: Sequence[Record]) -> dict[str, Any]:
    """How often each letter is right, with a chi-square test for equal shares, and the commonest letter's accuracy."""
    if not records:
        return {"n": 0}
    most = max(len(record.options) for record in records)
    counts, expected = [0] * most, [0.0] * most
    for record in records:
        counts[right_place(record)] += 1
        for place in range(len(record.options)):
            expected[place] += 1 / len(record.options)
    enough = min(expected) >= _LEAST_EXPECTED
    test = chisquare(counts, expected) if enough else None
    return {
        "n": len(records), "counts": {chr(ord("A") + place): count for place, count in enumerate(counts)},
        "expected": [round(value, 3) for value in expected], "chi_square": float(test.statistic) if test else None,
        "p_value": float(test.pvalue) if test else None,
        "commonest_letter_accuracy": round(max(counts) / len(records), 6),
    }  # fmt: skip


def prior_hits(records: Sequence[Record], features: Features) -> list[float] | None:
    """Hits without image and question: choose the option whose features were right most often elsewhere.

    Leave-one-cluster-out: for each cluster the counts of all others are used; None if there is only one. The score of
    an option is the mean over its features of ln(right / expected by chance), see FeatureCounts.score.
    """
    total = FeatureCounts()
    own: defaultdict[str, FeatureCounts] = defaultdict(FeatureCounts)
    for record in records:
        for seen in (total, own[record.cluster or record.id]):
            seen.add(record, features)
    if len(own) < 2:
        return None
    return [
        chosen_best(
            [total.score(text, len(r.options), own[r.cluster or r.id], features) for text in texts_of(r)],
            right_place(r),
        )
        for r in records
    ]


def whole_text(text: str) -> Iterable[str]:
    """The whole option as one feature: finds texts that are mostly right, such as "No."."""
    return (normal(text),)


def single_words(text: str) -> Iterable[str]:
    """Words and length (log2 scale) of an option: finds, for example, that options with a reason are wrong."""
    words = normal(text).split()
    return {*words, f"#{len(words).bit_length()}"}


class FeatureCounts:
    """Per feature: how often it was in the right option, and how often chance predicts (sum of 1/k over options)."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.expected: defaultdict[str, float] = defaultdict(float)

    def add(self, record: Record, features: Features) -> None:
        place = right_place(record)
        for at, text in enumerate(texts_of(record)):
            for feature in features(text):
                self.right[feature] += at == place
                self.expected[feature] += 1 / len(record.options)

    def score(self, text: str, options: int, without: FeatureCounts, features: Features) -> float:
        """Mean over the features of ln((r + q/k) / (e + q/k)), with the counts r, e less those of `without`.

        q = _PRIOR, k = number of options; 0 without features.
        """
        logs = []
        for feature in features(text):
            right = self.right[feature] - without.right[feature]
            expected = self.expected[feature] - without.expected.get(feature, 0.0)
            logs.append(math.log((right + _PRIOR / options) / (max(0.0, expected) + _PRIOR / options)))
        return sum(logs) / len(logs) if logs else 0.0


def balance(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """How many questions by task, subtask, source and number of options; how many wrong options by category."""
    kinds = Counter(o.kind for record in records for o in record.options if o.letter != record.letter)
    return {
        "task": _counts(record.task for record in records),
        "subtask": _counts(f"{record.task}/{record.subtask}" for record in records),
        "source": _counts(str(record.meta.get("source", record.benchmark)) for record in records),
        "options": _counts(str(len(record.options)) for record in records),
        "distractors": dict(kinds.most_common()),
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)
