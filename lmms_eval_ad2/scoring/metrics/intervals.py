"""95 % confidence intervals of means over clustered samples: a jackknife that leaves out one cluster at a time.

Questions about one image, scene or route are correlated. If `clusters` names the group of each value, whole groups are
left out, so that many questions about one image do not make an interval too narrow. A unit is a cluster, or a single
value if there are no clusters. Results have the unit of the values.

Symbols: G units; m the figure (a mean, or a mean of means), m(-g) the figure without unit g; w_g the share of unit g in
the variance, with sum 1.

    V = (G - 1) / G * sum_g (m(-g) - m)^2       jackknife variance (CV3 of MacKinnon, Nielsen and Webb 2023), but at
                                                least the variance of independent values
    G* = 1 / sum_g w_g^2                        effective number of units (Kish 1965): smaller if units are unequal
    t = Student's 0.975 quantile with max(1, G* - 1) degrees of freedom
    m +- t * sqrt(V)                            interval of unbounded values
    Wilson(p, n* = p (1 - p) / V, t)            interval of values between two bounds, p = m scaled to 0..1 (Dean and
                                                Pagano 2015): stays inside the bounds and keeps a width close to them

If the units of every column are equal, V is 0 and does not show how far others may differ. Without bounds there is
then no interval. With bounds, a share u_k of other units may lie at a bound. Wilson's interval for a share of 0 in G*_k
units contains the u with G*_k u / (1 - u) <= z^2, z = 1.96; so the distance to the limit in each direction is

    max_u sum_k u_k d_k / K    under    sum_k n_k u_k / (1 - u_k) <= z^2,    d_k = |bound - m_k|
    n_k = G*_k / sum_l r_kl,   r_kl = sum_g s_gk s_gl / (|s_k| |s_l|)

s_gk is the share of unit g in column k; n_k is smaller than G*_k for columns that share units. For one column, and for
the pooled units of equal columns, this is Wilson's interval; a column of few units moves a mean of K columns by 1 / K.

docs/architecture.md reports the coverage of these intervals and of alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]
Bounds = tuple[float, float]  # lowest and highest possible value; infinite if there is none

METHOD = "cluster jackknife"  # name in result files
UNBOUNDED: Bounds = (-math.inf, math.inf)
NOT_NEGATIVE: Bounds = (0.0, math.inf)
FRACTION: Bounds = (0.0, 1.0)
PERCENT: Bounds = (0.0, 100.0)

_UPPER = 0.975  # two-sided 95 %
_ROUNDING = 1e-18  # a smaller variance of values scaled to 0..1, or relative to an unbounded figure, is rounding error


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A two-sided interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ClusterJackknife:
    """The mean of one or more columns' figures with the leave-one-unit-out deviations of each.

    `figures`: of the columns, shape (columns,). `column_moves`: deviations of `unit_moves`, whose squares over units
    add up to the variance of a column, shape (units, columns). `shares`: share of each unit in each column, same shape,
    sum 1 over units. `floor`: the variance of the mean if all values were independent, the lower limit of V.
    """

    figures: Floats
    column_moves: Floats
    shares: Floats
    floor: float = 0.0

    @classmethod
    def of_ratios(cls, sums: Floats, sizes: Floats, floor: float = 0.0) -> ClusterJackknife | None:
        """Jackknife of the mean over columns of sum / size. `sums`, `sizes`: shape (units, columns).

        None if there is no column, or if a column has values in fewer than two units: its variance is then unknown.
        """
        total = sizes.sum(axis=0)
        remaining = total - sizes
        if not sizes.size or not (remaining > 0).all():
            return None
        figures = sums.sum(axis=0) / total
        # m(-g) of each column is the mean of the remaining values.
        by_column = unit_moves(figures, (sums.sum(axis=0) - sums) / remaining, (sizes > 0).sum(axis=0))
        return cls(figures, by_column, sizes / total, floor)

    @classmethod
    def of_moves(cls, figure: float, moves: Floats, weights: Floats) -> ClusterJackknife:
        """Jackknife of any figure from its `moves` (see unit_moves) and `weights`, both of shape (units,)."""
        return cls(np.array([figure]), moves[:, None], weights[:, None])

    @property
    def figure(self) -> float:
        """m, the mean over the columns."""
        return float(self.figures.mean())

    @property
    def moves(self) -> Floats:
        """Deviations of `figure`, shape (units,): their squares add up to V. A mean over columns is linear."""
        moves: Floats = self.column_moves.mean(axis=1)
        return moves

    @property
    def weights(self) -> Floats:
        """w_g, shape (units,), sum 1: the variance of each column split by the shares of its units.

        If no column varies, the variances are those of equally varying values: the sums of squared shares.
        """
        variances = (self.column_moves**2).sum(axis=0)
        by_column = variances if variances.any() else (self.shares**2).sum(axis=0)
        weights: Floats = self.shares @ (by_column / by_column.sum())
        return weights

    def minus(self, other: ClusterJackknife) -> ClusterJackknife:
        """Jackknife of the difference of two paired figures: the same units and columns, left out of both together."""
        shares = (self.shares + other.shares) / 2
        return ClusterJackknife(self.figures - other.figures, self.column_moves - other.column_moves, shares)

    def interval(self, bounds: Bounds = UNBOUNDED) -> ConfidenceInterval | None:
        """The 95 % interval of the figure; None without bounds if no unit differs. `bounds`: those of the values."""
        moves, weights = self.moves, self.weights
        variance = max(self.floor, float(moves @ moves))  # V
        quantile = float(stdtrit(max(1.0, 1 / float(weights @ weights) - 1), _UPPER))  # t, G* = 1 / sum w_g^2
        low, high = bounds
        if not math.isfinite(high - low):
            if variance <= _ROUNDING * self.figure**2:
                return None
            half = quantile * math.sqrt(variance)
            return ConfidenceInterval(max(low, self.figure - half), min(high, self.figure + half))
        # p and its variance on the scale 0..1.
        share, share_variance = (self.figure - low) / (high - low), variance / (high - low) ** 2
        if share_variance < _ROUNDING or not 0 < share < 1:
            return ConfidenceInterval(self.figure - self._unseen(low), self.figure + self._unseen(high))
        # n* = p (1 - p) / V: the number of independent 0/1 values whose share p has this variance.
        interval = _score_interval(share, share * (1 - share) / share_variance, quantile)
        return ConfidenceInterval(low + interval.low * (high - low), low + interval.high * (high - low))

    def _unseen(self, bound: float) -> float:
        """How far the figure may lie towards `bound` although no unit differs: max_u of the module's description.

        The maximum is at 1 - u_k = sqrt(n_k / d_k) / t, or u_k = 0 if that exceeds 1. Used up is then the sum of
        t sqrt(n_k d_k) - n_k over the columns with u_k > 0, which are those with the smallest n_k / d_k: the smallest t
        over all numbers of such columns is the right one.
        """
        distances = np.abs(bound - self.figures)
        overlap = self.shares.T @ self.shares  # sum_g s_gk s_gl, diagonal 1 / G*_k
        norms = np.sqrt(overlap.diagonal())
        units = 1 / (norms * (overlap / norms).sum(axis=1))[distances > 0]
        distances = distances[distances > 0]
        if not distances.size:
            return 0.0
        order = np.argsort(units / distances)
        units, distances = units[order], distances[order]
        t = ((ndtri(_UPPER) ** 2 + units.cumsum()) / np.sqrt(units * distances).cumsum()).min()
        unseen = np.maximum(0.0, 1 - np.sqrt(units / distances) / t)
        return float(unseen @ distances) / len(self.figures)


def mean_interval(
    values: Sequence[float] | Floats, *, clusters: Sequence[Hashable] | None = None, bounds: Bounds = UNBOUNDED
) -> ConfidenceInterval | None:
    """95 % interval of the mean of all values; None for fewer than two units.

    Raises ValueError for values that are not finite.
    """
    return mean_of_means_interval([values], clusters=[clusters], bounds=bounds)


def mean_of_means_interval(
    columns: Sequence[Sequence[float] | Floats],
    *,
    clusters: Sequence[Sequence[Hashable] | None] | None = None,
    bounds: Bounds = UNBOUNDED,
) -> ConfidenceInterval | None:
    """95 % interval of the unweighted mean of the columns' means (a benchmark's average over its columns).

    A cluster name that occurs in several columns (an image with questions in several columns, a chain rated by several
    metrics) is one unit, left out of all of them together. In a column without clusters each value is a unit. None if
    there is no column, or if one has fewer than two units. Raises ValueError for values that are not finite.
    """
    groups = clusters if clusters is not None else [None] * len(columns)
    arrays = [finite(column) for column in columns]
    sums, sizes = _shared_units(arrays, groups)
    # Variance of a mean of k means of independent values: (1 / k^2) * sum over columns of s^2 / n.
    independent = sum(float(values.var(ddof=1)) / len(values) for values in arrays if len(values) > 1)
    jackknife = ClusterJackknife.of_ratios(sums, sizes, independent / max(1, len(arrays)) ** 2)
    return None if jackknife is None else jackknife.interval(bounds)


def unit_moves(figure: float | Floats, without: Floats, units: int | NDArray[np.intp]) -> Floats:
    """Deviations (m(-g) - m) * sqrt((G - 1) / G), whose squares add up to the jackknife variance V.

    `without`: m(-g), units on the first axis. `units`: G, or the G of each column.
    """
    moves: Floats = (without - figure) * np.sqrt((units - 1) / units)
    return moves


def wilson(share: float, n: float) -> ConfidenceInterval:
    """Wilson's 95 % score interval of a share (0 to 1) of `n` > 0 values; scipy's accepts integer counts only."""
    return _score_interval(share, n, float(ndtri(_UPPER)))


def finite(values: Sequence[float] | Floats) -> Floats:
    """The values as an array. Raises ValueError if one is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite; leave out samples that could not be scored, and count them")
    return array


