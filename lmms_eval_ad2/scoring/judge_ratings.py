"""Add a judge's ratings to the samples that need them, in one batched call; the spread of repeated judgements.

With `judge_repeats`, a sample's mark in a column is the mean over the repetitions that could be read. In the block
"judge_repeats" every repetition is a judgement of its own of the whole task: its figure is the mean over the samples
that it could read, and over the score's columns. Answers that no judge sees (unparsed, or of other forms) have the same
value in all repetitions.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.core.printed import shortened
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.base import Judge, JudgeItem, JudgeRating, repeats_of
from lmms_eval_ad2.scoring.sample import CHAIN_COLUMNS, JUDGE_WORST, ScoredSample, set_column
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.storage.redaction import environment_keys, without_keys

Verdict = JudgeRating | Unscored
_DIGITS = 6  # of the figures of summary.json
REPLY = 2000  # characters of a judge's reply in the samples file
NOT_ASKED = "the judge was not asked: the text is empty"


def _empty(item: JudgeItem) -> bool:
    """Whether the part to be rated is empty: it gets the lowest mark without asking the judge."""
    if item.rubric == "ad2_slps":
        return not all(s.strip() for s in item.steps)
    if item.rubric == "ad2_orcs":
        return not any(s.strip() for s in item.steps)
    return not item.answer.strip()


def to_rate(sample: ScoredSample) -> list[JudgeItem]:
    """The pending items that the judge is asked about."""
    return [item for item in sample.pending if not _empty(item)]


def apply(samples: Sequence[ScoredSample], judge: Judge, *, progress: bool = True) -> None:
    """Rate all pending items of `samples` in one batch, as often as the judge is to repeat, and set their columns."""
    repeats = repeats_of(judge)
    items = [replace(item, repetition=k) for s in samples for item in to_rate(s) for k in range(repeats)]
    rated = judge.rate(items, progress=progress) if items else []
    verdicts = {(item.id, item.repetition): verdict for item, verdict in zip(items, rated, strict=True)}
    for sample in samples:
        if sample.pending:
            lowest = [JudgeRating(item.id, 1.0, NOT_ASKED) for item in sample.pending]
            found = [
                (item, [verdicts.get((item.id, k), low) for k in range(repeats)])
                for item, low in zip(sample.pending, lowest, strict=True)
            ]
            _set_ratings(sample, found)
            sample.pending = []


def _set_ratings(sample: ScoredSample, rated: list[tuple[JudgeItem, list[Verdict]]]) -> None:
    sample.judge = [_entry(item, sample.form, verdicts) for item, verdicts in rated]
    if sample.form == "chain":
        for column in CHAIN_COLUMNS:
            _set_judged_column(sample, column, [v for item, v in rated if item.rubric == f"ad2_{column}"])
    else:
        _set_judged_column(sample, sample.column, [v for _, v in rated])
    reasons = [entry["reason"] for entry in sample.judge if entry["score"] is None]
    if reasons:
        sample.reason = reasons[0]
        found = set(sample.column_status.values())
        sample.status = found.pop() if len(found) == 1 else "partly"
    sample.column_status = {c: status for c, status in sample.column_status.items() if status != sample.status}


def _entry(item: JudgeItem, form: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The ratings of one item in the samples file; several have their mean as `score`, each one in `scores`."""
    marks = [v.score if isinstance(v, JudgeRating) else None for v in verdicts]
    reasons = [None if isinstance(v, JudgeRating) else v.reason for v in verdicts]
    replies = [_stored_reply(v) for v in verdicts]
    score = mean_of_known(marks)
    return {
        "rubric": item.rubric,
        "part": item.id.rsplit(":", 1)[-1] if form == "chain" else "0",
        "score": score,
        "reason": reasons[0] if score is None else None,
        **({"reply": replies[0]} if len(verdicts) == 1 else {"scores": marks, "reasons": reasons, "replies": replies}),
    }


def _stored_reply(verdict: Verdict) -> str | None:
    """What the judge replied, or why there is no reply; for judges that compute a mark, the number behind it.

    Shortened, without the keys in the environment, and with question marks for lone surrogates, which no file takes.
    """
    reply = verdict.raw if isinstance(verdict, JudgeRating) else verdict.detail
    writable = reply.encode("utf-8", "replace").decode("utf-8")
    return shortened(without_keys(writable, environment_keys()), REPLY) or None


def _set_judged_column(sample: ScoredSample, column: str, verdicts: Sequence[Sequence[Verdict]]) -> None:
    """Official: the mean of the rated items. Strict: unrated items count as the lowest mark. Marks / 10.

    A column of which only some items are rated has the status "partly".

    verdicts: of each item, one per repetition. An item's mark is the mean over the repetitions that rated it.
    """
    if not verdicts:
        return
    marks = [[v.score / 10 if isinstance(v, JudgeRating) else None for v in of_item] for of_item in verdicts]
    strict = [mean_of_known([JUDGE_WORST if m is None else m for m in of_item]) or 0.0 for of_item in marks]
    rated = sum(any(m is not None for m in of_item) for of_item in marks)
    sample.column_status[column] = "ok" if rated == len(marks) else "partly" if rated else "unscored"
    set_column(sample, column, mean_of_known([mean_of_known(of_item) for of_item in marks]), sum(strict) / len(strict))
    if len(marks[0]) > 1:
        sample.repeated[column] = [mean_of_known(of_repetition) for of_repetition in zip(*marks, strict=True)]


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; a single one is unchanged (a whole mark stays whole in files)."""
    known = [value for value in values if value is not None]
    return known[0] if len(known) == 1 else sum(known) / len(known) if known else None


def judge_record(judge: Judge) -> dict[str, Any]:
    """The judge's entry in result files: description, label and token usage."""
    return {**judge.describe(), "label": judge.label, "usage": dict(judge.usage)}


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
