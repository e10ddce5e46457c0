"""Paired comparison of two runs: by hand, and against scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from lmms_eval_ad2.scoring.metrics.intervals import FRACTION
from lmms_eval_ad2.scoring.metrics.paired_comparison import paired


def by_id(values: Sequence[float]) -> dict[str, float]:
    return {f"q{number:03}": value for number, value in enumerate(values)}


def test_mcnemar_agrees_with_the_binomial_test() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 2, 300).astype(float), rng.integers(0, 2, 300).astype(float)
    got = paired(by_id(list(a)), by_id(list(b)))
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    assert got.test == "mcnemar"
    assert got.p_value == pytest.approx(stats.binomtest(only_a, only_a + only_b).pvalue)
    assert got.difference == pytest.approx(a.mean() - b.mean())


def test_mcnemar_by_hand() -> None:
    # Five discordant, all for a: 2 / 2^5.
    got = paired(by_id([1] * 5 + [0, 1]), by_id([0] * 5 + [0, 1]))
    assert (got.n, got.test, got.p_value) == (7, "mcnemar", 2 / 32)
    assert paired(by_id([1, 0]), by_id([1, 0])).p_value == 1.0
    assert paired(by_id([1, 0]), by_id([0, 1])).p_value == 1.0


def test_sign_flips_agree_with_scipy() -> None:
    rng = np.random.default_rng(7)
    for size, tolerance in ((10, 1e-12), (60, 0.03)):
        a, b = rng.normal(0.3, 1, size), rng.normal(0, 1, size)
        got = paired(by_id(list(a)), by_id(list(b)))
        expected = stats.permutation_test(
            (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
        )
        assert got.test == "sign-flip"
        assert got.p_value == pytest.approx(expected.pvalue, abs=tolerance)


def test_sign_flips_by_hand() -> None:
    # Differences 1, 2, 3: of eight sign patterns only all plus and all minus reach 6.
    assert paired(by_id([1, 2, 3]), by_id([0, 0, 0])).p_value == 0.25
    assert paired(by_id([0.5, 0.5]), by_id([0.5, 0.5])).p_value == 1.0


def test_clusters_flip_together() -> None:
    a, b = by_id([0.9] * 8), by_id([0.1] * 8)
    two = {name: "left" if number < 4 else "right" for number, name in enumerate(a)}
    alone, together = paired(a, b), paired(a, b, clusters=two)
    assert alone.p_value == 2 / 2**8
    assert together.p_value == 0.5  # two units: of four patterns two reach the sum
    binary = paired(by_id([1.0] * 8), by_id([0.0] * 8), clusters=two)
    assert binary.test == "sign-flip"  # McNemar would take eight answers on two images for eight units


def test_ids_without_a_cluster_are_separate_units() -> None:
    a, b = by_id([1.0, 1.0]), by_id([0.0, 0.0])
    assert paired(a, b, clusters={}) == paired(a, b)
    assert paired(a, b, clusters={"q000": "q001"}).test == "mcnemar"


def test_only_common_ids_are_compared() -> None:
    got = paired({"x": 1.0, "y": 0.0, "only a": 0.0}, {"y": 0.5, "x": 0.0, "only b": 1.0})
    assert (got.n, got.mean_a, got.mean_b, got.difference) == (2, 0.5, 0.25, 0.25)
    assert got.ci is not None and got.ci.low <= got.difference <= got.ci.high
    with pytest.raises(ValueError, match="in common"):
        paired({"x": 1.0}, {"y": 1.0})


def test_one_unit_cannot_be_tested() -> None:
    got = paired({"x": 1.0, "y": 0.5}, {"x": 0.0, "y": 0.5}, clusters={"x": "image", "y": "image"})
    assert (got.ci, got.p_value, got.test) == (None, None, "none")
    assert got.difference == 0.5


def test_interval_of_few_clusters_is_students() -> None:
    """Three scenes: Student's t with two degrees of freedom."""
    a = by_id([1, 1, 1, 1, 1, 0])
    b = by_id([0, 0, 1, 0, 1, 0])
    scenes = {name: "xxyyzz"[number] for number, name in enumerate(a)}
    got = paired(a, b, clusters=scenes)  # by scene 1, 1/2, 0
    assert (got.units, got.difference) == (3, 0.5)
    assert got.ci is not None
    half = stats.t.ppf(0.975, 2) * np.sqrt(0.25 / 3)
    assert (got.ci.low, got.ci.high) == pytest.approx((0.5 - half, 0.5 + half))
    inside = paired(a, b, clusters=scenes, bounds=FRACTION).ci
    assert inside is not None and -1 < inside.low < 0.5 < inside.high < 1


def test_equal_answers_still_have_an_interval_around_zero() -> None:
    same = paired(by_id([1, 0, 1, 0]), by_id([1, 0, 1, 0]), bounds=FRACTION)
    assert same.difference == 0
    assert same.ci is not None and same.ci.high == -same.ci.low > 0.3
