"""A judge for testing the pipeline: its ratings are derived from hashes and mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating, new_usage
from lmms_eval_ad2.judge.rubrics import RUBRICS
from lmms_eval_ad2.llm.cache import key_of
from lmms_eval_ad2.llm.settings import one_of


class FakeJudge:
    """Rates 10 if the answer equals the reference, else 1..10 by the item's hash; each `fail_every`-th is Unscored."""

    label = "fake"

    def __init__(self, *, score: float | None = None, fail_every: int = 0) -> None:
        self.usage = new_usage()
        self.score, self.fail_every = score, fail_every

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """See Judge.rate."""
        return [self._rate(number, item) for number, item in enumerate(items, 1)]

    def _rate(self, number: int, item: JudgeItem) -> JudgeRating | Unscored:
        one_of(item.rubric, RUBRICS, "rubric")
        if self.fail_every and number % self.fail_every == 0:
            self.usage["failed"] += 1
            return Unscored(item.rubric, "fake_failure")
        if self.score is not None:
            return JudgeRating(item.id, self.score, "fixed")
        if item.reference and item.answer.strip() == item.reference.strip():
            return JudgeRating(item.id, 10.0, "equal")
        content = {k: v for k, v in asdict(item).items() if k != "id"}
        return JudgeRating(item.id, 1.0 + int(key_of(content)[:8], 16) % 10, "hash")

    def describe(self) -> dict[str, Any]:
        return {"backend": "fake", "model": None, "score": self.score, "seed": None, "temperature": None}
