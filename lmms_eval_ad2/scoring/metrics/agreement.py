"""Agreement of raters: Krippendorff's alpha, Cohen's weighted kappa, Spearman's rank correlation.

A unit (an item, a text) has one value from each rater who rated it; ratings may be missing. A coefficient is None if
the data do not define it (fewer than two values in every unit, one value throughout), never 0 or 1.

Sources: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), with the examples of the tests; J. Cohen,
Weighted kappa (Psychological Bulletin 70, 1968). Why no library: docs/decisions/0012-libraries-tried.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

Level = Literal["nominal", "ordinal", "interval"]
Weights = Literal["linear", "quadratic"]


def krippendorff_alpha(units: Iterable[Sequence[Any]], level: Level = "interval") -> float | None:
    """alpha = 1 - D_o / D_e, observed over expected disagreement. Units with fewer than two values are ignored.

    Distance of two values: nominal 0 or 1, ordinal the squared difference of their ranks, interval that of the values.
    """
    pairable = [list(values) for values in units if len(values) > 1]
    totals: Counter[Hashable] = Counter(v for values in pairable for v in values)
    n = sum(totals.values())
    if len(totals) < 2:
        return None
    distance = _distance(level, totals)
    observed = 0.0  # n D_o: pairs within a unit of m values, weighted by 1 / (m - 1)
    for values in pairable:
        counts = Counter(values)
        observed += _within(counts, distance) / (len(values) - 1)
    expected = _within(totals, distance) / (n - 1)  # n D_e: all pairs of values
    return 1.0 - observed / expected if expected else None


def _within(counts: Counter[Hashable], distance: Callable[[Any, Any], float]) -> float:
    """Sum of the distances of all ordered pairs of values; equal values have distance 0."""
    return sum(a * b * distance(u, v) for u, a in counts.items() for v, b in counts.items() if u != v)


def _distance(level: Level, totals: Counter[Any]) -> Callable[[Any, Any], float]:
    if level == "nominal":
        return lambda u, v: float(u != v)
    if level == "interval":
        return lambda u, v: float(u - v) ** 2
    place: dict[Any, float] = {}  # mean rank of a value among all values
    before = 0
    for value in sorted(totals):
        place[value] = before + totals[value] / 2
        before += totals[value]
    return lambda u, v: (place[u] - place[v]) ** 2


def weighted_kappa(
    first: Sequence[int], second: Sequence[int], scale: tuple[int, int], weights: Weights = "quadratic"
) -> float | None:
    """Weighted kappa of two raters of the same units, with integer values from scale[0] to scale[1].

    kappa = 1 - sum_ij w_ij O_ij / sum_ij w_ij E_ij with w_ij = |i - j| (linear) or (i - j)^2 (quadratic), O the counts
    of pairs and E those of independent raters with the same margins. None without values, or if all values are equal.
    Raises ValueError for values outside the scale.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values; both must rate the same units")
    low, high = scale
    if any(not low <= v <= high for v in (*first, *second)):
        raise ValueError(f"expected values from {low} to {high}")
    power = {"linear": 1, "quadratic": 2}[weights]
    observed = sum(abs(a - b) ** power for a, b in zip(first, second, strict=True))
    one, two = Counter(first), Counter(second)
    expected = sum(i * j * abs(a - b) ** power for a, i in one.items() for b, j in two.items()) / (len(first) or 1)
    return 1.0 - observed / expected if expected else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation; None with fewer than three units, or if one of the raters gave a single value."""
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    from scipy import stats  # slow to import

    value = float(stats.spearmanr(first, second).statistic)
    return value if math.isfinite(value) else None
