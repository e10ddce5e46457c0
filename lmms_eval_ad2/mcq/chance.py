"""A way to answer against chance: is its accuracy more than guessing gives?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest, norm

from lmms_eval_ad2.metrics.intervals import FRACTION, ConfidenceInterval, mean_interval, wilson

ALPHA = 0.01  # a bias is called one below this p-value, where the interval leaves chance out as well
FEW = 10  # clusters: with fewer, an interval over them is too wide to warn by


@dataclass(frozen=True, slots=True)
class ChanceComparison:
    """Accuracy and chance as fractions.

    ci: 95 %; over clusters, or Wilson's over questions where there are fewer than ten clusters: `ci_of` is "clusters"
    or "questions". p_value: two-sided, takes the questions as independent; `test` is "binomial" (exact) or "normal"
    (ties count as fractions, or numbers of options differ).
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
        """More than chance by the test and by the interval, which knows that questions on one image are alike."""
        return self.p_value < ALPHA and self.ci.low > self.chance

    def to_dict(self) -> dict[str, Any]:
        return {
            "n": self.n, "accuracy": round(self.accuracy, 6), "chance": round(self.chance, 6),
            "ci": [round(self.ci.low, 6), round(self.ci.high, 6)], "ci_of": self.ci_of, "p_value": self.p_value,
            "test": self.test, "above_chance": self.above_chance,
        }  # fmt: skip


def against_chance(hits: Sequence[float], chances: Sequence[float], clusters: Sequence[str]) -> ChanceComparison | None:
    """hits: 0 to 1 a question (1/2 where two options tie and one is right); chances: 1/k of k options. None of none."""
    if not hits:
        return None
    n, accuracy, chance = len(hits), sum(hits) / len(hits), sum(chances) / len(chances)
    over = mean_interval(hits, clusters=clusters, bounds=FRACTION) if len(set(clusters)) >= FEW else None
    ci, ci_of = (over, "clusters") if over else (wilson(accuracy, n), "questions")
    if all(hit in (0, 1) for hit in hits) and len(set(chances)) == 1:
        exact = binomtest(round(sum(hits)), n, chance)
        return ChanceComparison(n, accuracy, chance, ci, ci_of, float(exact.pvalue), "binomial")
    # Ties make the true variance smaller than this, so the p-value is on the careful side.
    spread = math.sqrt(sum(c * (1 - c) for c in chances)) / n
    p_value = float(2 * norm.sf(abs(accuracy - chance) / spread))
    return ChanceComparison(n, accuracy, chance, ci, ci_of, p_value, "normal")
