"""Position bias among options: shares, distance and intervals, computed by hand."""

from __future__ import annotations

import random

import pytest

from lmms_eval_ad2.scoring.metrics.position import preference


def test_shares_and_distance_by_hand() -> None:
    found = preference([0, 0, 0, 1], [4, 4, 4, 4])
    assert found is not None
    assert found.counts == (3, 1, 0, 0)
    assert found.shares == (0.75, 0.25, 0.0, 0.0)
    assert found.expected == (0.25, 0.25, 0.25, 0.25)
    assert found.distance == pytest.approx((0.5 + 0 + 0.25 + 0.25) / 2)


def test_expected_shares_account_for_questions_with_fewer_options() -> None:
    found = preference([0, 1, 2, 3], [2, 2, 4, 4])
    assert found is not None
    assert found.expected == pytest.approx((0.375, 0.375, 0.125, 0.125))
    assert found.distance == pytest.approx((0.125 + 0.125 + 0.125 + 0.125) / 2)


def test_no_choices_and_one_cluster_have_no_interval() -> None:
    assert preference([], []) is None
    alone = preference([0, 1], [2, 2], clusters=["x", "x"])
    assert alone is not None
    assert alone.ci is None
    assert alone.share_ci == (None, None)


def test_position_that_was_not_offered_is_rejected() -> None:
    with pytest.raises(ValueError, match="not offered"):
        preference([2], [2])


def test_copies_in_a_cluster_do_not_narrow_the_interval() -> None:
    rng = random.Random(1)
    positions = [rng.randrange(4) for _ in range(40)]
    once = preference(positions, [4] * 40)
    copied = preference([p for p in positions for _ in range(10)], [4] * 400, clusters=[i // 10 for i in range(400)])
    assert once is not None
    assert copied is not None
    assert once.ci is not None
    assert copied.ci is not None
    assert (copied.ci.low, copied.ci.high) == pytest.approx((once.ci.low, once.ci.high))
    first, same = once.share_ci[0], copied.share_ci[0]
    assert first is not None
    assert same is not None
    assert (same.low, same.high) == pytest.approx((first.low, first.high))
    assert first.low < once.shares[0] < first.high


def test_no_preference_is_within_the_interval_of_a_few_even_clusters() -> None:
    """The distance cannot be below 0, so resampled intervals never contain 0."""
    found = preference([0, 1, 2, 3, 0, 1, 2, 2, 0, 0, 1, 3], [4] * 12, clusters=["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    assert found is not None
    assert found.ci is not None
    assert found.ci.low == 0 < found.distance < found.ci.high <= 1
