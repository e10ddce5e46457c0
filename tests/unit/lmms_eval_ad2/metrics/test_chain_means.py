"""Chain-of-thought means by hand."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.metrics.chain import cot_mean, djss, orcs, percent, sacs, slps


def test_means_in_percent() -> None:
    assert sacs([10, 8, 6, 4, 2]) == 60.0
    assert slps([7, 8, 9, 10]) == 85.0
    assert orcs(7) == 70.0
    assert djss(1) == 10.0
    assert cot_mean(60.0, 85.0, 70.0, 10.0) == 56.25


def test_what_is_missing_stays_missing() -> None:
    assert sacs([10, None, 8]) is None
    assert sacs([]) is None
    assert slps([]) is None  # a chain of one step has no pairs
    assert orcs(None) is None
    assert djss(None) is None
    assert cot_mean(60.0, None, 70.0, 10.0) is None


@pytest.mark.parametrize("score", (0, 11, -1, 100, float("nan")))
def test_scores_outside_the_scale_are_refused(score: float) -> None:
    with pytest.raises(ValueError, match="between 1 and 10"):
        percent(score)
    with pytest.raises(ValueError, match="between 1 and 10"):
        sacs([5, score])
