"""What gives the right option away without the image: its length, its place, its words. Pure functions on records.

Every function takes multiple-choice records (options and a right letter) and gives JSON-able facts. Chance is what
guessing gives, 1/k of k options; ties count as fractions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scipy.stats import chisquare

from lmms_eval_ad2.mcq.chance import ChanceComparison, against_chance
from lmms_eval_ad2.mcq.wording import normal
from lmms_eval_ad2.records import Record

_LEAST_EXPECTED = 5  # a chi-square test wants as many in each cell
_PRIOR = 1.0  # imagined sightings of a feature that was never seen: at the rate of chance
Features = Callable[[str], Iterable[str]]


def texts_of(record: Record) -> list[str]:
    """The options' texts in their order."""
    return [option.text.get("en") for option in record.options]


def right_place(record: Record) -> int:
    """The right option's place, from 0."""
    return next(place for place, option in enumerate(record.options) if option.letter == record.letter)


def chosen_best(scores: Sequence[float], right: int) -> float:
    """What choosing the highest score is worth: 1 where the right option has it, a share where several have."""
    best = max(scores)
    winners = [place for place, score in enumerate(scores) if score >= best - 1e-12]
    return 1 / len(winners) if right in winners else 0.0


def guess(records: Sequence[Record], hits: Sequence[float]) -> ChanceComparison | None:
    """`hits` of the records against guessing among their options."""
    return against_chance(hits, [1 / len(r.options) for r in records], [r.cluster or r.id for r in records])


def length(records: Sequence[Record]) -> dict[str, Any]:
    """Characters of the right option against the wrong ones', and what choosing the longest or shortest would be worth.

    ratio: geometric mean over the questions of right / mean of the wrong ones. rank: 0 always the shortest, 1 always
    the longest, 0.5 without any bias.
    """
    if not records:
        return {"n": 0}
    rows = [([len(text) for text in texts_of(record)], right_place(record)) for record in records]
    right = [sizes[place] for sizes, place in rows]
    wrong = [(sum(sizes) - sizes[place]) / (len(sizes) - 1) for sizes, place in rows]
    longest = guess(records, [chosen_best(sizes, place) for sizes, place in rows])
    ratios = [math.log(max(1, a) / max(1, b)) for a, b in zip(right, wrong, strict=True)]
    shortest = guess(records, [chosen_best([-size for size in sizes], place) for sizes, place in rows])
    return {
        "n": len(records), "right_mean": _mean(right), "wrong_mean": _mean(wrong),
        "ratio": round(math.exp(_mean(ratios)), 4),
        "rank": _mean([_rank(sizes, place) for sizes, place in rows]),
        "choose_longest": longest.to_dict() if longest else None,
        "choose_shortest": shortest.to_dict() if shortest else None,
    }  # fmt: skip


def _rank(sizes: Sequence[int], place: int) -> float:
    others = [size for at, size in enumerate(sizes) if at != place]
    return sum((sizes[place] > size) + (sizes[place] == size) / 2 for size in others) / len(others)


def position(records: Sequence[Record]) -> dict[str, Any]:
    """How often each letter is right, against equally often; and what always choosing the commonest would be worth."""
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


def prior(records: Sequence[Record], features: Features) -> dict[str, Any] | None:
    """What a reader scores who never sees an image or the question, and knows how often each text was right elsewhere.

    For each cluster the counts of all the others are used; None where there is just one. An option's score is the mean
    over its features of how much more often than chance they were right.
    """
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.cluster or record.id].append(record)
    if len(groups) < 2:
        return None
    total, own = _FeatureCounts(), {name: _FeatureCounts() for name in groups}
    for name, members in groups.items():
        for record in members:
            for seen in (total, own[name]):
                seen.add(record, features)
    ordered = [record for members in groups.values() for record in members]
    hits = [
        chosen_best([total.score(text, len(r.options), own[name], features) for text in texts_of(r)], right_place(r))
        for name, members in groups.items()
        for r in members
    ]
    found = guess(ordered, hits)
    return found.to_dict() | {"clusters": len(groups)} if found else None


def whole_text(text: str) -> Iterable[str]:
    """An option as one feature: "No." is right more often than not."""
    return (normal(text),)


def single_words(text: str) -> Iterable[str]:
    """An option's words and its length in steps: "with a reason, so it is wrong"."""
    words = normal(text).split()
    return {*words, f"#{len(words).bit_length()}"}


class _FeatureCounts:
    """How often each feature stood in an option, and how often that was the right one."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.expected: defaultdict[str, float] = defaultdict(float)

    def add(self, record: Record, features: Features) -> None:
        place = right_place(record)
        for at, text in enumerate(texts_of(record)):
            for feature in features(text):
                self.right[feature] += at == place
                self.expected[feature] += 1 / len(record.options)

    def score(self, text: str, options: int, without: _FeatureCounts, features: Features) -> float:
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
