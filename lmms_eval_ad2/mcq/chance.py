"""Comparison of an accuracy with the chance level: interval and significance test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest, norm

from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, ConfidenceInterval, mean_interval, wilson

ALPHA = 0.01  # a bias is reported if p is below this and the interval excludes chance as well
FEW = 10  # clusters; with fewer, an interval over clusters is too wide to be useful


@dataclass(frozen=True, slots=True)
class ChanceComparison:
    """Accuracy and chance level as fractions, with interval and test.

    ci: 95 % interval over clusters, or Wilson's over questions if there are fewer than FEW clusters; `ci_of` is
    "clusters" or "questions". p_value: two-sided, treats the questions as independent; `test` is "binomial" (exact), or
    "normal" if ties count as fractions or numbers of options differ.
    """

    n: int
    accuracy: float
    chance: float
    ci: ConfidenceInterval
    ci_of: str
    p_value: float
    test: str

    @property
    def above_chance(self) -> bool:
        """Above chance by the test and by the interval, which accounts for the dependence of questions on one image."""
        return self.p_value < ALPHA and self.ci.low > self.chance

    def to_dict(self) -> dict[str, Any]:
        return {
            "n": self.n, "accuracy": round(self.accuracy, 6), "chance": round(self.chance, 6),
            "ci": [round(self.ci.low, 6), round(self.ci.high, 6)], "ci_of": self.ci_of, "p_value": self.p_value,
            "test": self.test, "above_chance": self.above_chance,
        }  # fmt: skip


def against_chance(hits: Sequence[float], chances: Sequence[float], clusters: Sequence[str]) -> ChanceComparison | None:
    """Compare the mean of `hits` with the mean of `chances`; None without questions.

    hits: 0 to 1 per question (1/2 if two options tie and one is right). chances: 1/k for k options.
    """
    if not hits:
        return None
    n, accuracy, chance = len(hits), sum(hits) / len(hits), sum(chances) / len(chances)
    over = mean_interval(hits, clusters=clusters, bounds=FRACTION) if len(set(clusters)) >= FEW else None
    ci, ci_of = (over, "clusters") if over else (wilson(accuracy, n), "questions")
    if all(hit in (0, 1) for hit in hits) and len(set(chances)) == 1:
        exact = binomtest(round(sum(hits)), n, chance)
        return ChanceComparison(
            n=n, accuracy=accuracy, chance=chance, ci=ci, ci_of=ci_of, p_value=float(exact.pvalue), test="binomial"
        )
    # z = (accuracy - chance) / sigma with sigma = sqrt(sum of c (1 - c)) / n over the questions' chances c.
    # Ties make the true variance smaller, so the p-value is conservative.
    sigma = math.sqrt(sum(c * (1 - c) for c in chances)) / n
    p_value = float(2 * norm.sf(abs(accuracy - chance) / sigma))
    return ChanceComparison(n=n, accuracy=accuracy, chance=chance, ci=ci, ci_of=ci_of, p_value=p_value, test="normal")
