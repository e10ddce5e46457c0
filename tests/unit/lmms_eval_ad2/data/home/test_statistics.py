"""Counts by part, sub-task and conditions, worked out by hand, and their tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.library_rows import row

from lmms_eval_ad2.cli.data import render
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.data.home.statistics import DatasetStatistics, statistics


def counted(home: Path, records: list[Record]) -> DatasetStatistics:
    write_dataset("d", "test", records, image_root=home, source={}, home=home, resume=False)
    return statistics(open_dataset("d", "test", home=home))


def conditions(weather: str, severity: str = "") -> dict[str, str]:
    return {"weather": weather, "severity": severity, "tags": []}  # type: ignore[dict-item]


RECORDS = [
    row(1, task="relation", subtask="social", scene=conditions("fog", "severe")),
    row(2, task="relation", subtask="social", scene=conditions("fog", "light")),
    row(3, task="relation", subtask="social", scene=conditions("fog", "light")),
    row(4, task="relation", subtask="causal", scene=conditions("night")),
    row(5, task="cot", subtask="holistic", scene={}),
]


def test_every_combination_is_counted(tmp_path: Path) -> None:
    found = counted(tmp_path, RECORDS)
    assert found.conditions == ("weather", "severity")
    assert found.to_json()["rows"] == [
        {"part": "cot", "subtask": "holistic", "weather": None, "severity": None, "n": 1},
        {"part": "relation", "subtask": "causal", "weather": "night", "severity": None, "n": 1},
        {"part": "relation", "subtask": "social", "weather": "fog", "severity": "light", "n": 2},
        {"part": "relation", "subtask": "social", "weather": "fog", "severity": "severe", "n": 1},
    ]
    assert found.n == 5 and found.total(weather="fog") == 3 and found.total(part="relation", severity="") == 1


def test_the_table_has_severities_in_the_cells_of_weather(tmp_path: Path) -> None:
    lines = [line.split("  ") for line in render(counted(tmp_path, RECORDS)).splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert rows[2] == ["by weather; in brackets: light / severe, the rest states none"]
    assert rows[3] == ["part", "sub-task", "fog", "night", "not stated", "all"]
    assert rows[5:] == [
        ["cot", "holistic", "0", "0", "1 (0/0)", "1 (0/0)"],
        ["relation", "causal", "0", "1 (0/0)", "0", "1 (0/0)"],
        ["relation", "social", "3 (2/1)", "0", "0", "3 (2/1)"],
        ["all", "3 (2/1)", "1 (0/0)", "1 (0/0)", "5 (2/1)"],
    ]


def test_other_benchmarks_have_their_own_conditions(tmp_path: Path) -> None:
    records = [row(i, task="planning", subtask="goal", meta={"source": f"source {i % 13:02}"}) for i in range(26)]
    found = counted(tmp_path, records)
    assert found.conditions == ("source",)
    text = render(found)
    assert "by source\nsource " in text and "planning/goal" in text, "13 columns do not fit: values are rows"
    assert [line.split()[-1] for line in text.splitlines()[-2:]] == ["2", "26"]
    assert "by part and sub-task" in render(counted(tmp_path, [row(1)]))


def test_a_damaged_part_is_one_message(tmp_path: Path) -> None:
    counted(tmp_path, RECORDS)
    dataset = open_dataset("d", "test", home=tmp_path)
    dataset.parts[0].write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    with pytest.raises(Ad2Error, match=r"records-00000\.parquet"):
        statistics(dataset)
