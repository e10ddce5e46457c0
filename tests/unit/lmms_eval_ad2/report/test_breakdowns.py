"""The table of repeated judgements."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_runs import cell, summary, task, write_run

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.report import load
from lmms_eval_ad2.report.breakdowns import repeat_grids
from lmms_eval_ad2.report.tables import render

BLOCK = {
    "n": 3, "score": {"by_repetition": [60.0, 61.0, 59.0], "mean": 60.0, "sd": 1.0}, "columns": {}, "partly_read": 2,
    "unread": 4,
}  # fmt: skip


def run(folder: Path, block: object) -> Path:
    score = cell(60.0, ci=[55, 65], judge="openai:m")
    return write_run(folder, summary({"t": task("coda_lm", "region", score, judge_repeats=block)}, judge="openai:m"))


def test_mean_deviation_and_each_judgement(tmp_path: Path) -> None:
    runs = load([run(tmp_path, BLOCK)])
    (grid,) = repeat_grids(runs)
    assert [column.title for column in grid.columns] == ["Mean", "SD", "1", "2", "3"]
    (row,) = grid.rows
    assert [c.official for c in row.cells if c] == [60, 1, 60, 61, 59]
    assert row.cells[0] is not None and row.cells[0].ci == (55, 65) and row.judge == "openai:m"
    for text in (render(runs), render(runs, wide=True), render(runs, markdown=True)):
        assert "Repeated judgements" in text and "1.00" in text
        assert "of 2 samples some judgements could not be read (4 replies)" in " ".join(text.split())


def test_without_repetitions_there_is_no_table(tmp_path: Path) -> None:
    path = write_run(tmp_path, summary({"t": task("coda_lm", "region", cell(60.0, judge="openai:m"))}))
    assert repeat_grids(load([path])) == []


def test_a_broken_block_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tasks\.t\.judge_repeats\.score\.by_repetition.*a list of percentages"):
        load([run(tmp_path, {**BLOCK, "score": {"by_repetition": ["x"]}})])
