"""Which wrong options were chosen, against how often they were offered; and what a data set says of its distractors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lmms_eval_ad2.metrics.intervals import FRACTION, mean_interval
from lmms_eval_ad2.numbers import is_whole
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.circular import percent, span
from lmms_eval_ad2.scoring.sample_summary import SampleSummary

UNSAID = "unsaid"  # of records that do not say by whom or how they were made


def wrong(lines: Iterable[SampleSummary]) -> list[SampleSummary]:
    """Answers that chose a wrong option; what could not be read chose none."""
    return [x for x in lines if x.kind and x.kind != "correct" and x.score == 0]


def kind_table(lines: Sequence[SampleSummary]) -> dict[str, dict[str, Any]]:
    """By kind of distractor: how often chosen and how often offered, over the questions of which a letter was read.

    share: percent of the wrong answers (AutoDrive-QA Table 7). rate: percent of the options of this kind that were
    chosen: a kind that is offered more often is chosen more often, and only the rate takes that out.
    Intervals (95 %) leave out whole clusters.
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
        taken = int(line.kind == kind and line.score == 0)
        rates += [1.0] * taken + [0.0] * (offered - taken)
        clusters += [line.cluster] * offered
    return {
        "chosen": int(sum(shares)),
        "offered": len(rates),
        "share": percent(sum(shares) / len(shares)) if shares else None,
        "share_ci": span(mean_interval(shares, clusters=[x.cluster for x in errors], bounds=FRACTION)),
        "rate": percent(sum(rates) / len(rates)) if rates else None,
        "rate_ci": span(mean_interval(rates, clusters=clusters, bounds=FRACTION)),
    }


def made(records: Iterable[Record]) -> dict[str, Any]:
    """What the records of a task say of how they were made: for the task's `data` block; empty where none says it.

    distractors: all | naive | a category; maker: "rules" or a model. Of a mixture all names, joined by " + ", so that
    it is never shown as one of them. correctness: the evaluator's 1 to 5 (Table 8), its mean over the rated ones.
    """
    sets, makers, marks, count = Counter[str](), Counter[str](), list[int](), 0
    for record in records:
        count += 1
        sets[_said(record, "distractors")] += 1
        makers[_said(record, "maker")] += 1
        mark = record.meta.get("correctness")
        if is_whole(mark, 1, 5):
            marks.append(mark)
    if sets.keys() | makers.keys() <= {UNSAID}:
        return {}
    mean = round(sum(marks) / len(marks), 6) if marks else None
    return {
        "distractors": " + ".join(sorted(sets)),
        "maker": " + ".join(sorted(makers)),
        "correctness": {"mean": mean, "n": len(marks), "unrated": count - len(marks)},
    }


def _said(record: Record, key: str) -> str:
    value = record.meta.get(key)
    return value if isinstance(value, str) and value else UNSAID
