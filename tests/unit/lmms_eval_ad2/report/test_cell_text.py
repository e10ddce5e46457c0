"""Figures and counts as text."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.report import cell_text


@pytest.mark.parametrize(
    ("cost", "text"), [(0.269238, "0.27"), (0.003412, "0.0034"), (12.34567, "12.35"), (0, "0"), (None, "None")]
)
def test_the_cost_of_a_judge_is_rounded(cost: float | None, text: str) -> None:
    assert cell_text.usage({"requests": 168, "cost": cost}) == f"requests 168, cost {text}"
