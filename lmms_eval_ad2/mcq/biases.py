"""Biases that reveal the right option without the image: its length, its position, its words.

Pure functions of multiple-choice records (options and a right letter) with JSON-able results. The chance level is 1/k
for k options; ties count as fractions. Attacks are rules that choose an option without the image, and hardly the
question: a set measures perception only as far as no attack answers it. Each attack scores the options of a question,
and the option with the highest score is chosen (m options that tie count 1/m). Yes-or-no questions are reported apart:
if the right option is the only one with its verdict, the verdicts alone reveal it.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scipy.stats import binomtest, chisquare, norm

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq.faults import is_polar
from lmms_eval_ad2.mcq.taxonomy import masked
from lmms_eval_ad2.mcq.wording import normal, read, verdict
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval, wilson

ALPHA = 0.01  # a bias is reported if p is below this and the interval excludes chance as well
FEW = 10  # clusters; with fewer, an interval over clusters is too wide to be useful


def against_chance(hits: Sequence[float], chances: Sequence[float], clusters: Sequence[str]) -> dict[str, Any] | None:
    """Compare the mean of `hits` with the mean of `chances`; JSON-able, None without questions.

    hits: 0 to 1 per question (1/2 if two options tie and one is right). chances: 1/k for k options.
    ci: 95 % interval over clusters, or Wilson's over questions if there are fewer than FEW clusters; "ci_of" is
    "clusters" or "questions". p_value: two-sided, treats the questions as independent; "test" is "binomial" (exact), or
    "normal" if ties count as fractions or numbers of options differ. above_chance: by the test and by the interval,
    which accounts for the dependence of questions on one image.
    """
    if not hits:
        return None
    n, accuracy, chance = len(hits), sum(hits) / len(hits), sum(chances) / len(chances)
    over = mean_interval(hits, clusters=clusters, bounds=FRACTION) if len(set(clusters)) >= FEW else None
    ci, ci_of = (over, "clusters") if over else (wilson(accuracy, n), "questions")
    if all(hit in (0, 1) for hit in hits) and len(set(chances)) == 1:
        test, p_value = "binomial", float(binomtest(round(sum(hits)), n, chance).pvalue)
    else:
        # z = (accuracy - chance) / sigma with sigma = sqrt(sum of c (1 - c)) / n over the questions' chances c.
        # Ties make the true variance smaller, so the p-value is conservative.
        sigma = math.sqrt(sum(c * (1 - c) for c in chances)) / n
        test, p_value = "normal", float(2 * norm.sf(abs(accuracy - chance) / sigma))
    return {
        "n": n, "accuracy": round(accuracy, 6), "chance": round(chance, 6),
        "ci": [round(ci.low, 6), round(ci.high, 6)], "ci_of": ci_of, "p_value": p_value, "test": test,
        "above_chance": p_value < ALPHA and ci.low > chance,
    }  # fmt: skip


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


def compare_with_chance(records: Sequence[Record], hits: Sequence[float]) -> dict[str, Any] | None:
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
        "choose_longest": longest, "choose_shortest": shortest,
    }  # fmt: skip


def _rank(sizes: Sequence[int], place: int) -> float:
    """Share of the wrong options that are shorter than the right one; equal ones count half."""
    others = [size for at, size in enumerate(sizes) if at != place]
    return sum((sizes[place] > size) + (sizes[place] == size) / 2 for size in others) / len(others)


def position(records: Sequence[Record]) -> dict[str, Any]:
    """Counts of the right letters, with a chi-square test for equal shares, and the commonest letter's accuracy."""
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


def prior_hits(records: Sequence[Record], features: Features, of_kind: bool = False) -> list[float] | None:
    """Hits without image and question: choose the option whose features were right most often elsewhere.

    Leave-one-cluster-out: for each cluster the counts of all others are used; None if there is only one. of_kind: for
    each question those of the other questions of its kind. The score of an option is the mean over its features of
    ln(right / expected by chance), see FeatureCounts.score.
    """
    keys = [(kind_of(r), r.id) if of_kind else ("", r.cluster or r.id) for r in records]
    totals: defaultdict[str, FeatureCounts] = defaultdict(FeatureCounts)
    own: defaultdict[str, FeatureCounts] = defaultdict(FeatureCounts)
    for record, (group, unit) in zip(records, keys, strict=True):
        totals[group].add(record, features)
        own[unit].add(record, features)
    if len(own) < 2 and not of_kind:
        return None
    hits = []
    for record, (group, unit) in zip(records, keys, strict=True):
        scores = [totals[group].score(text, len(record.options), own[unit], features) for text in texts_of(record)]
        hits.append(chosen_best(scores, right_place(record)))
    return hits


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
    """Numbers of questions by task, subtask, source and number of options, and of wrong options by category."""
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

    Values are those of `against_chance`, or None if the attack needs several scenes and there is one. alone: number of
    yes-or-no questions whose right option is the only one with its verdict.
    """
    polar = [is_polar(record.question.get("en"), texts_of(record)[right_place(record)]) for record in records]
    parts = {"all": [True] * len(records), "polar": polar, "others": [not one for one in polar]}
    found: dict[str, dict[str, Any]] = {}
    for name, hits in _hits(records).items():
        found[name] = dict.fromkeys(parts)
        if hits is None:
            continue
        for part, kept in parts.items():
            rows = [(record, hit) for record, hit, one in zip(records, hits, kept, strict=True) if one]
            found[name][part] = compare_with_chance([record for record, _ in rows], [hit for _, hit in rows])
    best = {}
    for part in parts:
        measured = {name: row[part]["accuracy"] for name, row in found.items() if row[part]}
        best[part] = max(measured, key=lambda name: measured[name]) if measured else None
    alone = [_alone(texts_of(r))[right_place(r)] for r, one in zip(records, polar, strict=True) if one]
    return {"by_attack": found, "best": best, "polar": {"n": len(alone), "alone": sum(alone)}}


def kind_of(record: Record) -> str:
    """The question without object tags and directions: equal for questions of one kind."""
    return _DIRECTION.sub("<d>", masked(record.question.get("en")))


def _hits(records: Sequence[Record]) -> dict[str, list[float] | None]:
    one_by_one: dict[str, Callable[[Record], Sequence[float]]] = {
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
    hits["usual_text"] = prior_hits(records, whole_text)
    hits["usual_words"] = prior_hits(records, single_words)
    hits["usual_text_of_kind"] = prior_hits(records, whole_text, of_kind=True)
    hits["usual_words_of_kind"] = prior_hits(records, single_words, of_kind=True)
    return hits


def similarities(texts: Sequence[str]) -> list[float]:
    """Mean overlap of each option with the others: 2 |A and B| / (|A| + |B|) over words with repetitions."""
    words = [_words(text) for text in texts]
    return [
        sum(_overlap(one, other) for j, other in enumerate(words) if j != i) / max(1, len(words) - 1)
        for i, one in enumerate(words)
    ]


def _odd(texts: Sequence[str], otherwise: Sequence[float]) -> Sequence[float]:
    alone = _alone(texts)
    return alone if sum(alone) == 1 else otherwise


def _alone(texts: Sequence[str]) -> list[bool]:
    """Return whether each option is the only one with its verdict; all False unless all options have one."""
    verdicts = [verdict(text) for text in texts]
    return [all(verdicts) and verdicts.count(one) == 1 for one in verdicts]


def _words(text: str) -> Counter[str]:
    return Counter(read(text).words)


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
