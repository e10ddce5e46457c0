"""Add a judge's ratings to the samples that need them, in one batched call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmms_eval_ad2.judge.base import Judge, JudgeItem, JudgeRating
from lmms_eval_ad2.records import Unscored
from lmms_eval_ad2.scoring.sample import CHAIN_COLUMNS, JUDGE_WORST, ScoredSample, set_column

Verdict = JudgeRating | Unscored


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
    """Rate all pending items of `samples` in one batch and set their columns."""
    items = [item for s in samples for item in to_rate(s)]
    verdicts = dict(zip((i.id for i in items), judge.rate(items, progress=progress), strict=True)) if items else {}
    for sample in samples:
        if sample.pending:
            _set_ratings(
                sample, [(item, verdicts.get(item.id) or JudgeRating(item.id, 1.0)) for item in sample.pending]
            )
            sample.pending = []


def _set_ratings(sample: ScoredSample, rated: list[tuple[JudgeItem, Verdict]]) -> None:
    sample.judge = [
        {
            "rubric": item.rubric,
            "part": item.id.rsplit(":", 1)[-1] if sample.form == "chain" else "0",
            "score": v.score if isinstance(v, JudgeRating) else None,
            "reason": None if isinstance(v, JudgeRating) else v.reason,
        }
        for item, v in rated
    ]
    if sample.form == "chain":
        for column in CHAIN_COLUMNS:
            _set_judged_column(sample, column, [v for item, v in rated if item.rubric == f"ad2_{column}"])
    else:
        _set_judged_column(sample, sample.column, [v for _, v in rated])
    reasons = [v.reason for _, v in rated if isinstance(v, Unscored)]
    if reasons:
        sample.status, sample.reason = "unscored", reasons[0]


def _set_judged_column(sample: ScoredSample, column: str, verdicts: Sequence[Verdict]) -> None:
    """Official: the mean of the rated items. Strict: unrated items count as the lowest mark. Marks / 10."""
    if not verdicts:
        return
    marks = [v.score / 10 if isinstance(v, JudgeRating) else None for v in verdicts]
    known = [m for m in marks if m is not None]
    official = sum(known) / len(known) if known else None
    strict = sum(JUDGE_WORST if m is None else m for m in marks) / len(marks)
    set_column(sample, column, official, strict)


def judge_record(judge: Judge) -> dict[str, Any]:
    """The judge's entry in result files: description, label and token usage."""
    return {**judge.describe(), "label": judge.label, "usage": dict(judge.usage)}
