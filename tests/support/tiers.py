"""How much a test does in each tier: `make quick`, `make test` (default), `make verify`, `make soak`.

The Makefile sets AD2_TEST_TIER. Property-based tests draw a few examples in quick and test, all of them in verify, and
ten times as many in soak; tests of large counts do a tenth in verify and all in soak (docs/soak.md).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

TIER = os.environ.get("AD2_TEST_TIER", "test")
FEW_EXAMPLES = 20


def examples(full: int) -> int:
    """Hypothesis examples of a property: at most 20 in quick and test, `full` in verify, ten times as many in soak."""
    if TIER == "soak":
        return 10 * full
    return full if TIER == "verify" else min(full, FEW_EXAMPLES)


def count(full: int) -> int:
    """Repetitions of a test of large counts: `full` in soak, a tenth in verify."""
    return full if TIER == "soak" else max(1, full // 10)


def seeds(full: int) -> list[Any]:
    """Parameters of a soak test: `count(full)` seeds from 1. A test named `test_x[seed17]` can be repeated alone.

    `[0, *seeds(full)]` keeps one repetition, seed 0, in the tier of its file.
    """
    return [pytest.param(seed, marks=pytest.mark.soak, id=f"seed{seed}") for seed in range(1, count(full) + 1)]
