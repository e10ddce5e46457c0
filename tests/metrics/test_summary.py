"""Intervals and tests: by hand, against scipy, and against simulation."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from lmms_eval_ad2.metrics.summary import (
    Interval,
    bootstrap_mean,
    bootstrap_mean_of_means,
    paired,
    standard_error,
    wilson,
)


def test_an_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap_mean([0.5] * 10) == Interval(0.5, 0.5)


def test_too_little_gives_no_interval() -> None:
    assert bootstrap_mean([]) is None
    assert bootstrap_mean([1.0]) is None
    assert bootstrap_mean([1.0, 0.0, 1.0], clusters=["a", "a", "a"]) is None
    assert bootstrap_mean_of_means([]) is None
    assert bootstrap_mean_of_means([[1.0, 0.0], [1.0]]) is None
    assert standard_error([1.0]) is None
    assert standard_error([1.0, 2.0], ["a", "a"]) is None


def test_the_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(3, 2, 400)
    ours = bootstrap_mean(values, resamples=5000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=5000, method="percentile", rng=1).confidence_interval
    assert ours is not None
    assert ours.low == pytest.approx(theirs.low, abs=0.03)
    assert ours.high == pytest.approx(theirs.high, abs=0.03)
    half = stats.norm.ppf(0.975) * values.std() / 20
    assert (ours.high - ours.low) / 2 == pytest.approx(half, rel=0.05)


def test_two_values_by_hand() -> None:
    # Means of two draws of 0 and 1: 0, 1/2, 1/2, 1, a quarter each; both tails hold more than 2.5 %.
    assert bootstrap_mean([0.0, 1.0]) == Interval(0.0, 1.0)
    assert bootstrap_mean([0.0, 1.0], level=0.4) == Interval(0.5, 0.5)


def test_the_seed_decides() -> None:
    rng = np.random.default_rng(7)
    values = rng.random(50)
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(list(values), seed=3)
    assert bootstrap_mean(values, seed=3) != bootstrap_mean(values, seed=4)


def test_copies_of_a_value_in_one_cluster_add_nothing() -> None:
    rng = np.random.default_rng(7)
    values = rng.random(60)
    copied = np.repeat(values, 5)
    names = np.repeat(np.arange(60), 5).tolist()
    single, clustered, naive = bootstrap_mean(values), bootstrap_mean(copied, clusters=names), bootstrap_mean(copied)
    assert single is not None and clustered is not None and naive is not None
    assert clustered.low == pytest.approx(single.low) and clustered.high == pytest.approx(single.high)
    assert naive.high - naive.low < 0.6 * (clustered.high - clustered.low)
    assert standard_error(copied, names) == pytest.approx(standard_error(values))


def test_clusters_of_unequal_size() -> None:
    # Clusters (1, 1, 1) and (0): draws give 1, 3/4, 3/4, 0.
    interval = bootstrap_mean([1, 1, 1, 0], clusters=["a", "a", "a", "b"])
    assert interval == Interval(0.0, 1.0)
    assert bootstrap_mean([1, 1, 1, 0], clusters=["a", "a", "a", "b"], level=0.4) == Interval(0.75, 0.75)


def test_standard_error_agrees_with_scipy() -> None:
    rng = np.random.default_rng(7)
    values = rng.random(100)
    assert standard_error(values) == pytest.approx(stats.sem(values))
    assert standard_error(values, list(range(100))) == pytest.approx(stats.sem(values))


def test_clustered_standard_error_by_hand() -> None:
    # Mean 1/2; residual sums +1 and -1; sqrt(2/1 * (1 + 1)) / 4 = 1/2.
    assert standard_error([1, 1, 0, 0], ["a", "a", "b", "b"]) == pytest.approx(0.5)


def test_mean_of_means_weighs_columns_alike() -> None:
    rng = np.random.default_rng(7)
    interval = bootstrap_mean_of_means([[1.0] * 3, [0.0] * 300])
    assert interval == Interval(0.5, 0.5)
    a, b = rng.normal(0, 1, 200), rng.normal(10, 3, 50)
    got = bootstrap_mean_of_means([a, b], resamples=5000)
    assert got is not None
    spread = math.sqrt(a.var() / 200 + b.var() / 50) / 2
    assert (got.low + got.high) / 2 == pytest.approx((a.mean() + b.mean()) / 2, abs=0.05)
    assert (got.high - got.low) / 2 == pytest.approx(1.96 * spread, rel=0.08)


def test_mean_of_means_takes_clusters_by_column() -> None:
    rng = np.random.default_rng(7)
    column = np.repeat(rng.random(20), 4)
    names = np.repeat(np.arange(20), 4).tolist()
    plain = bootstrap_mean_of_means([column, column])
    clustered = bootstrap_mean_of_means([column, column], clusters=[names, None])
    assert plain is not None and clustered is not None
    assert clustered.high - clustered.low > plain.high - plain.low
    with pytest.raises(ValueError, match=r"shorter|longer"):
        bootstrap_mean_of_means([column], clusters=[names, names])


def test_bad_values_are_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        bootstrap_mean([1.0, float("nan")])
    with pytest.raises(ValueError, match="cluster names"):
        bootstrap_mean([1.0, 0.0], clusters=["a"])
    with pytest.raises(ValueError, match="level"):
        bootstrap_mean([1.0, 0.0], level=95)


def test_memory_stays_bounded() -> None:
    rng = np.random.default_rng(7)
    values = rng.random(70_000)
    tracemalloc.start()
    interval = bootstrap_mean(values, resamples=300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert interval is not None
    assert peak < 100e6


def dictionary(values: Sequence[float]) -> dict[str, float]:
    return {f"q{number:03}": value for number, value in enumerate(values)}


def test_mcnemar_agrees_with_the_binomial_test() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 2, 300).astype(float), rng.integers(0, 2, 300).astype(float)
    got = paired(dictionary(list(a)), dictionary(list(b)))
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    assert got.test == "mcnemar"
    assert got.p_value == pytest.approx(stats.binomtest(only_a, only_a + only_b).pvalue)
    assert got.difference == pytest.approx(a.mean() - b.mean())


def test_mcnemar_by_hand() -> None:
    # Five discordant, all for a: 2 / 2^5.
    got = paired(dictionary([1] * 5 + [0, 1]), dictionary([0] * 5 + [0, 1]))
    assert (got.n, got.test, got.p_value) == (7, "mcnemar", 2 / 32)
    assert paired(dictionary([1, 0]), dictionary([1, 0])).p_value == 1.0
    assert paired(dictionary([1, 0]), dictionary([0, 1])).p_value == 1.0


def test_sign_flips_agree_with_scipy() -> None:
    rng = np.random.default_rng(7)
    for size, tolerance in ((10, 1e-12), (60, 0.03)):
        a, b = rng.normal(0.3, 1, size), rng.normal(0, 1, size)
        got = paired(dictionary(list(a)), dictionary(list(b)))
        want = stats.permutation_test(
            (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
        )
        assert got.test == "sign-flip"
        assert got.p_value == pytest.approx(want.pvalue, abs=tolerance)


def test_sign_flips_by_hand() -> None:
    # Differences 1, 2, 3: of eight sign patterns only all plus and all minus reach 6.
    assert paired(dictionary([1, 2, 3]), dictionary([0, 0, 0])).p_value == 0.25
    assert paired(dictionary([0.5, 0.5]), dictionary([0.5, 0.5])).p_value == 1.0


def test_clusters_flip_together() -> None:
    a, b = dictionary([0.9] * 8), dictionary([0.1] * 8)
    two = {name: "left" if number < 4 else "right" for number, name in enumerate(a)}
    alone, together = paired(a, b), paired(a, b, clusters=two)
    assert alone.p_value == 2 / 2**8
    assert together.p_value == 0.5  # two units: of four patterns two reach the sum
    binary = paired(dictionary([1.0] * 8), dictionary([0.0] * 8), clusters=two)
    assert binary.test == "sign-flip"  # McNemar would take eight answers on two images for eight units


def test_ids_without_a_cluster_are_units_of_their_own() -> None:
    a, b = dictionary([1.0, 1.0]), dictionary([0.0, 0.0])
    assert paired(a, b, clusters={}) == paired(a, b)
    assert paired(a, b, clusters={"q000": "q001"}).test == "mcnemar"


def test_only_what_both_answered_is_compared() -> None:
    got = paired({"x": 1.0, "y": 0.0, "only a": 0.0}, {"y": 0.5, "x": 0.0, "only b": 1.0})
    assert (got.n, got.mean_a, got.mean_b, got.difference) == (2, 0.5, 0.25, 0.25)
    assert got.ci is not None and got.ci.low <= got.difference <= got.ci.high
    with pytest.raises(ValueError, match="in common"):
        paired({"x": 1.0}, {"y": 1.0})


def test_one_unit_cannot_be_tested() -> None:
    got = paired({"x": 1.0, "y": 0.5}, {"x": 0.0, "y": 0.5}, clusters={"x": "image", "y": "image"})
    assert (got.ci, got.p_value, got.test) == (None, None, "none")
    assert got.difference == 0.5


def test_intervals_hold_what_they_promise() -> None:
    hits = 0
    for seed in range(200):
        interval = bootstrap_mean(np.random.default_rng(seed).random(60), seed=seed, resamples=400)
        assert interval is not None
        hits += interval.low <= 0.5 <= interval.high
    assert 0.89 <= hits / 200 <= 0.99


def test_columns_that_share_their_samples_are_resampled_together() -> None:
    """Two copies of one column have the interval of one, not of a mean of independent ones."""
    rng = np.random.default_rng(3)
    column = rng.random(200)
    names = [f"s{i}" for i in range(200)]
    one = bootstrap_mean(column, resamples=4000)
    both = bootstrap_mean_of_means([column, column], clusters=[names, names], resamples=4000)
    apart = bootstrap_mean_of_means([column, column], resamples=4000)
    assert one is not None and both is not None and apart is not None
    assert both.high - both.low == pytest.approx(one.high - one.low, rel=0.06)
    assert apart.high - apart.low == pytest.approx((one.high - one.low) / 2**0.5, rel=0.06)


def test_a_draw_that_empties_a_column_is_left_out() -> None:
    interval = bootstrap_mean_of_means([[1.0] * 2, [0.0] * 3], clusters=[["a", "b"], ["c", "d", "e"]])
    assert interval == Interval(0.5, 0.5)


def test_wilson_by_the_textbook() -> None:
    tenth, none, all_ = wilson(0.1, 50), wilson(0.0, 10), wilson(1.0, 10)
    assert (tenth.low, tenth.high) == pytest.approx((0.0435, 0.2136), abs=1e-4)
    assert (none.low, all_.high) == pytest.approx((0.0, 1.0))
    assert none.high == pytest.approx(1 - all_.low)
