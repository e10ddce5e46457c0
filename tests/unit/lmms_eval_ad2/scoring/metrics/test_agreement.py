"""Agreement of raters against worked examples of the literature and against other libraries."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmms_eval_ad2.scoring.metrics.agreement import krippendorff_alpha, spearman, weighted_kappa

# Krippendorff 2011, "D": four observers, twelve units, gaps. Published there: 0.743, 0.815, 0.849.
OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "1233244125" + "1.")
UNITS = [[int(row[i]) for row in OBSERVERS if row[i] != "."] for i in range(12)]


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_example(level: str, published: float) -> None:
    assert krippendorff_alpha(UNITS, level) == pytest.approx(published, abs=0.0006)  # type: ignore[arg-type]


def test_alpha_of_two_observers_and_two_values() -> None:
    """Krippendorff 2011, "A": ten units, two observers, binary: 0.095."""
    one, two = "0100000010", "1110010000"
    units = [[a, b] for a, b in zip(one, two, strict=True)]
    assert krippendorff_alpha(units, "nominal") == pytest.approx(0.095, abs=0.0006)


def test_undefined_agreement_is_none() -> None:
    assert krippendorff_alpha([]) is None
    assert krippendorff_alpha([[1], [2]]) is None  # no unit has two ratings
    assert krippendorff_alpha([[3, 3], [3, 3]]) is None  # without variation alpha is undefined
    assert weighted_kappa([], [], (1, 5)) is None
    assert weighted_kappa([3, 3], [3, 3], (1, 5)) is None
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_perfect_and_opposite_ratings() -> None:
    assert krippendorff_alpha([[1, 1], [5, 5]]) == 1.0
    assert weighted_kappa([1, 5, 2], [1, 5, 2], (1, 5)) == 1.0
    # Two raters who swap the ends: observed 2*16, expected (2*2*0 + ... ) = 16: 1 - 32/16.
    assert weighted_kappa([1, 5], [5, 1], (1, 5)) == -1.0
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)


def test_kappa_rejects_ratings_outside_the_scale() -> None:
    with pytest.raises(ValueError, match="from 1 to 5"):
        weighted_kappa([6], [1], (1, 5))
    with pytest.raises(ValueError, match="same units"):
        weighted_kappa([1], [1, 2], (1, 5))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=20))
@example([[1], [2, 2]])  # only equal values are paired
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_equals_the_krippendorff_library(level: str, units: list[list[int]]) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    ours = krippendorff_alpha(units, level)  # type: ignore[arg-type]
    columns = [[*values, *[math.nan] * (4 - len(values))] for values in units]  # a missing rating is NaN
    raters = np.array(columns, float).T
    try:
        with np.errstate(invalid="ignore"):  # 0 / 0: the paired values do not differ
            theirs = krippendorff.alpha(reliability_data=raters, level_of_measurement=level)
    except ValueError as exc:
        assert re.search(r"at least one unit|more than one value", str(exc))
        theirs = math.nan
    if ours is None:
        assert math.isnan(theirs)
    else:
        assert ours == pytest.approx(theirs, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=30))
def test_kappa_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    for weights in ("linear", "quadratic"):
        ours = weighted_kappa(first, second, (1, 5), weights)  # type: ignore[arg-type]
        if ours is None:
            continue
        theirs = sklearn.cohen_kappa_score(first, second, labels=[1, 2, 3, 4, 5], weights=weights)
        assert ours == pytest.approx(theirs, abs=1e-9)
