"""How many routes and seeds it takes to see a difference of two points, from the variance in public result files.

Symbols, in percentage points: d_r the difference of two results on route r; s_d the standard deviation of d_r over
routes; s_w the standard deviation over seeds of one model on one route, s_w^2 = mean_r (x_r1 - x_r2)^2 / 2; D the
difference to see; z = 1.96.

    other routes of the same kind       n = (z s_d / D)^2 routes, one run of each model: the interval's half-width is D
    with 80 % power                     n = ((z + 0.84) s_d / D)^2: an interval excludes 0 in 80 of 100 repetitions
    the same R routes, more seeds       K = 2 (z s_w / D)^2 / R seeds of each model: the routes are not a sample

The second question asks only which model is better on these R routes; the first, which is better on routes like them.
`coverage` checks the intervals: it draws routes with replacement and counts the intervals that contain the true mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri

from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval, Floats, mean_interval

POINTS = 2.0  # the difference to see
DIFFERENCES = (-100.0, 100.0)  # bounds of a difference of two percentages
POWER = 0.8
Z, Z_POWER = float(ndtri(0.975)), float(ndtri(POWER))
QUARTILES = (0.25, 0.5, 0.75)


def plan(results: Sequence[tuple[str | None, Floats]], measure: str, draws: int = 2000) -> dict[str, Any] | None:
    """The answers for one measure, as JSON values; None without two results of different models.

    `results`: of each one the model whose seeds it shares (None: none), and the value of each route. `draws`: intervals
    per coverage. demands: at the quartiles of s_d (spread) over pairs of different models; visible: half-width of the
    interval on these routes. seeds: from the models with several seeds, spread is s_w; None without any.
    """
    columns = [a - b for (x, a), (y, b) in combinations(results, 2) if x is None or x != y]
    if not columns or len(columns[0]) < 2:
        return None
    table = np.array(columns)  # (pairs, routes)
    n = table.shape[1]
    return {
        "measure": measure,
        "pairs": len(table),
        "demands": [
            {"spread": s, "visible": Z * s / math.sqrt(n), "routes": routes_needed(s),
             "routes_with_power": routes_needed(s, z=Z + Z_POWER)}
            for s in np.quantile(table.std(axis=1, ddof=1), QUARTILES).tolist()
        ],
        "seeds": _seed_demand(results, n),
        "coverages": [
            {"n": k, "draws": draws, "share": coverage(table, k, draws)} for k in (n // 2, n, 2 * n) if k > 1
        ],
    }  # fmt: skip


def routes_needed(spread: float, points: float = POINTS, z: float = Z) -> int:
    """n = (z s_d / D)^2, rounded up. `spread` and `points` in percentage points."""
    return math.ceil((z * spread / points) ** 2)


def seeds_needed(spread: float, routes: int, points: float = POINTS, z: float = Z) -> int:
    """K = 2 (z s_w / D)^2 / R, rounded up, at least 1."""
    return max(1, math.ceil(2 * (z * spread / points) ** 2 / routes))


def paired_interval(differences: Floats) -> ConfidenceInterval | None:
    """95 % interval of the mean of differences by route, as in scoring/compare.py; None for a single route."""
    return mean_interval(differences, bounds=DIFFERENCES)


def coverage(populations: Floats, n: int, draws: int, seed: int = 0) -> float:
    """Share of the 95 % intervals of `draws` samples that contain the mean of their population.

    `populations`: shape (populations, values); each draw takes n values of one of them, with replacement.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(populations), size=draws)
    picks = rng.integers(populations.shape[1], size=(draws, n))
    samples = populations[chosen[:, None], picks]
    means = populations.mean(axis=1)[chosen]
    intervals = [paired_interval(sample) for sample in samples]
    low = np.array([interval.low if interval else math.nan for interval in intervals])
    high = np.array([interval.high if interval else math.nan for interval in intervals])
    return float(((low <= means) & (means <= high)).mean())


def _seed_demand(results: Sequence[tuple[str | None, Floats]], n: int) -> dict[str, Any] | None:
    """From all models with several seeds: the variances within routes, averaged over models."""
    groups: dict[str, list[Floats]] = {}
    for model, values in results:
        if model is not None:
            groups.setdefault(model, []).append(values)
    repeated = {name: np.array(runs) for name, runs in groups.items() if len(runs) > 1}
    if not repeated:
        return None
    spread = math.sqrt(float(np.mean([runs.var(axis=0, ddof=1).mean() for runs in repeated.values()])))
    needed, with_power = (seeds_needed(spread, n, z=z) for z in (Z, Z + Z_POWER))
    return {"models": [*repeated], "spread": spread, "seeds": needed, "seeds_with_power": with_power}
