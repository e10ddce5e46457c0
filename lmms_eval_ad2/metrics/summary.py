"""From many values to one: bootstrap intervals, standard errors, paired tests.

Samples that share evidence (an image, a scene) are not independent. Where `clusters` names the
group of each value, whole groups are drawn, so that many questions on one image do not make an
interval too narrow. A unit below is a cluster, or a single value where no clusters are given.
Results depend on the seed alone. Values are in any unit; results are in the same one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CELLS = 2_000_000  # drawn at once: bounds the memory of a bootstrap to some 50 MB
_EXACT_UNITS = 14  # up to here all 2^n sign flips are tried
_FLIPS = 10_000  # random ones above: p-values down to 0.0001
_Z95 = 1.959963984540054  # standard deviations to either side that hold 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Two runs on the samples that both answered. `difference` is a minus b, `ci` its bootstrap interval.

    `p_value` is two-sided and None where nothing can be tested; `test` is "mcnemar", "sign-flip" or "none".
    """

    n: int
    mean_a: float
    mean_b: float
    difference: float
    ci: Interval | None
    p_value: float | None
    test: str


def bootstrap_mean(
    values: Sequence[float] | Floats,
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval | None:
    """Percentile bootstrap interval of the mean; None with fewer than two units.

    With clusters the mean of a resample is the mean over all values of the clusters drawn
    (a ratio: clusters differ in size). Raises ValueError for values that are not finite.
    """
    means = _resampled_means(_Units.of(values, clusters), np.random.default_rng(seed), resamples)
    return None if means is None else _percentile(means, level)


def bootstrap_mean_of_means(
    columns: Sequence[Sequence[float] | Floats],
    *,
    clusters: Sequence[Sequence[Hashable] | None] | None = None,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval | None:
    """Interval of the unweighted mean of the columns' means (a benchmark's average over its columns).

    Columns that share a cluster name (an image asked about in several columns, a chain marked by several
    metrics) are resampled together; a column without clusters is resampled by itself. A draw that leaves a
    column empty says nothing about it and is left out. None where there is no column, or one of them has
    fewer than two units: its spread is unknown.
    """
    groups = clusters if clusters is not None else [None] * len(columns)
    sums, sizes = _shared_units(columns, groups)
    if not columns or bool(((sizes > 0).sum(axis=0) < 2).any()):
        return None
    rng = np.random.default_rng(seed)
    count = len(sums)
    means: list[Floats] = []
    step = max(1, _CELLS // count)
    for start in range(0, resamples, step):
        drawn = rng.integers(0, count, size=(min(step, resamples - start), count), dtype=np.int32)
        totals = np.stack([sums[:, k][drawn].sum(axis=1) for k in range(len(columns))], axis=1)
        counts = np.stack([sizes[:, k][drawn].sum(axis=1) for k in range(len(columns))], axis=1)
        whole = (counts > 0).all(axis=1)
        means.append((totals[whole] / counts[whole]).mean(axis=1))
    kept = np.concatenate(means)
    return _percentile(kept, level) if len(kept) else None


def _shared_units(
    columns: Sequence[Sequence[float] | Floats], clusters: Sequence[Sequence[Hashable] | None]
) -> tuple[Floats, Floats]:
    """Sums and numbers of values, each of shape (units, columns); a named unit is one across all columns."""
    numbers: dict[Hashable, int] = {}
    placed: list[tuple[Floats, list[int]]] = []
    for k, (column, names) in enumerate(zip(columns, clusters, strict=True)):
        values = _finite(column)
        if names is not None and len(names) != len(values):
            raise ValueError(f"{len(values)} values but {len(names)} cluster names")
        keys = [("own", k, i) for i in range(len(values))] if names is None else [("shared", name) for name in names]
        placed.append((values, [numbers.setdefault(key, len(numbers)) for key in keys]))
    sums, sizes = np.zeros((len(numbers), len(columns))), np.zeros((len(numbers), len(columns)))
    for k, (values, index) in enumerate(placed):
        np.add.at(sums[:, k], index, values)
        np.add.at(sizes[:, k], index, 1.0)
    return sums, sizes


def standard_error(values: Sequence[float] | Floats, clusters: Sequence[Hashable] | None = None) -> float | None:
    """Standard error of the mean; None with fewer than two units.

    Without clusters: s / sqrt(n). With them: the usual cluster-robust one,
    sqrt(C / (C - 1) * sum over clusters of (sum of residuals)^2) / n, the same where every cluster holds one value.
    """
    units = _Units.of(values, clusters)
    count = len(units.sums)
    if count < 2:
        return None
    residuals = units.sums - units.mean() * units.sizes
    return float(math.sqrt(count / (count - 1) * float(residuals @ residuals)) / units.sizes.sum())


def paired(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    clusters: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Paired:
    """Compare two runs over the ids that both have. Raises ValueError if there is none.

    McNemar's exact test where all values are 0 or 1 and every unit is a single sample; else a
    sign-flip permutation test of the summed differences of each unit: all flips up to 14 units
    that differ, else 10,000 random ones, counted with the observed one. An id that `clusters`
    lacks is a unit of its own.
    """
    ids = sorted(a.keys() & b.keys())
    if not ids:
        raise ValueError("the two runs have no sample in common")
    left, right = _finite([a[i] for i in ids]), _finite([b[i] for i in ids])
    groups = [("own", i) if clusters is None or i not in clusters else ("shared", clusters[i]) for i in ids]
    units = _Units.of(left - right, groups)
    binary = len(units.sums) == len(ids) and bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
    if len(units.sums) < 2:
        test, p_value = "none", None
    elif binary:
        test, p_value = "mcnemar", _mcnemar(int((left > right).sum()), int((left < right).sum()))
    else:
        test, p_value = "sign-flip", _sign_flip(units.sums, np.random.default_rng(seed))
    ci = bootstrap_mean(left - right, clusters=groups, seed=seed)
    return Paired(len(ids), float(left.mean()), float(right.mean()), units.mean(), ci, p_value, test)


@dataclass(frozen=True, slots=True)
class _Units:
    """What is drawn: the sum and the number of values of each unit, both of shape (units,)."""

    sums: Floats
    sizes: Floats

    @classmethod
    def of(cls, values: Sequence[float] | Floats, clusters: Sequence[Hashable] | None) -> _Units:
        array = _finite(values)
        if clusters is None:
            return cls(array, np.ones_like(array))
        if len(clusters) != len(array):
            raise ValueError(f"{len(array)} values but {len(clusters)} cluster names")
        numbers: dict[Hashable, int] = {}
        index = np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.intp)
        sums = np.bincount(index, weights=array).astype(np.float64)
        return cls(sums, np.bincount(index).astype(np.float64))

    def mean(self) -> float:
        return float(self.sums.sum() / self.sizes.sum())


def _finite(values: Sequence[float] | Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite; leave out what could not be scored, and count it")
    return array


def _resampled_means(units: _Units, rng: np.random.Generator, resamples: int) -> Floats | None:
    """Means of `resamples` draws with replacement, shape (resamples,); None with fewer than two units."""
    count = len(units.sums)
    if count < 2:
        return None
    same_size = bool((units.sizes == units.sizes[0]).all())
    means: Floats = np.empty(resamples)
    step = max(1, _CELLS // count)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = rng.integers(0, count, size=(stop - start, count), dtype=np.int32)
        sizes = units.sizes[0] * count if same_size else units.sizes[drawn].sum(axis=1)
        means[start:stop] = units.sums[drawn].sum(axis=1) / sizes
    return means


def _percentile(means: Floats, level: float) -> Interval:
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval lies between 0 and 1, not {level}")
    tail = (1 - level) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high))


def wilson(share: float, n: int) -> Interval:
    """Wilson's 95 % score interval of a share (0 to 1) of `n` > 0 values; scipy's takes whole numbers of hits only."""
    scale = 1 + _Z95**2 / n
    centre = (share + _Z95**2 / (2 * n)) / scale
    half = _Z95 / scale * math.sqrt(share * (1 - share) / n + _Z95**2 / (4 * n**2))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact binomial p-value of the samples that just one run has right; whole numbers, so no rounding."""
    n = only_a + only_b
    term = total = 1
    for k in range(min(only_a, only_b)):
        term = term * (n - k) // (k + 1)
        total += term
    return min(1.0, 2 * total / 2**n)


def _sign_flip(differences: Floats, rng: np.random.Generator) -> float:
    """Two-sided p-value of |sum| when each unit's difference may have either sign."""
    units = differences[differences != 0]
    observed = abs(float(units.sum()))
    edge = observed - 1e-12 * max(1.0, float(np.abs(units).sum()))  # sums that differ by rounding alone are ties
    if len(units) <= _EXACT_UNITS:
        codes = np.arange(2 ** len(units))[:, None] >> np.arange(len(units))
        sums = np.abs((1.0 - 2.0 * (codes & 1)) @ units)
        return float((sums >= edge).mean())
    hits, step = 0, max(1, _CELLS // len(units))
    for start in range(0, _FLIPS, step):
        signs = rng.integers(0, 2, size=(min(step, _FLIPS - start), len(units)), dtype=np.int8)
        sums = np.abs(2.0 * (signs @ units) - units.sum())
        hits += int((sums >= edge).sum())
    return (hits + 1) / (_FLIPS + 1)
