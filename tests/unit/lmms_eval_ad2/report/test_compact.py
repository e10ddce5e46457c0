"""Compact tables: one row per model, within 100 columns, nothing cut that would make two names equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_runs import ad2_tasks, cell, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.report import compact, tables
from lmms_eval_ad2.report.text_table import columns_of

GPT4O = "openai:gpt-4o-2024-11-20"
LONG = "Qwen/Qwen2.5-VL-72B-Instruct-with-a-very-long-suffix-of-training-run-"
CHINESE = "视觉语言模型" * 6


def loaded(tmp_path: Path, *runs: dict[str, Any]) -> list[report.RunSummary]:
    for i, data in enumerate(runs):
        write_run(tmp_path / f"run{i}", data)
    return report.load([tmp_path])


def many_tasks(judge: str) -> dict[str, Any]:
    """All benchmarks, with more columns than fit."""
    kinds = {"driving_domain_misconceptions": 5, "logical_inconsistencies": 3, "a_kind_that_no_paper_has": 2}
    tasks = ad2_tasks(judge)
    wide = cell(100.0, strict=0.0, ci=[99.9, 100.0], unparsed=99, n=1234, clusters=9)
    classes = {f"class number {i}": cell(100.0, judge=judge) for i in range(30)}
    tasks["region"] = task("coda_lm", "region", {**wide, "judge": judge}, breakdowns={"category": classes})
    for part in ("perception", "prediction", "planning"):
        tasks[part] = task("autodrive_qa", part, wide, {"accuracy": wide}, error_kinds=kinds)
        open_ended = {"form": "vqa", "judge": False}
        columns = {"bleu_4": cell(6.0), "cider": cell(300.0)}
        tasks[f"{part}_open"] = task("autodrive_qa", part, cell(None), columns, variant=open_ended)
    naive = task("autodrive_qa", "planning", wide, {"accuracy": wide}, data="autodrive_qa_naive")
    naive["data"] |= {"distractors": "naive", "maker": "rules", "correctness": {"mean": 4.55, "n": 9, "unrated": 3}}
    tasks["naive"] = naive
    circular = {"circular": cell(12.5, ci=[8.0, 17.0]), "consistency": cell(50.0), "accuracy": cell(40.0)}
    position = {"distance": 12.5, "ci": [8.0, 17.0], "n": 300, "incomplete": 3}
    tasks["circular"] = task(
        "autodrive_qa", "planning", wide, circular, variant={"circular": True}, position=position
    )  # fmt: skip
    weather = {f"weather {i}": cell(40.0, ci=[30.0, 50.0]) for i in range(12)}
    tasks["drivelm"] = task("drivelm", "planning", wide, breakdowns={"weather": weather})
    tasks["other"] = task("ad2_bench", "relation", cell(50.0), data=f"another_data_set_{'x' * 60}")
    return tasks


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> list[report.RunSummary]:
    labels = [(LONG + "0001", "lexical"), (LONG + "0002", "lexical"), (CHINESE, GPT4O), ("x", "embedding:some-model")]
    data = [summary(many_tasks(judge), label=label, judge=judge) for label, judge in labels]
    return loaded(tmp_path_factory.mktemp("runs"), *data)


@pytest.mark.parametrize("published", [False, True])
def test_no_line_is_wider_than_100_columns(many_runs: list[report.RunSummary], published: bool) -> None:
    assert {"autodrive_qa/8", "autodrive_qa/order", "coda_lm/3", "drivelm/parts"} <= {
        g.key for g in tables.grids(many_runs)
    }
    text = tables.render(many_runs, published=published, breakdowns=True)
    assert [line for line in text.splitlines() if columns_of(line) > compact.WIDTH] == []
    assert max(map(columns_of, tables.render(many_runs, wide=True, published=published).splitlines())) > 200
    assert ("InternVL3-8B" in text) is published


def test_long_names_are_whole_and_differ(many_runs: list[report.RunSummary]) -> None:
    """A name is wrapped, so all its characters are in its row."""
    found = next(g for g in tables.grids(many_runs, with_published=False) if g.key == "ad2_bench/2")
    table = compact.render(found).split("Judge: ")[1]
    width = len(table.splitlines()[3].split()[0])  # of the first column, from the line below the headers
    names = "".join(line[:width].strip() for line in table.splitlines()[4:])
    assert LONG + "0001" in names and LONG + "0002" in names


def test_a_row_has_scores_interval_counts_and_strict_score(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary(ad2_tasks("lexical"), judge="lexical"))
    lines = tables.render(runs).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("AD2-Bench: overall"))
    row = next(line for line in lines[start:] if line.startswith("toy-7b")).split()
    expected = "toy-7b 400 (2/1) 40.0 60.0 50.0 70.0 55.0 [54.0, 56.0] 54.0"
    assert row == expected.split()
    assert "  * rated by lexical" in lines
    assert sum(line.startswith("toy-7b ") for line in lines) == 5  # one row in each of the five tables


def test_a_missing_main_score_is_a_dash_with_its_counts(tmp_path: Path) -> None:
    score = cell(None, strict=10.0, n=12, unscored=12, judge="lexical")
    table = task("coda_lm", "suggestion", score, reasons={"unscored:judge_timeout": 12})
    text = tables.render(loaded(tmp_path, summary({"t": table}, judge="lexical")))
    row = next(line for line in text.splitlines() if line.startswith("toy-7b"))
    assert row.split() == ["toy-7b", "12", "(0/12)", "–", "10.0"]
    assert "  12 unscored: judge timeout" in text.splitlines()


def test_columns_that_do_not_fit_are_named(many_runs: list[report.RunSummary]) -> None:
    accuracy = next(g for g in tables.grids(many_runs, with_published=False) if g.key == "autodrive_qa/1")
    text = " ".join(compact.render(accuracy).split())
    assert "100.0 [99.9, 100.0]" in text
    assert "Left out here, see --wide: BLEU, CIDEr, BLEU, CIDEr, BLEU, CIDEr, strict" in text


def test_judges_have_tables_of_their_own(tmp_path: Path) -> None:
    runs = loaded(
        tmp_path,
        summary(ad2_tasks("lexical"), judge="lexical", label="a"),
        summary(ad2_tasks(GPT4O), judge=GPT4O, label="b"),
    )
    overall = next(g for g in tables.grids(runs, with_published=False) if g.key == "ad2_bench/2")
    first, second = compact.render(overall).split("Judge: ")[1:]
    assert first.startswith("lexical\n") and "\na " in first and "\nb " not in first
    assert second.startswith(GPT4O) and "\nb " in second and "–" not in first + second.split("\n  ")[0]


def test_columns_without_a_judge_have_no_star(tmp_path: Path) -> None:
    """A relation task is exact as multiple choice and judged as free text; only the latter is starred."""
    exact = task("ad2_bench", "relation", cell(50.0), {"spatial": cell(50.0)})
    free = task("ad2_bench", "relation", cell(60.0, judge="lexical"), {"spatial": cell(60.0, judge="lexical")})
    free["variant"] = {"form": "vqa"}
    runs = loaded(tmp_path, summary({"ad2_relation": exact, "ad2x_relation_vqa": free}, judge="lexical"))
    grid = next(g for g in tables.grids(runs, with_published=False) if g.key == "ad2_bench/7")
    none, lexical = compact.render(grid).split("Judge: ")[1:]
    assert none.startswith("none") and "Spatial" in none and "*" not in none
    assert lexical.startswith("lexical") and "Spatial*" in lexical and "* rated by lexical" in lexical
