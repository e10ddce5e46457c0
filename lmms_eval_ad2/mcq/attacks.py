"""Attacks: rules that choose an option without the image, and hardly the question; their accuracy should be chance.

A set measures perception only as far as no attack answers it. Each attack scores the options of a question, and the
option with the highest score is chosen (m options that tie count 1/m). Yes-or-no questions are reported apart: if the
right option is the only one with its verdict, the verdicts alone reveal it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq import biases
from lmms_eval_ad2.mcq.biases import FeatureCounts, chosen_best, compare_with_chance, right_place, texts_of
from lmms_eval_ad2.mcq.faults import is_polar
from lmms_eval_ad2.mcq.taxonomy import masked
from lmms_eval_ad2.mcq.wording import read, verdict

Scores = Sequence[float]
# name -> what is chosen. The names are stored in reports and must not change.
ATTACKS: dict[str, str] = {
    "longest": "the longest option",
    "shortest": "the shortest option",
    "odd_one_out": "the only option with its verdict, else the least similar to the others",
    "medoid": "the most similar to the others",
    "odd_verdict_or_medoid": "the only option with its verdict, else the most similar to the others",
    "like_question": "the most similar to the question",
    "usual_text": "the text that is right most often in other scenes",
    "usual_words": "the words and length that are right most often in other scenes",
    "usual_text_of_kind": "the text that is right most often among the other questions of the kind",
    "usual_words_of_kind": "the words and length that are right most often among the other questions of the kind",
}
_DIRECTION = re.compile(r"\b(?:front|back)[ -](?:left|right)\b|\b(?:front|back|left|right)\b")


def attacks(records: Sequence[Record]) -> dict[str, Any]:
    """Accuracy of every attack over all, over the yes-or-no and over the other questions, and the best attack.

    {"by_attack": {name: {"all", "polar", "others"}}, "best": {"all": name, "others": name},
     "polar": {"n", "alone"}}

    Values are ChanceComparison.to_dict(), or None if the attack needs several scenes and there is one. alone: number of
    yes-or-no questions whose right option is the only one with its verdict.
    """
    polar = [polar_question(record) for record in records]
    found: dict[str, dict[str, Any]] = {}
    for name, hits in _hits(records).items():
        parts = {"all": [True] * len(records), "polar": polar, "others": [not one for one in polar]}
        found[name] = {part: _compared(records, hits, chosen) for part, chosen in parts.items()}
    return {
        "by_attack": found, "best": {part: _best(found, part) for part in ("all", "polar", "others")},
        "polar": {"n": sum(polar), "alone": sum(
            _alone(texts_of(r))[right_place(r)] for r, one in zip(records, polar, strict=True) if one
        )},
    }  # fmt: skip


def polar_question(record: Record) -> bool:
    """Whether the question asks for yes or no, and its right option begins with one of them."""
    return is_polar(record.question.get("en"), texts_of(record)[right_place(record)])


def kind_of(record: Record) -> str:
    """The question without object tags and directions: equal for questions of one kind."""
    return _DIRECTION.sub("<d>", masked(record.question.get("en")))


def _compared(records: Sequence[Record], hits: Sequence[float] | None, chosen: Sequence[bool]) -> dict[str, Any] | None:
    if hits is None:
        return None
    rows = [(record, hit) for record, hit, one in zip(records, hits, chosen, strict=True) if one]
    compared = compare_with_chance([record for record, _ in rows], [hit for _, hit in rows])
    return compared.to_dict() if compared else None


def _best(found: Mapping[str, Mapping[str, Any]], part: str) -> str | None:
    measured = {name: row[part]["accuracy"] for name, row in found.items() if row[part]}
    return max(measured, key=lambda name: measured[name]) if measured else None


def _hits(records: Sequence[Record]) -> dict[str, list[float] | None]:
    one_by_one: dict[str, Callable[[Record], Scores]] = {
        "longest": lambda r: [len(text) for text in texts_of(r)],
        "shortest": lambda r: [-len(text) for text in texts_of(r)],
        "odd_one_out": lambda r: _odd(texts_of(r), [-s for s in similarities(texts_of(r))]),
        "medoid": lambda r: similarities(texts_of(r)),
        "odd_verdict_or_medoid": lambda r: _odd(texts_of(r), similarities(texts_of(r))),
        "like_question": lambda r: [_overlap(_words(text), _words(r.question.get("en"))) for text in texts_of(r)],
    }
    hits: dict[str, list[float] | None] = {
        name: [chosen_best(score(r), right_place(r)) for r in records] for name, score in one_by_one.items()
    }
    hits["usual_text"] = biases.prior_hits(records, biases.whole_text)
    hits["usual_words"] = biases.prior_hits(records, biases.single_words)
    hits["usual_text_of_kind"] = _usual_of_kind(records, biases.whole_text)
    hits["usual_words_of_kind"] = _usual_of_kind(records, biases.single_words)
    return hits


def similarities(texts: Sequence[str]) -> list[float]:
    """Mean overlap of each option with the others: 2 |A and B| / (|A| + |B|) over words with repetitions."""
    words = [_words(text) for text in texts]
    return [
        sum(_overlap(one, other) for j, other in enumerate(words) if j != i) / max(1, len(words) - 1)
        for i, one in enumerate(words)
    ]


def _odd(texts: Sequence[str], otherwise: Scores) -> Scores:
    alone = _alone(texts)
    return alone if sum(alone) == 1 else otherwise


def _alone(texts: Sequence[str]) -> list[bool]:
    """Whether each option is the only one with its verdict; all False unless all options have one."""
    verdicts = [verdict(text) for text in texts]
    return [all(verdicts) and verdicts.count(one) == 1 for one in verdicts]


def _words(text: str) -> Counter[str]:
    return Counter(read(text).words)


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def _usual_of_kind(records: Sequence[Record], features: Callable[[str], Iterable[str]]) -> list[float]:
    """Leave one question out: the counts of all others of its kind are used."""
    groups: defaultdict[str, FeatureCounts] = defaultdict(FeatureCounts)
    own = []
    for record in records:
        alone = FeatureCounts()
        for seen in (groups[kind_of(record)], alone):
            seen.add(record, features)
        own.append(alone)
    return [
        chosen_best(
            [groups[kind_of(r)].score(text, len(r.options), mine, features) for text in texts_of(r)], right_place(r)
        )
        for r, mine in zip(records, own, strict=True)
    ]
