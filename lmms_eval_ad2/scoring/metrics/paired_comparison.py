"""Paired comparison of two runs: the difference of their means, its interval, and a test that respects clusters.

Samples that share evidence (an image, a scene) are not independent: the test flips the sign of whole groups, and the
interval leaves out whole groups. Only the random sign flips depend on the seed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lmms_eval_ad2.scoring.metrics.intervals import (
    UNBOUNDED,
    Bounds,
    ConfidenceInterval,
    Floats,
    finite,
    mean_interval,
)

_CELLS = 2_000_000  # signs drawn at once: limits their memory to about 50 MB
_EXACT_UNITS = 14  # up to this number of units all 2^n sign flips are enumerated
_FLIPS = 10_000  # random sign flips for more units: p-values down to 0.0001


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two runs on the samples that both answered. `difference` is a minus b, `ci` its 95 % interval (intervals.py).

    `units`: number of clusters plus samples without one. `p_value` is two-sided, None for fewer than two units; `test`
    is "mcnemar", "sign-flip" or "none".
    """

    n: int
    units: int
    mean_a: float
    mean_b: float
    difference: float
    ci: ConfidenceInterval | None
    p_value: float | None
    test: str


def paired(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    clusters: Mapping[str, str] | None = None,
    bounds: Bounds = UNBOUNDED,
    seed: int = 0,
) -> PairedComparison:
    """Compare two runs over their common ids. Raises ValueError if there is none.

    McNemar's exact test if all values are 0 or 1 and every unit is a single sample; otherwise a sign-flip permutation
    test of the differences summed per unit: all sign flips for up to 14 units with a difference, else 10,000 random
    ones plus the observed one. An id that is not in `clusters` is a unit of its own. `bounds`: lowest and highest
    possible value of a run.
    """
    ids = sorted(a.keys() & b.keys())
    if not ids:
        raise ValueError("the two runs have no sample in common")
    left, right = finite([a[i] for i in ids]), finite([b[i] for i in ids])
    groups = [("own", i) if clusters is None or i not in clusters else ("shared", clusters[i]) for i in ids]
    sums = _summed(left - right, groups)
    binary = len(sums) == len(ids) and bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
    p_value: float | None
    if len(sums) < 2:
        test, p_value = "none", None
    elif binary:
        test, p_value = "mcnemar", _mcnemar(int((left > right).sum()), int((left < right).sum()))
    else:
        test, p_value = "sign-flip", _sign_flip(sums, np.random.default_rng(seed))
    width = bounds[1] - bounds[0]  # values in [low, high] differ by at most high - low, in either direction
    ci = mean_interval(left - right, clusters=groups, bounds=(-width, width))
    mean_a, mean_b, difference = float(left.mean()), float(right.mean()), float((left - right).mean())
    return PairedComparison(
        n=len(ids),
        units=len(sums),
        mean_a=mean_a,
        mean_b=mean_b,
        difference=difference,
        ci=ci,
        p_value=p_value,
        test=test,
    )


def _summed(differences: Floats, groups: Sequence[Hashable]) -> Floats:
    """The sum of the differences in each group, shape (groups,)."""
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(name, len(numbers)) for name in groups], dtype=np.intp)
    return np.bincount(index, weights=differences).astype(np.float64)


def _mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value of the samples that only one run answered correctly, computed in integers.

    Under the null hypothesis only_a is binomial(n, 1/2): p = min(1, 2 * sum_{k <= min(only_a, only_b)} C(n, k) / 2^n).
    """
    n = only_a + only_b
    term = total = 1  # C(n, 0)
    for k in range(min(only_a, only_b)):
        term = term * (n - k) // (k + 1)  # C(n, k + 1)
        total += term
    return min(1.0, 2 * total / 2**n)


def _sign_flip(differences: Floats, rng: np.random.Generator) -> float:
    """Two-sided p-value of |sum_g d_g|: the share of sign vectors s in {-1, 1}^G with |sum_g s_g d_g| at least that.

    d_g is the difference of unit g; units with d_g = 0 do not change a sum.
    """
    units = differences[differences != 0]
    observed = abs(float(units.sum()))
    edge = observed - 1e-12 * max(1.0, float(np.abs(units).sum()))  # sums that differ by rounding only are ties
    if len(units) <= _EXACT_UNITS:
        codes = np.arange(2 ** len(units))[:, None] >> np.arange(len(units))  # bit g of a code is the sign of unit g
        sums = np.abs((1.0 - 2.0 * (codes & 1)) @ units)
        return float((sums >= edge).mean())
    hits, step = 0, max(1, _CELLS // len(units))
    for start in range(0, _FLIPS, step):
        signs = rng.integers(0, 2, size=(min(step, _FLIPS - start), len(units)), dtype=np.int8)
        sums = np.abs(2.0 * (signs @ units) - units.sum())  # sum of s_g d_g for s_g = 2 * sign - 1
        hits += int((sums >= edge).sum())
    return (hits + 1) / (_FLIPS + 1)  # the observed sign vector counts, so p is never 0
