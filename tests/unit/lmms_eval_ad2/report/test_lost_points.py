"""`ad2 report --wrong`: samples below full marks, worst first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.report.lost_points import lost_points, render
from lmms_eval_ad2.report.text_table import columns_of

BASE, COT = "ad2_perception_base", "ad2_cot"


def run_of(folder: Path, model: str = "toy", **rows: list[dict[str, Any]]) -> Path:
    tables = {name: task("ad2_bench", "perception_base", cell(50.0, n=len(r))) for name, r in rows.items()}
    return write_run(folder, summary(tables, label=model, model=model), rows)


def test_worst_first_and_equal_ones_in_order(tmp_path: Path) -> None:
    rows = [
        sample("full", 100.0),
        sample("half", 50.0),
        sample("z", 0.0),
        sample("a", 0.0, status="unparsed", reason="hedged"),
    ]
    rows.append(sample("failed", None, status="unscored", reason="request_failed"))
    runs = report.load([run_of(tmp_path, **{BASE: rows, COT: [sample("c", 10.0)]})])
    found = lost_points(runs, None, 20)
    assert [(one.id, one.score, one.read) for one in found.samples] == [
        ("z", 0, "B"), ("a", 0, "hedged"), ("c", 10, "B"), ("half", 50, "B"),
    ]  # fmt: skip
    assert (found.lost, found.unscored, found.asked) == (4, 1, 6)
    assert [one.id for one in lost_points(runs, COT, 20).samples] == ["c"]
    assert [one.id for one in lost_points(runs, None, 2).samples] == ["z", "a"]


def test_the_list_and_its_commands(tmp_path: Path) -> None:
    rows = [sample(f"s {i}", 0.0, status="unparsed", reason="hedged") for i in range(3)]
    rows.append(sample("u", None, status="unscored", reason="timeout"))
    text = render(lost_points(report.load([run_of(tmp_path, **{BASE: rows})]), None, 2), ["runs/x y"])
    assert text.splitlines() == [
        f"toy, {BASE}",
        "score  sample  read as           reference",
        "-----  ------  ----------------  ---------",
        "  0.0  s 0     unparsed: hedged  yes",
        "  0.0  s 1     unparsed: hedged  yes",
        "",
        "3 of 4 samples lost points; shown 2, see --limit",
        "1 more have no score, which is not the model's fault; the reasons: ad2 report 'runs/x y' --wide",
        f"one of them: ad2 report 'runs/x y' --sample 's 0' --task {BASE}",
    ]


def test_nothing_wrong(tmp_path: Path) -> None:
    runs = report.load([run_of(tmp_path, **{BASE: [sample("a", 100.0)]})])
    assert render(lost_points(runs, None, 20), ["r"]) == "0 of 1 samples lost points\n"


def test_floors_are_left_out_beside_models(tmp_path: Path) -> None:
    rows = {BASE: [sample("a", 0.0)]}
    floor, model = run_of(tmp_path / "f", "ad2_chance", **rows), run_of(tmp_path / "m", **rows)
    assert {one.run for one in lost_points(report.load([floor, model]), None, 9).samples} == {"toy"}
    assert {one.run for one in lost_points(report.load([floor]), None, 9).samples} == {"ad2_chance"}


def test_hostile_texts_are_short_and_printable(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e" + "x" * 500 + "\nerror: no"
    text = render(lost_points(report.load([run_of(tmp_path, **{BASE: [sample(evil, 0.0, raw=evil)]})]), None, 9), ["r"])
    assert not {"\x1b", "\u202e"} & set(text) and "\nerror: no" not in text
    assert max(columns_of(line) for line in text.splitlines() if not line.startswith("one of")) <= 100


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of(tmp_path, **{BASE: [sample("a", 0.0), sample("b", 100.0)]})
    assert main(["report", str(folder), "--wrong", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["wrong"]
    assert (found["lost"], found["asked"], [one["id"] for one in found["samples"]]) == (1, 2, ["a"])