def _score_interval(share: float, n: float, quantile: float) -> ConfidenceInterval:
    """Wilson's interval: all q with |p - q| <= z * sqrt(q (1 - q) / n), for p = share and z = quantile.

    The two limits are (p + z^2 / 2n -+ z * sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n).
    """
    scale = 1 + quantile**2 / n
    centre = (share + quantile**2 / (2 * n)) / scale
    half = quantile / scale * math.sqrt(share * (1 - share) / n + quantile**2 / (4 * n**2))
    return ConfidenceInterval(max(0.0, centre - half), min(1.0, centre + half))


def _shared_units(columns: Sequence[Floats], clusters: Sequence[Sequence[Hashable] | None]) -> tuple[Floats, Floats]:
    """Sum and number of values per unit and column, each of shape (units, columns); equal names are one unit."""
    numbers: dict[Hashable, int] = {}
    rows: list[list[int]] = []
    for k, (values, names) in enumerate(zip(columns, clusters, strict=True)):
        if names is not None and len(names) != len(values):
            raise ValueError(f"{len(values)} values but {len(names)} cluster names")
        keys = [("own", k, i) for i in range(len(values))] if names is None else [("shared", name) for name in names]
        rows.append([numbers.setdefault(key, len(numbers)) for key in keys])
    sums, sizes = np.zeros((len(numbers), len(columns))), np.zeros((len(numbers), len(columns)))
    for k, (values, index) in enumerate(zip(columns, rows, strict=True)):
        np.add.at(sums[:, k], index, values)
        np.add.at(sizes[:, k], index, 1.0)
    return sums, sizes
