"""Fill a judge's ratings into the samples that wait for them: one batched call for all, never one a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmms_eval_ad2.judge.base import Judge, JudgeItem, JudgeRating
from lmms_eval_ad2.records import Unscored
from lmms_eval_ad2.scoring.sample import CHAIN_COLUMNS, JUDGE_WORST, ScoredSample, settle

Verdict = JudgeRating | Unscored


def _silent(item: JudgeItem) -> bool:
    """True where the model said nothing in the part to be rated: the lowest mark, without asking anyone."""
    if item.rubric == "ad2_slps":
        return not all(s.strip() for s in item.steps)
    if item.rubric == "ad2_orcs":
        return not any(s.strip() for s in item.steps)
    return not item.answer.strip()


def apply(samples: Sequence[ScoredSample], judge: Judge, *, progress: bool = True) -> None:
    """Rate all pending items of `samples` in one go and settle their columns."""
    asked = [item for s in samples for item in s.pending if not _silent(item)]
    verdicts = dict(zip((i.id for i in asked), judge.rate(asked, progress=progress), strict=True)) if asked else {}
    for sample in samples:
        if sample.pending:
            _settle(sample, [(item, verdicts.get(item.id) or JudgeRating(item.id, 1.0)) for item in sample.pending])
            sample.pending = []


def _settle(sample: ScoredSample, rated: list[tuple[JudgeItem, Verdict]]) -> None:
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
            _column(sample, column, [v for item, v in rated if item.rubric == f"ad2_{column}"])
    else:
        _column(sample, sample.column, [v for _, v in rated])
    reasons = [v.reason for _, v in rated if isinstance(v, Unscored)]
    if reasons:
        sample.status, sample.reason = "unscored", reasons[0]


def _column(sample: ScoredSample, column: str, verdicts: Sequence[Verdict]) -> None:
    """Official: the mean of what was rated. Strict: what was not rated counts as the lowest mark."""
    if not verdicts:
        return
    marks = [v.score / 10 if isinstance(v, JudgeRating) else None for v in verdicts]
    known = [m for m in marks if m is not None]
    official = sum(known) / len(known) if known else None
    strict = sum(JUDGE_WORST if m is None else m for m in marks) / len(marks)
    settle(sample, column, official, strict)


def about(judge: Judge) -> dict[str, Any]:
    """A judge as it stands in result files: what it is, and what it has cost."""
    return {**judge.describe(), "label": judge.label, "usage": dict(judge.usage)}
