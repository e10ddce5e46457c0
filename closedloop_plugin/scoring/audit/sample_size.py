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
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from closedloop_plugin.scoring.audit.audited_result import AuditedResult
from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval, Floats, mean_interval

POINTS = 2.0  # the difference to see
DIFFERENCES = (-100.0, 100.0)  # bounds of a difference of two percentages
POWER = 0.8
Z, Z_POWER = float(ndtri(0.975)), float(ndtri(POWER))
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class RouteDemand:
    """Routes needed for results whose differences have the standard deviation `spread` over routes."""

    spread: float  # s_d, percentage points
    visible: float  # half-width of the interval on the audit's routes
    routes: int
    routes_with_power: int


@dataclass(frozen=True)
class SeedDemand:
    """Seeds needed on the audit's own routes, from results of one model with several seeds. `spread`: s_w."""

    models: tuple[str, ...]
    spread: float
    seeds: int
    seeds_with_power: int


@dataclass(frozen=True)
class IntervalCoverage:
    """Share of `draws` resampled intervals over `n` routes that contain the true mean."""

    n: int
    draws: int
    share: float


@dataclass(frozen=True)
class SampleSizePlan:
    """The answer for one measure. `demands`: at the quartiles of s_d over `pairs` pairs of different models."""

    measure: str
    pairs: int
    demands: tuple[RouteDemand, ...]
    seeds: SeedDemand | None
    coverages: tuple[IntervalCoverage, ...]


def plan(results: Sequence[AuditedResult], measure: str, draws: int = 2000) -> SampleSizePlan | None:
    """The plan of one measure; None without two results of different models. `draws`: intervals per coverage."""
    columns = [
        a.values[measure] - b.values[measure]
        for a, b in combinations(results, 2)
        if a.listed.repeats is None or a.listed.repeats != b.listed.repeats
    ]
    if not columns or len(columns[0]) < 2:
        return None
    table = np.array(columns)  # (pairs, routes)
    n = table.shape[1]
    spreads = np.quantile(table.std(axis=1, ddof=1), QUARTILES)
    sizes = (n // 2, n, 2 * n)
    return SampleSizePlan(
        measure=measure,
        pairs=len(table),
        demands=tuple(_route_demand(float(s), n) for s in spreads),
        seeds=_seed_demand(results, measure, n),
        coverages=tuple(IntervalCoverage(k, draws, coverage(table, k, draws)) for k in sizes if k > 1),
    )


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


def _route_demand(spread: float, n: int) -> RouteDemand:
    with_power = routes_needed(spread, z=Z + Z_POWER)
    return RouteDemand(spread, Z * spread / math.sqrt(n), routes_needed(spread), with_power)


def _seed_demand(results: Sequence[AuditedResult], measure: str, n: int) -> SeedDemand | None:
    """From all models with several seeds: the variances within routes, averaged over models."""
    groups: dict[str, list[Floats]] = defaultdict(list)
    for result in results:
        if result.listed.repeats is not None:
            groups[result.listed.repeats].append(result.values[measure])
    repeated = {name: np.array(runs) for name, runs in groups.items() if len(runs) > 1}
    if not repeated:
        return None
    spread = math.sqrt(float(np.mean([runs.var(axis=0, ddof=1).mean() for runs in repeated.values()])))
    with_power = seeds_needed(spread, n, z=Z + Z_POWER)
    return SeedDemand(tuple(repeated), spread, seeds_needed(spread, n), with_power)
