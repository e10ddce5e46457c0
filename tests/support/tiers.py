"""How much a test does in each tier: `make quick`, `make test` (default), `make verify`, `make soak`.

The Makefile sets AD2_TEST_TIER. Property-based tests draw a few examples in quick and test, and all of them in verify;
tests of large counts do a tenth in verify and all in soak.
"""

from __future__ import annotations

import os

TIER = os.environ.get("AD2_TEST_TIER", "test")
FEW_EXAMPLES = 20


def examples(full: int) -> int:
    """Hypothesis examples of a property: at most 20 in quick and test, `full` in verify and soak."""
    return full if TIER in ("verify", "soak") else min(full, FEW_EXAMPLES)


def count(full: int) -> int:
    """Repetitions of a test of large counts: `full` in soak, a tenth in verify."""
    return full if TIER == "soak" else max(1, full // 10)
