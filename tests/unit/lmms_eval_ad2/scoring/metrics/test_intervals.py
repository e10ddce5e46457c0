"""Cluster intervals: hand-computed, compared with scipy, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lmms_eval_ad2.scoring.metrics.intervals import (
    FRACTION,
    NOT_NEGATIVE,
    PERCENT,
    ClusterJackknife,
    ConfidenceInterval,
    mean_interval,
    mean_of_means_interval,
    wilson,
)


def ends(interval: ConfidenceInterval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def width(interval: ConfidenceInterval | None) -> float:
    low, high = ends(interval)
    return high - low


def test_too_few_values_give_no_interval() -> None:
    assert mean_interval([]) is None
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, 0.0, 1.0], clusters=["a", "a", "a"]) is None
    assert mean_of_means_interval([]) is None
    assert mean_of_means_interval([[1.0, 0.0], [1.0]]) is None


def test_interval_without_clusters_and_bounds_is_students() -> None:
    values = np.random.default_rng(7).normal(3, 2, 12)
    theirs = stats.ttest_1samp(values, 0).confidence_interval()
    assert ends(mean_interval(values)) == pytest.approx((theirs.low, theirs.high))


def test_equal_clusters_give_the_interval_of_their_means() -> None:
    values, means = [0.0, 1.0, 4.0, 5.0, 8.0, 9.0], [0.5, 4.5, 8.5]
    theirs = stats.ttest_1samp(means, 0).confidence_interval()
    assert ends(mean_interval(values, clusters=list("aabbcc"))) == pytest.approx((theirs.low, theirs.high))


def test_clusters_of_unequal_size_by_hand() -> None:
    # Means without a, b, c: 2/4, 4/5, 4/5 of 4/7 (the jackknife's variance); sizes 3, 2, 2: effective number 49/17.
    values, names = [1, 1, 0, 1, 1, 0, 0], list("aaabbcc")
    variance = 2 / 3 * sum((m - 4 / 7) ** 2 for m in (2 / 4, 2 / 5, 4 / 5))
    half = stats.t.ppf(0.975, 49 / 17 - 1) * math.sqrt(variance)
    assert ends(mean_interval(values, clusters=names)) == pytest.approx((4 / 7 - half, 4 / 7 + half))


def test_clusters_with_equal_means_are_no_narrower_than_independent_values() -> None:
    values = [1.0, 0.0] * 4
    clustered = mean_interval(values, clusters=list("aabbccdd"))
    half = stats.t.ppf(0.975, 3) * stats.sem(values)
    assert ends(clustered) == pytest.approx((0.5 - half, 0.5 + half))


def test_bounded_interval_is_wilsons_with_students_quantile() -> None:
    low, high = ends(mean_interval([1.0] * 9 + [0.0], bounds=FRACTION))
    t, trials = stats.t.ppf(0.975, 9), 9  # 0.9 * 0.1 over s^2 / 10
    for end in (low, high):  # its ends are where the share lies t standard errors away
        assert abs(0.9 - end) == pytest.approx(t * math.sqrt(end * (1 - end) / trials))
    assert 0 < low < 0.9 < high < 1
    assert ends(mean_interval([100.0] * 9 + [0.0], bounds=PERCENT)) == pytest.approx((100 * low, 100 * high))


def test_interval_of_constant_values_depends_on_the_number_of_units() -> None:
    assert mean_interval([0.5] * 10) is None, "without bounds equal values say nothing about others"
    assert mean_interval([0.0] * 10, bounds=NOT_NEGATIVE) is None
    assert ends(mean_interval([1.0] * 10, bounds=FRACTION)) == pytest.approx(ends(wilson(1, 10)))
    assert ends(mean_interval([0.0] * 30, clusters=[i // 10 for i in range(30)], bounds=FRACTION)) == pytest.approx(
        ends(wilson(0, 3))
    )
    # Another value may be anything between the bounds.
    others = wilson(0, 10).high
    assert ends(mean_interval([0.25] * 10, bounds=FRACTION)) == pytest.approx(
        (0.25 - 0.25 * others, 0.25 + 0.75 * others)
    )


def test_half_open_bounds_are_kept() -> None:
    low, high = ends(mean_interval([0.1, 0.0, 3.0], bounds=NOT_NEGATIVE))
    assert low == 0 and high > 3


def test_copies_in_a_cluster_do_not_narrow_the_interval() -> None:
    values = np.random.default_rng(7).random(60)
    copied, names = np.repeat(values, 5), np.repeat(np.arange(60), 5).tolist()
    assert ends(mean_interval(copied, clusters=names)) == pytest.approx(ends(mean_interval(values)))
    assert width(mean_interval(copied)) < 0.6 * width(mean_interval(values))


def test_mean_of_means_weighs_columns_alike() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(0, 1, 200), rng.normal(10, 3, 50)
    low, high = ends(mean_of_means_interval([a, b]))
    assert (low + high) / 2 == pytest.approx((a.mean() + b.mean()) / 2)
    spread = math.sqrt(a.var() / 200 + b.var() / 50) / 2
    assert (high - low) / 2 == pytest.approx(1.96 * spread, rel=0.05)


def test_column_of_few_clusters_determines_the_quantile() -> None:
    """Three values with a large spread and three hundred with a small one: 2 degrees of freedom, not 300."""
    few, many = [0.0, 4.0, 8.0], np.random.default_rng(7).normal(0, 0.1, 300)
    expected = stats.t.ppf(0.975, 2) * stats.sem(few) / 2
    assert width(mean_of_means_interval([few, many])) / 2 == pytest.approx(expected, rel=0.02)


def test_columns_of_the_same_samples_are_not_independent() -> None:
    column = np.random.default_rng(3).random(200)
    names = [f"s{i}" for i in range(200)]
    one = mean_interval(column)
    both = mean_of_means_interval([column, column], clusters=[names, names])
    apart = mean_of_means_interval([column, column])
    assert ends(both) == pytest.approx(ends(one))
    assert width(apart) == pytest.approx(width(one) / 2**0.5, rel=0.02)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        mean_of_means_interval([column], clusters=[names, names])


def test_equal_units_in_every_column_bound_what_others_may_do() -> None:
    """Of 10 units none differs: 27.75 % of others may. A column moves the mean of five by a fifth of that."""
    few = wilson(0, 10).high
    assert few == pytest.approx(0.2775, abs=1e-4)
    abilities = [[1.0] * n for n in (45, 80, 60, 10, 95)]
    assert ends(mean_of_means_interval(abilities, bounds=FRACTION)) == pytest.approx((1 - few / 5, 1.0))
    alike = mean_of_means_interval([[0.0] * 10] * 5, bounds=FRACTION)
    assert ends(alike) == pytest.approx((0.0, wilson(0, 50).high)), "equal columns are pooled"
    names = [f"s{i}" for i in range(10)]
    shared = mean_of_means_interval([[0.0] * 10] * 5, clusters=[names] * 5, bounds=FRACTION)
    assert ends(shared) == pytest.approx((0.0, few)), "unless they are the same units"
    opposite = mean_of_means_interval([[1.0] * 10, [0.0] * 1000], bounds=FRACTION)
    assert ends(opposite) == pytest.approx((0.5 - few / 2, 0.5 + wilson(0, 1000).high / 2))


def test_bound_of_equal_units_is_the_maximum_over_the_columns() -> None:
    """Against a search: max (u + v) / 2 under 10 u / (1 - u) + 14 v / (1 - v) <= z^2."""
    found = mean_of_means_interval([[0.0] * 10, [0.0] * 14], bounds=FRACTION)
    used = np.linspace(0, stats.norm.ppf(0.975) ** 2, 100_001)
    rest = used[-1] - used
    assert ends(found)[1] == pytest.approx(((used / (10 + used) + rest / (14 + rest)) / 2).max(), abs=1e-9)


def test_paired_difference_leaves_out_the_same_units_of_both() -> None:
    """Differences 1, 0, 2 and 3, 5: means 1 and 4; each column weighs by the variance of its differences."""
    sizes = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 2)
    base = np.array([[70.0, 0.0], [10.0, 0.0], [40.0, 0.0], [0.0, 20.0], [0.0, 90.0]])
    more = np.array([[1, 0], [0, 0], [2, 0], [0, 3], [0, 5]])
    a = ClusterJackknife.of_ratios(base + more, sizes)
    b = ClusterJackknife.of_ratios(base, sizes)
    assert a is not None and b is not None
    drop = a.minus(b)
    assert drop.figure == pytest.approx(2.5)
    variances = np.array([1 / 3, 2 / 2])  # s^2 / n
    assert drop.moves @ drop.moves == pytest.approx(variances.sum() / 4)
    shares = variances / variances.sum()
    assert drop.weights == pytest.approx([*[shares[0] / 3] * 3, *[shares[1] / 2] * 2])
    half = stats.t.ppf(0.975, 1 / (drop.weights @ drop.weights) - 1) * math.sqrt(variances.sum() / 4)
    assert ends(drop.interval()) == pytest.approx((2.5 - half, 2.5 + half))
    assert a.minus(a).interval() is None


def test_jackknife_of_ratios_of_sums() -> None:
    sums, sizes = np.array([[1.0], [3.0], [0.0]]), np.array([[1.0], [4.0], [5.0]])
    found = ClusterJackknife.of_ratios(sums, sizes)
    assert found is not None
    assert found.figure == 0.4
    assert found.moves == pytest.approx([(m - 0.4) * math.sqrt(2 / 3) for m in (3 / 9, 1 / 6, 4 / 5)])
    assert found.weights == pytest.approx([0.1, 0.4, 0.5])
    assert ClusterJackknife.of_ratios(sums[:1], sizes[:1]) is None
    assert ClusterJackknife.of_ratios(sums, np.array([[1.0], [0.0], [0.0]])) is None, (
        "nothing is left without the first"
    )


def test_invalid_values_are_rejected() -> None:
    with pytest.raises(ValueError, match="not finite"):
        mean_interval([1.0, float("nan")])
    with pytest.raises(ValueError, match="cluster names"):
        mean_interval([1.0, 0.0], clusters=["a"])


def test_wilson_equals_textbook_values() -> None:
    tenth, none, all_ = wilson(0.1, 50), wilson(0.0, 10), wilson(1.0, 10)
    assert (tenth.low, tenth.high) == pytest.approx((0.0435, 0.2136), abs=1e-4)
    assert (none.low, all_.high) == pytest.approx((0.0, 1.0))
    assert none.high == pytest.approx(1 - all_.low)


def clustered_answers(
    rng: np.random.Generator, share: float, correlation: float, number: int
) -> tuple[list[float], list[int]]:
    """Right and wrong answers in `number` clusters of unequal size with an intra-cluster `correlation`."""
    sizes = np.maximum(1, rng.lognormal(math.log(8), 0.8, number).astype(int))
    cluster_share = rng.beta(share * (1 / correlation - 1), (1 - share) * (1 / correlation - 1), number)
    names = np.repeat(np.arange(number), sizes)
    return (rng.random(len(names)) < cluster_share[names]).astype(float).tolist(), names.tolist()


def percentile_bootstrap(rng: np.random.Generator, values: list[float], names: list[int]) -> tuple[float, float]:
    """Percentile bootstrap, for comparison."""
    sums, sizes = np.bincount(names, values), np.bincount(names)
    resampled = rng.integers(0, len(sums), (200, len(sums)))
    low, high = np.quantile(sums[resampled].sum(axis=1) / sizes[resampled].sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


@pytest.mark.parametrize("number", [3, 5, 10, 40])
def test_intervals_reach_their_coverage_with_few_clusters(number: int) -> None:
    rng = np.random.default_rng(number)
    ours, percentiles, rounds = 0, 0, 0
    for share in (0.3, 0.5, 0.8):
        for correlation in (0.1, 0.3):
            for _ in range(80):
                values, names = clustered_answers(rng, share, correlation, number)
                low, high = ends(mean_interval(values, clusters=names, bounds=FRACTION))
                ours += low <= share <= high
                low, high = percentile_bootstrap(rng, values, names)
                percentiles += low <= share <= high
                rounds += 1
    assert ours / rounds >= 0.93
    if number <= 5:
        assert percentiles / rounds < 0.87
    else:
        assert ours / rounds <= 0.985, "not by being wide"


@pytest.mark.parametrize("missed", [0.05, 0.2, 0.5])
def test_paired_intervals_of_a_mean_of_means_reach_their_coverage(missed: float) -> None:
    """The abilities of Bench2Drive: A succeeds everywhere, B misses a share of the ten routes of one, so the drop is
    a fifth of it. [0, 0] where no route differs would contain it in 41 % of the cases for 5 %."""
    number = [45, 80, 60, 10, 95]
    sizes = np.zeros((sum(number), 5))
    sizes[np.arange(sum(number)), np.repeat(np.arange(5), number)] = 1.0
    a = ClusterJackknife.of_ratios(100 * sizes, sizes)
    rng = np.random.default_rng(5)
    hits, same, rounds = 0, 0, 400
    for _ in range(rounds):
        failed = (rng.random(len(sizes)) < missed)[:, None] & (np.arange(5) == 3)
        b = ClusterJackknife.of_ratios(100 * sizes * ~failed, sizes)
        assert a is not None and b is not None
        low, high = ends(a.minus(b).interval((-100.0, 100.0)))
        hits += low <= 20 * missed <= high
        same += low == -high
    assert hits / rounds >= 0.93
    assert missed > 0.05 or same / rounds > 0.5
