from __future__ import annotations

import math
from typing import Any

import pytest

from lmms_eval_ad2.core.numbers import is_bounded, is_number, is_whole


@pytest.mark.parametrize("value", [0, -3, 1.5, 1e308, 10**308, -0.0])
def test_finite_numbers_are_accepted(value: Any) -> None:
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, None, "1", math.nan, math.inf, -math.inf, 10**400, [1], 1 + 0j])
def test_other_values_are_not_numbers(value: Any) -> None:
    assert not is_number(value)


def test_bounded_numbers() -> None:
    assert is_bounded(-0.5) and is_bounded(10**15 - 1)
    assert not any(is_bounded(v) for v in (10**15, -1e15, 10**400, math.inf, math.nan, True, "1"))


def test_whole_numbers_and_their_bounds() -> None:
    assert is_whole(10**400) and is_whole(1, 1, 5) and is_whole(5, 1, 5)
    assert not any(is_whole(v, 1, 5) for v in (0, 6, True, 1.0, "1", None))
