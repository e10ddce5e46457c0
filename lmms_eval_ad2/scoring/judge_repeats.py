"""Spread of repeated judgements (`--judge-repeats N`): the figures of each repetition, and their standard deviation.

A sample's mark in a column is the mean over the repetitions that could be read. Here every repetition is a judgement of
its own of the whole task: its figure is the mean over the samples that it could read, and over the score's columns.
Answers that no judge sees (unparsed, or of other forms) have the same value in all repetitions.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.scoring.judge_ratings import mean_of_known
from lmms_eval_ad2.scoring.sample_summary import SampleSummary

_DIGITS = 6  # as of the other figures of summary.json


def repeats_block(by_column: Mapping[str, Sequence[SampleSummary]], order: Sequence[str]) -> dict[str, Any] | None:
    """The block "judge_repeats" of a task's table, in percent; None if no sample was judged more than once.

    n: repetitions. score, columns: `by_repetition`, their `mean` and `sd` (n - 1 in the denominator). partly_read:
    samples with a text that only some repetitions could rate; unread: their replies without a mark.
    """
    lines = {id(line): line for of in by_column.values() for line in of}.values()
    n = max((len(marks) for line in lines for _, marks in line.repeated), default=0)
    if n < 2:
        return None
    columns = {}
    for name, of in by_column.items():
        if any(name == column for line in of for column, _ in line.repeated):
            columns[name] = [mean_of_known([_mark(line, name, k) for line in of]) for k in range(n)]
        elif name in order:
            columns[name] = [mean_of_known([_mark(line, name, 0) for line in of])] * n
    scored = [columns[name] for name in order if name in columns]
    means = [mean_of_known(values) if None not in values else None for values in zip(*scored, strict=True)]
    judged = {name for line in lines for name, _ in line.repeated}
    return {
        "n": n,
        "score": _spread(means) if set(order) & judged else None,
        "columns": {name: _spread(values) for name, values in columns.items() if name in judged},
        "partly_read": sum(line.unread > 0 for line in lines),
        "unread": sum(line.unread for line in lines),
    }


def _mark(line: SampleSummary, column: str, repetition: int) -> float | None:
    """The mark of a line in one repetition, in percent."""
    marks = next((marks for name, marks in line.repeated if name == column), None)
    mark = marks[repetition] if marks else next(official for name, official, _ in line.marks if name == column)
    return None if mark is None else 100 * mark


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        "by_repetition": [None if value is None else round(value, _DIGITS) for value in values],
        "mean": round(statistics.fmean(known), _DIGITS) if known else None,
        "sd": round(statistics.stdev(known), _DIGITS) if len(known) > 1 else None,
    }
