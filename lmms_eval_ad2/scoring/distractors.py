"""Choices of wrong options by kind of distractor, and the provenance of a data set's distractors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval
from lmms_eval_ad2.scoring.question_scores import percent, span
from lmms_eval_ad2.scoring.sample_summary import SampleSummary

NOT_STATED = "unsaid"  # for records without provenance


def wrong(lines: Iterable[SampleSummary]) -> list[SampleSummary]:
    """The answers that chose a wrong option; unparsed answers chose none."""
    return [x for x in lines if x.kind and x.kind != "correct" and x.score == 0]


def kind_table(lines: Sequence[SampleSummary]) -> dict[str, dict[str, Any]]:
    """Return by kind of distractor how often it was chosen and offered, over the questions with a parsed letter.

    share = 100 * chosen / wrong answers (AutoDrive-QA Table 7). rate = 100 * chosen / offered: unlike the share, it is
    independent of how often the kind is offered. 95 % intervals: jackknife over clusters.
    """
    read = [x for x in lines if x.kind]
    errors = wrong(read)
    kinds = sorted({kind for x in read for kind in x.offered} | {str(x.kind) for x in errors})
    return {kind: _kind(kind, read, errors) for kind in kinds}


def _kind(kind: str, read: Sequence[SampleSummary], errors: Sequence[SampleSummary]) -> dict[str, Any]:
    shares = [float(x.kind == kind) for x in errors]
    rates, clusters = [], []
    for line in read:
        offered = line.offered.count(kind)
        chosen = int(line.kind == kind and line.score == 0)
        rates += [1.0] * chosen + [0.0] * (offered - chosen)
        clusters += [line.cluster] * offered
    return {
        "chosen": int(sum(shares)),
        "offered": len(rates),
        "share": percent(sum(shares) / len(shares)) if shares else None,
        "share_ci": span(mean_interval(shares, clusters=[x.cluster for x in errors], bounds=FRACTION)),
        "rate": percent(sum(rates) / len(rates)) if rates else None,
        "rate_ci": span(mean_interval(rates, clusters=clusters, bounds=FRACTION)),
    }


def provenance(records: Iterable[Record]) -> dict[str, Any]:
    """Provenance of the records of a task, for its `data` block; empty if no record states it.

    distractors: all | naive | a category; maker: "rules" or a model. A mixture lists all names, joined by " + ".
    correctness: the evaluator's rating, 1 to 5 (Table 8), as the mean over the rated questions.
    """
    sets, makers, ratings, count = Counter[str](), Counter[str](), list[int](), 0
    for record in records:
        count += 1
        sets[_stated(record, "distractors")] += 1
        makers[_stated(record, "maker")] += 1
        rating = record.meta.get("correctness")
        if is_whole(rating, 1, 5):
            ratings.append(rating)
    if sets.keys() | makers.keys() <= {NOT_STATED}:
        return {}
    mean = round(sum(ratings) / len(ratings), 6) if ratings else None
    return {
        "distractors": " + ".join(sorted(sets)),
        "maker": " + ".join(sorted(makers)),
        "correctness": {"mean": mean, "n": len(ratings), "unrated": count - len(ratings)},
    }


def _stated(record: Record, key: str) -> str:
    value = record.meta.get(key)
    return value if isinstance(value, str) and value else NOT_STATED
