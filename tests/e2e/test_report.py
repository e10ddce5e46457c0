"""`ad2 report` on the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.make_runs import ad2_tasks, cell, sample, summary, task, write_run

from lmms_eval_ad2.cli import report as cli
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def ad2(words: Sequence[object]) -> int:
    """Run `ad2 report` without the other commands."""
    top = argparse.ArgumentParser(prog="ad2")
    cli.register(top.add_subparsers(required=True))
    args = top.parse_args([str(w) for w in words])
    return int(args.func(args))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, wrong in (("a", 1), ("b", 9)):
        tasks = {**ad2_tasks("lexical"), "t": task("ad2_bench", "relation", cell(50.0), variant={"lang": "zh"})}
        rows = [sample(f"s{i}", 0.0 if i < wrong else 100.0) for i in range(20)]
        samples = dict.fromkeys(tasks, rows)
        write_run(tmp_path / "runs" / name, summary(tasks, judge="lexical"), samples)
    return tmp_path / "runs"


def test_report_as_text(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["report", runs, "--wide", "--published"]) == 0
    out = capsys.readouterr().out
    assert "AD2-Bench: overall (layout of AD2-Bench, Table 2)" in out
    assert "published: InternVL3-8B" in out
    assert "toy-7b (a)" in out
    assert ad2(["report", runs]) == 0
    out = capsys.readouterr().out
    assert "AD2-Bench: overall (layout of AD2-Bench, Table 2)" in out and "toy-7b (a)" in out
    assert "InternVL3-8B" not in out and max(map(len, out.splitlines())) <= 100


def test_published_rows_of_a_benchmark_without_a_run_are_one_line(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text("town_sings: {paper: x, columns: [signs], rows: [[Model X, 40]]}")
    with pytest.raises(Ad2Error, match=r"rows\.yaml: rows of town_sings, but the runs have ad2_bench"):
        ad2(["report", runs, "--config", f"published_file={file}"])


def test_unparsed_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [sample(f"s{i}", 0.0, raw="I would say it is red", status="unparsed", reason="no_verdict") for i in range(3)]
    tasks = {"t": task("ad2_bench", "perception_base", cell(0.0, n=4, unparsed=3))}
    folder = write_run(tmp_path / "run", summary(tasks), {"t": [*rows, sample("s9", 100.0)]})
    assert ad2(["report", "--unparsed", folder]) == 0
    out = capsys.readouterr().out
    assert "toy-7b, t, no verdict: 3 of 4\n  s0 [yesno]: I would say it is red\n" in out
    assert ad2(["report", "--unparsed", folder, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["unread"]
    assert (found["model"], found["task"], found["reason"], found["n"], found["asked"]) == (
        "toy-7b",
        "t",
        "no_verdict",
        3,
        4,
    )
    assert found["examples"][0] == {"id": "s0", "expected": "yesno", "reply": "I would say it is red"}


def test_report_as_markdown_without_published_scores(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["report", runs / "a", "--markdown", "--config", "no_published=true"]) == 0
    out = capsys.readouterr().out
    assert "### AD2-Bench: overall" in out
    assert "InternVL3-8B" not in out


def test_report_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["report", runs, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in data["runs"]] == ["toy-7b (a)", "toy-7b (b)"]
    overall = next(t for t in data["tables"] if t["key"] == "ad2_bench/2")
    assert overall["rows"][0]["cells"][0]["official"] == 40
    assert len(data["tasks"]) == 12


def test_report_as_html(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "new" / "page.html"
    assert ad2(["report", runs, "--html", page]) == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert f"report page: {page} (made the folder {page.parent})\n" in capsys.readouterr().out
    assert ad2(["report", runs, "--html", page]) == 0
    assert f"report page: {page}\n" in capsys.readouterr().out


def test_compare_two_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["report", "compare", runs / "a", runs / "b"]) == 0
    out = capsys.readouterr().out
    assert "A: toy-7b (a)\nB: toy-7b (b)\n" in out and max(map(len, out.splitlines())) <= 100
    assert "Random answers get a good part of the lexical judge's scale" in " ".join(out.split())
    line = next(x.split() for x in out.splitlines() if x.startswith("ad2_cot"))
    assert line[:6] == ["ad2_cot", "20", "(20)", "95.0", "55.0", "+40.0"]  # 20 samples, each with its own image
    assert line[-3:] == ["0.0078", "0.0469", "mcnemar"]  # 2 / 2^8, and corrected for six tasks


def test_compare_two_runs_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["report", "compare", runs / "a", runs / "b", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tasks"]
    assert {row["task"]: row["p_value"] for row in rows}["ad2_cot"] == pytest.approx(2 / 2**8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "A"], "usage: ad2 report compare A B"),
        (["compare", "{runs}/a", "{runs}/a"], "compared with itself"),
        (["compare", "{runs}", "{runs}/a"], "expected one run, found 2"),
        (["{runs}", "--force"], "--force is an option of"),
        (["{runs}", "--unparsed", "--html", "page.html"], "--unparsed is a list of its own"),
        (["compare", "{runs}/a", "{runs}/b", "--unparsed"], "ad2 report RUN... --unparsed"),
    ],
)
def test_mistakes_are_reported(runs: Path, words: list[str], message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        ad2(["report", *(w.format(runs=runs) for w in words)])


def test_absent_results_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing there"):
        ad2(["report", tmp_path / "absent"])


def test_compare_two_sets_of_distractors_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = {}
    for name, kind, right in (("ad2_mcq_planning", "all", 50.0), ("ad2x_mcq_planning_naive", "naive", 100.0)):
        tasks[name] = task("autodrive_qa", "planning", cell(right), subtasks={"x": cell(1.0), "y": cell(2.0)})
        tasks[name]["data"] |= {"distractors": kind, "maker": "rules"}
    samples = {"ad2_mcq_planning": [sample("q1", 0.0), sample("q2", 100.0)]}
    samples["ad2x_mcq_planning_naive"] = [sample("q1", 100.0), sample("q2", 100.0)]
    folder = write_run(tmp_path / "run", summary(tasks), samples)
    assert ad2(["report", "compare", folder, "--config", "distractors=[naive, all]", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tasks"]
    assert (row["n"], row["difference"]) == (2, 50)
    assert ad2(["report", folder, "--breakdowns"]) == 0
    assert "AutoDrive-QA: planning by sub-task" in capsys.readouterr().out
    with pytest.raises(Ad2Error, match="--config distractors is an option of"):
        ad2(["report", folder, "--config", "distractors=[naive, all]"])
    with pytest.raises(Ad2Error, match="usage"):
        ad2(["report", "compare", folder])
