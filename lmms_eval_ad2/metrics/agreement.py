"""How far several raters agree: Krippendorff's alpha, Cohen's weighted kappa, Spearman's rank correlation.

A unit (an item, a text) has the values of those who rated it; a rater may have left units out. A coefficient is None
where the data do not define it (fewer than two values in any unit, one value throughout): never 0, never 1.

Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), whose worked example the tests repeat;
J. Cohen, Weighted kappa (Psychological Bulletin 70, 1968).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

Level = Literal["nominal", "ordinal", "interval"]
Weights = Literal["linear", "quadratic"]


def krippendorff_alpha(units: Iterable[Sequence[Any]], level: Level = "interval") -> float | None:
    """1 - observed / expected disagreement; `units` holds the values of each unit, those with one value do not count.

    nominal: values only equal or not. ordinal: numbers by their ranks. interval: numbers by their distance.
    """
    pairable = [list(values) for values in units if len(values) > 1]
    totals: Counter[Hashable] = Counter(v for values in pairable for v in values)
    n = sum(totals.values())
    if len(totals) < 2:
        return None
    distance = _distance(level, totals)
    observed = 0.0
    for values in pairable:
        counts = Counter(values)
        observed += _within(counts, distance) / (len(values) - 1)
    expected = _within(totals, distance) / (n - 1)
    return 1.0 - observed / expected if expected else None


def _within(counts: Counter[Hashable], distance: Callable[[Any, Any], float]) -> float:
    """The distances of all ordered pairs of values, the same value twice aside: their distance is 0."""
    return sum(a * b * distance(u, v) for u, a in counts.items() for v, b in counts.items() if u != v)


def _distance(level: Level, totals: Counter[Any]) -> Callable[[Any, Any], float]:
    if level == "nominal":
        return lambda u, v: float(u != v)
    if level == "interval":
        return lambda u, v: float(u - v) ** 2
    place: dict[Any, float] = {}  # mean rank of a value among all that were given
    before = 0
    for value in sorted(totals):
        place[value] = before + totals[value] / 2
        before += totals[value]
    return lambda u, v: (place[u] - place[v]) ** 2


def weighted_kappa(
    first: Sequence[int], second: Sequence[int], scale: tuple[int, int], weights: Weights = "quadratic"
) -> float | None:
    """Two raters of the same units, in order, on whole numbers from scale[0] to scale[1].

    None where either has given no value, or both the same one throughout. Raises ValueError for values off the scale.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values; both rate the same units")
    low, high = scale
    if any(not low <= v <= high for v in (*first, *second)):
        raise ValueError(f"values from {low} to {high} are wanted")
    power = {"linear": 1, "quadratic": 2}[weights]
    observed = sum(abs(a - b) ** power for a, b in zip(first, second, strict=True))
    one, two = Counter(first), Counter(second)
    expected = sum(i * j * abs(a - b) ** power for a, i in one.items() for b, j in two.items()) / (len(first) or 1)
    return 1.0 - observed / expected if expected else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation; None with fewer than three units, or where one of the two never varies."""
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    from scipy import stats  # slow to import, and needed here only

    value = float(stats.spearmanr(first, second).statistic)
    return value if math.isfinite(value) else None
