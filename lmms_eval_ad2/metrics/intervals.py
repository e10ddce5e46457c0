"""95 % intervals of means over samples that share evidence: each cluster is left out in turn (a jackknife).

Questions on one image, in one scene, on one route are alike. Where `clusters` names the group of each value, whole
groups are left out, so that many questions on one image do not make an interval too narrow. A unit below is a cluster,
or a single value where no clusters are given. Values are in any unit; results are in the same one.

The variance is the jackknife's (CV3 of MacKinnon, Nielsen and Webb 2023), but never less than independent values would
have; the quantile is Student's, of the effective number of units (Kish 1965: unequal ones count for fewer) less one.
Between two bounds the form is Wilson's over the effective sample size (Dean and Pagano 2015), which neither passes the
bounds nor shrinks to a point near them. Where no unit differs from another, nothing tells their spread: then it is
Wilson's over the units, of the share of others that may differ.

docs/architecture.md has how often these intervals hold the truth, against other ways to make them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]
Bounds = tuple[float, float]  # between which all values lie; infinite where there is none

METHOD = "cluster jackknife"  # in result files
UNBOUNDED: Bounds = (-math.inf, math.inf)
NOT_NEGATIVE: Bounds = (0.0, math.inf)
FRACTION: Bounds = (0.0, 1.0)
PERCENT: Bounds = (0.0, 100.0)

_UPPER = 0.975  # two-sided 95 %
_ROUNDING = 1e-18  # of a variance between bounds 0 and 1


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A two-sided interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ClusterJackknife:
    """A figure, how far it moves without each unit, and each unit's part in its variance (sum 1): shapes (units,).

    The squares of `moves` add up to the variance (unit_moves). `floor`: the variance if all values were independent.
    """

    figure: float
    moves: Floats
    weights: Floats
    floor: float = 0.0

    @classmethod
    def of_ratios(cls, sums: Floats, sizes: Floats, floor: float = 0.0) -> ClusterJackknife | None:
        """Of the unweighted mean over columns of (all sums / all sizes); both of shape (units, columns).

        None where there is no column, or one of them has values in fewer than two units: its spread is unknown.
        """
        rest = sizes.sum(axis=0) - sizes
        if not sizes.size or not (rest > 0).all():
            return None
        figures = sums.sum(axis=0) / sizes.sum(axis=0)
        by_column = unit_moves(figures, (sums.sum(axis=0) - sums) / rest, (sizes > 0).sum(axis=0))
        weights = _weights((by_column**2).sum(axis=0), sizes)
        return cls(float(figures.mean()), by_column.mean(axis=1), weights, floor)

    def interval(self, bounds: Bounds = UNBOUNDED) -> ConfidenceInterval:
        """Its 95 % interval. Bounds are those of the values."""
        variance = max(self.floor, float(self.moves @ self.moves))
        effective = 1 / float(self.weights @ self.weights)
        quantile = float(stdtrit(max(1.0, effective - 1), _UPPER))
        low, high = bounds
        if not math.isfinite(high - low):
            half = quantile * math.sqrt(variance)
            return ConfidenceInterval(max(low, self.figure - half), min(high, self.figure + half))
        share, spread = (self.figure - low) / (high - low), variance / (high - low) ** 2
        if spread < _ROUNDING or not 0 < share < 1:
            others = wilson(0.0, effective).high
            return ConfidenceInterval(
                self.figure - others * (self.figure - low), self.figure + others * (high - self.figure)
            )
        found = _score(share, share * (1 - share) / spread, quantile)
        return ConfidenceInterval(low + found.low * (high - low), low + found.high * (high - low))


def mean_interval(
    values: Sequence[float] | Floats, *, clusters: Sequence[Hashable] | None = None, bounds: Bounds = UNBOUNDED
) -> ConfidenceInterval | None:
    """Interval of the mean over all values; None with fewer than two units.

    Raises ValueError for values that are not finite.
    """
    return mean_of_means_interval([values], clusters=[clusters], bounds=bounds)


def mean_of_means_interval(
    columns: Sequence[Sequence[float] | Floats],
    *,
    clusters: Sequence[Sequence[Hashable] | None] | None = None,
    bounds: Bounds = UNBOUNDED,
) -> ConfidenceInterval | None:
    """Interval of the unweighted mean of the columns' means (a benchmark's average over its columns).

    Columns that share a cluster name (an image asked about in several columns, a chain marked by several metrics)
    lose it together; of a column without clusters each value is a unit. None where there is no column, or one of them
    has fewer than two units. Raises ValueError for values that are not finite.
    """
    groups = clusters if clusters is not None else [None] * len(columns)
    arrays = [finite(column) for column in columns]
    sums, sizes = _shared_units(arrays, groups)
    alone = sum(float(values.var(ddof=1)) / len(values) for values in arrays if len(values) > 1)
    found = ClusterJackknife.of_ratios(sums, sizes, alone / max(1, len(arrays)) ** 2)
    return None if found is None else found.interval(bounds)


def unit_moves(figure: float | Floats, without: Floats, units: int | NDArray[np.intp]) -> Floats:
    """How far figures move without each unit (first axis), scaled by sqrt((units - 1) / units): the squares add up to
    the jackknife's variance. `units`: of each column, for some stand in few."""
    found: Floats = (without - figure) * np.sqrt((units - 1) / units)
    return found


def wilson(share: float, n: float) -> ConfidenceInterval:
    """Wilson's 95 % score interval of a share (0 to 1) of `n` > 0 values; scipy's takes whole numbers of hits only."""
    return _score(share, n, float(ndtri(_UPPER)))


def finite(values: Sequence[float] | Floats) -> Floats:
    """As an array. Raises ValueError where a value is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite; leave out what could not be scored, and count it")
    return array


def _score(share: float, n: float, quantile: float) -> ConfidenceInterval:
    scale = 1 + quantile**2 / n
    centre = (share + quantile**2 / (2 * n)) / scale
    half = quantile / scale * math.sqrt(share * (1 - share) / n + quantile**2 / (4 * n**2))
    return ConfidenceInterval(max(0.0, centre - half), min(1.0, centre + half))


def _weights(variances: Floats, sizes: Floats) -> Floats:
    """Shape (units,), sum 1: a column's variance (columns,) falls upon its units by their sizes (units, columns).

    Where no column varies, as if all values did alike.
    """
    shares = sizes / sizes.sum(axis=0)
    spread = variances if variances.any() else (shares**2).sum(axis=0)
    weights: Floats = shares @ (spread / spread.sum())
    return weights


def _shared_units(columns: Sequence[Floats], clusters: Sequence[Sequence[Hashable] | None]) -> tuple[Floats, Floats]:
    """Sums and numbers of values, each of shape (units, columns); a named unit is one across all columns."""
    numbers: dict[Hashable, int] = {}
    placed: list[list[int]] = []
    for k, (values, names) in enumerate(zip(columns, clusters, strict=True)):
        if names is not None and len(names) != len(values):
            raise ValueError(f"{len(values)} values but {len(names)} cluster names")
        keys = [("own", k, i) for i in range(len(values))] if names is None else [("shared", name) for name in names]
        placed.append([numbers.setdefault(key, len(numbers)) for key in keys])
    sums, sizes = np.zeros((len(numbers), len(columns))), np.zeros((len(numbers), len(columns)))
    for k, (values, index) in enumerate(zip(columns, placed, strict=True)):
        np.add.at(sums[:, k], index, values)
        np.add.at(sizes[:, k], index, 1.0)
    return sums, sizes
