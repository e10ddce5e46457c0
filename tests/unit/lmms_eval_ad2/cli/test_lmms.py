"""What our script changes of lmms-eval's command line."""

from __future__ import annotations

from typing import Any

import pytest

from lmms_eval_ad2.cli.lmms import _of_others, value_of


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (["ad2demo_relation", "bench_ad2"], ""),
        (["ad2demo_relation", "mmmu_val"], "table of results"),
        (["mmmu_val"], "table of results"),
    ],
)
def test_the_table_of_lmms_eval_is_left_out_if_ours_has_all_tasks(names: list[str], table: str) -> None:
    def make_table(results: Any, column: str = "results", sort_results: bool = False) -> str:
        return f"table of {column}"

    assert _of_others(make_table)({"results": dict.fromkeys(names)}) == table


def test_the_last_value_of_an_option_counts() -> None:
    assert value_of(["--limit", "5", "--limit=2", "--other", "x"], "--limit") == "2"
    assert value_of(["--limit"], "--limit") is None and value_of([], "--limit") is None
