"""Variants of tasks, as a YAML file or the table of a finished run states them."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.scoring.variant import TaskVariant


def test_a_run_of_an_earlier_version_is_read_with_the_earlier_name_of_its_mark() -> None:
    table = {"benchmark": "ad2_bench", "part": "relation", "captions": [], "variant": {"mark": "text"}}
    assert TaskVariant.of_table(table, "ad2x_relation_mark_text").mark == "coords"


def test_the_earlier_name_of_a_mark_is_refused_in_a_task() -> None:
    with pytest.raises(Ad2Error, match=r"mine: metadata.ad2.mark is 'text'; expected one of .*'coords', 'reference'"):
        TaskVariant.from_dict({"benchmark": "ad2_bench", "part": "relation", "mark": "text"}, "mine")
