"""The papers' figures: table sizes, spot checks against the papers, and consistent means and sums."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_runs import cell, summary, task, write_run

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.report import load, published
from lmms_eval_ad2.report.grid import grids
from lmms_eval_ad2.report.table_layouts import TABLE_LAYOUTS
from lmms_eval_ad2.scoring.score_columns import mean_columns


def rows(benchmark: str, number: int) -> dict[str, dict[str, float | None]]:
    return {next(iter(r.labels.values())): dict(r.values) for r in published.table(benchmark, number).rows}


def test_every_table_is_complete() -> None:
    found = {(t.paper, t.number): len(t.rows) for t in published.tables()}
    assert found == {
        **{("AD2-Bench", n): 12 for n in (2, 3, 5, 6, 7)},
        ("CODA-LM", 2): 9, ("CODA-LM", 3): 9, ("CODA-LM", 4): 2, ("CODA-LM", 5): 3, ("CODA-LM", 6): 9,
        ("CODA-LM", 7): 2,
        ("AutoDrive-QA", 1): 6, ("AutoDrive-QA", 4): 6, ("AutoDrive-QA", 6): 3,
        ("AutoDrive-QA", 7): 3, ("AutoDrive-QA", 8): 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("benchmark", "number", "row", "column", "value"),
    [
        ("ad2_bench", 2, "InternVL3-8B", "average", 57.33),
        ("ad2_bench", 3, "InternVL3", "djss", 60.53),
        ("ad2_bench", 5, "InternVL3", "counting", 57.1),
        ("ad2_bench", 5, "Janus-Pro", "detection", 0.11),
        ("ad2_bench", 6, "LLaVA-1.5", "ocr_cer", 173.1),
        ("ad2_bench", 7, "LLaVA-OneVision", "social", 73.68),
        ("coda_lm", 2, "GPT-4V", "suggestion", 62.6),
        ("coda_lm", 3, "Gemini-Pro", "traffic_cone", 78.3),
        ("coda_lm", 4, "box", "recall", 85),
        ("coda_lm", 5, "MiniGPT-v2-7B", "box", None),
        ("coda_lm", 5, "MiniGPT-v2-7B", "coordinates", 14.3),
        ("coda_lm", 5, "LLaVA1.5-13B", "coordinates", 16.6),
        ("coda_lm", 5, "Gemini-Pro", "coordinates", 39.3),
        ("coda_lm", 6, "GPT-4V", "cider", 0.0),
        ("coda_lm", 7, "GPT-4", "region", 87),
        ("coda_lm", 7, "GPT-4V", "general", None),
        ("autodrive_qa", 1, "GPT-4V", "planning", 68.5),
        ("autodrive_qa", 4, "2, perception", "score", 2),
        ("autodrive_qa", 6, "2, prediction", "cider", 8.33),
        ("autodrive_qa", 7, "logical_inconsistencies", "planning", 48.86),
        ("autodrive_qa", 8, "all", "prediction_correctness", 4.60),
    ],
)
def test_figures_equal_those_of_the_papers(
    benchmark: str, number: int, row: str, column: str, value: float | None
) -> None:
    assert rows(benchmark, number)[row][column] == value


def test_red_box_figures_of_tables_3_and_5_are_equal() -> None:
    boxed = {model: values["box"] for model, values in rows("coda_lm", 5).items() if values["box"] is not None}
    assert boxed == {model: rows("coda_lm", 3)[model]["all"] for model in boxed} and len(boxed) == 2


def test_averages_are_means_of_their_columns() -> None:
    """Within rounding: half a unit of the last digit of each figure."""
    checked = 0
    for table in published.tables():
        for mean, columns in table.means.items():
            for row in table.rows:
                figures = [row.values[c] for c in columns]
                computed = sum(v for v in figures if v is not None) / len(figures)
                one_digit = sum(c in ("counting", "ocr_f1") for c in columns)
                slack = 0.005 + (0.05 * one_digit + 0.005 * (len(columns) - one_digit)) / len(columns) + 1e-9
                assert row.values[mean] == pytest.approx(computed, abs=slack), (table.source, row.labels)
                checked += 1
    assert checked == 60


@pytest.mark.parametrize(
    ("part", "number", "mean"),
    [("perception_base", 5, "score"), ("perception_advanced", 6, "score"), ("relation", 7, "score"), ("cot", 3, "cot")],
)
def test_means_of_runs_are_over_the_columns_of_the_papers_means(part: str, number: int, mean: str) -> None:
    """Of which the figures of the papers are means, see above: without OCR-CER in Table 6."""
    assert mean_columns("ad2_bench", part) == published.table("ad2_bench", number).means[mean]
    assert TABLE_LAYOUTS[0].columns[-1].mean_of == published.table("ad2_bench", 2).means["average"]


def test_overall_table_agrees_with_the_tables_of_the_parts() -> None:
    def plain(name: str) -> str:
        return name.lower().removesuffix("-8b").removesuffix("-7b")

    overall = {plain(k): v for k, v in rows("ad2_bench", 2).items()}
    for part, number, column in (
        ("perception_base", 5, "score"), ("perception_advanced", 6, "score"), ("relation", 7, "score"),
        ("cot", 3, "cot"),
    ):  # fmt: skip
        for name, values in rows("ad2_bench", number).items():
            assert overall[plain(name)][part] == pytest.approx(values[column], abs=0.0101), (part, name)


def test_shares_of_error_kinds_sum_to_100() -> None:
    table = rows("autodrive_qa", 7)
    for part in ("perception", "prediction", "planning"):
        assert sum(v[part] or 0 for v in table.values()) == pytest.approx(100, abs=0.015)


def test_inconsistencies_of_ad2_bench_are_real() -> None:
    gain, below, correctness = (published.inconsistent("ad2_bench", 3)[i] for i in (0, 2, 3))
    table = rows("ad2_bench", 3)
    assert (table["InternVL3"]["cot"] or 0) - (table["InternVL3"]["reasoning"] or 0) == pytest.approx(20.83)
    assert "20.166" in gain.says and "20.83" in gain.computed
    assert sum((values["reasoning"] or 0) > 40 for values in table.values()) == 8 and "8 of 12" in below.computed
    assert (table["Qwen2.5-VL"]["sacs"], table["Qwen2.5-VL"]["cot"]) == (59.24, 59.33)
    assert "59.330" in correctness.says
    counting = {name: values["counting"] or 0 for name, values in rows("ad2_bench", 5).items()}
    better = {name: value for name, value in counting.items() if value > counting["Qwen2.5-VL"]}
    assert better == {"Qwen2-VL": 63.3, "MiniCPM-o-2.6": 65.6}
    (claim,) = published.inconsistent("ad2_bench", 5)
    assert all(f"{value}" in claim.computed for value in (counting["Qwen2.5-VL"], *better.values()))
    spatial = [values["spatial"] or 0 for values in rows("ad2_bench", 7).values()]
    assert all(abs(round(x * 12.16) / 12.16 - x) < 0.0051 for x in spatial)
    assert not all(abs(round(x * 12.17) / 12.17 - x) < 0.0051 for x in spatial), "any number of questions would fit"


def test_inconsistencies_of_coda_lm_are_real() -> None:
    (margins,) = published.inconsistent("coda_lm", 3)
    table = rows("coda_lm", 3)
    best = table.pop("InternLM2-vl-7B")
    others = [values for name, values in table.items() if name not in ("Gemini-Pro", "GPT-4V")]
    least = [
        (best[c] or 0) - max(values[c] or 0 for values in others)
        for c in ("vru", "traffic_cone", "traffic_sign", "miscellaneous")
    ]
    assert " / ".join(f"{x:.1f}" for x in least) in margins.computed
    general = {name: values["general"] or 0 for name, values in rows("coda_lm", 2).items()}
    gains = [general[f"LLaVA1.5-{size}"] - general["MiniGPT-v2-7B"] for size in ("7B", "13B")]
    (claim,) = published.inconsistent("coda_lm", 2)
    assert [f"= {gain:.1f}" in claim.computed for gain in gains] == [True, True]
    captions = rows("coda_lm", 6)
    same = [{k: v for k, v in captions[m].items() if k != "bleu_4"} for m in ("InternLM2-vl-7B", "InfMLLM-13B")]
    assert same[0] == same[1]


def test_inconsistencies_of_autodrive_qa_are_real() -> None:
    accuracy = published.table("autodrive_qa", 1).rows
    gains = [
        accuracy[0].values[p] - accuracy[1].values[p]  # type: ignore[operator]
        for p in ("perception", "prediction", "planning")
    ]
    assert gains == pytest.approx([5.32, 6.14, 4.49])
    sets = rows("autodrive_qa", 8)
    assert sets["all"]["perception"] not in [r.values["perception"] for r in accuracy]
    bleu = [value or 0 for r in accuracy for column, value in r.values.items() if column.endswith("_bleu")]
    assert (min(bleu), max(bleu), sum(x < 5.9 for x in bleu), len(bleu)) == (5.25, 8.5, 4, 18)
    planning = {name: values["planning"] or 0 for name, values in sets.items()}
    above = {name: value for name, value in planning.items() if value > planning["naive"]}
    assert above == {"misinterpreted_sensor_inputs": 59.74, "logical_inconsistencies": 51.16}


def test_inconsistencies_name_tables_on_file() -> None:
    numbers = {(t.paper, t.number) for t in published.tables()}
    for benchmark, paper in (("ad2_bench", "AD2-Bench"), ("coda_lm", "CODA-LM"), ("autodrive_qa", "AutoDrive-QA")):
        for found in published.inconsistent(benchmark):
            assert {(paper, number) for number in found.tables} <= numbers, found


@pytest.mark.parametrize(
    ("benchmark", "number", "column", "judge", "alike"),
    [
        ("ad2_bench", 3, "sacs", "openai:gpt-4o-2024-11-20", True),
        ("ad2_bench", 3, "sacs", "openai:gpt-4o", True),
        ("ad2_bench", 3, "sacs", "openai:gpt-4o-mini", False),
        ("ad2_bench", 3, "sacs", "openai:qwen3-32b", False),
        ("ad2_bench", 3, "sacs", "lexical", False),
        ("ad2_bench", 3, "sacs", "embedding:gpt-4o", False),
        ("ad2_bench", 3, "sacs", None, False),
        ("ad2_bench", 5, "counting", None, True),
        ("ad2_bench", 5, "counting", "lexical", False),
        ("coda_lm", 2, "general", "openai:gpt-4-0613", True),
        ("coda_lm", 2, "general", "openai:gpt-4o-2024-05-13", False),
    ],
)
def test_judges_comparable_with_the_papers_judge(
    benchmark: str, number: int, column: str, judge: str | None, alike: bool
) -> None:
    assert published.table(benchmark, number).judged_alike(column, judge) is alike


def test_layouts_show_every_published_column() -> None:
    for layout in TABLE_LAYOUTS:
        if layout.number is None:  # not a table of a paper
            continue
        table = published.table(layout.benchmark, layout.number)
        assert set(table.columns) <= {c.key for c in layout.columns}, layout.title


OWN = """
town_signs:
  paper: Signs of my town (2026)
  judge: GPT-4o
  columns: [signs, advice]
  judged: [advice]
  rows:
    - [Model X, 61.5, 40]
    - [Model Y, 58, null]
"""


def test_published_rows_of_an_own_benchmark_are_below_its_runs(tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text(OWN)
    tasks = {"signs": task("town_signs", "signs", cell(50.0))}
    write_run(tmp_path / "r", summary(tasks))
    runs, own = load([tmp_path / "r"]), published.own_tables(file)
    (grid,) = grids(runs, own=own)
    assert grid.source == "Signs of my town (2026)"
    assert [column.heading for column in grid.columns] == ["Signs", "Advice [paper: GPT-4o]"]
    shown = [(row.kind, row.label, [c.official if c else None for c in row.cells]) for row in grid.rows]
    assert shown == [
        ("run", "toy-7b", [50.0, None]), ("published", "Model X", [61.5, 40.0]), ("published", "Model Y", [58.0, None]),
    ]  # fmt: skip
    (plain,) = grids(runs)
    assert [row.kind for row in plain.rows] == ["run"]


def test_a_run_stays_in_the_table_if_the_published_rows_have_other_columns(tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text("town_signs: {paper: x, columns: [advice], rows: [[Model X, 40]]}")
    write_run(tmp_path / "r", summary({"signs": task("town_signs", "signs", cell(50.0))}))
    (grid,) = grids(load([tmp_path / "r"]), own=published.own_tables(file))
    assert [(row.kind, [c.official if c else None for c in row.cells]) for row in grid.rows] == [
        ("run", [50.0, None]), ("published", [None, 40.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "field 'file': expected a mapping"),
        ("town: {", "valid YAML"),
        ("coda_lm: {paper: x, columns: [a], rows: [[m, 1]]}", "whose figures are packaged"),
        ("town: {paper: x, columns: [a]}", "row town: field 'benchmark'"),
        ("town: {paper: x, columns: [a, a], rows: [[m, 1, 2]]}", "each once"),
        ("town: {paper: x, columns: [a], rows: [[m, 1, 2]]}", "values in percent or null"),
        ("town: {paper: x, columns: [a], rows: [[m, high]]}", "values in percent or null"),
        ("town: {paper: x, columns: [a], judged: [b], judge: j, rows: [[m, 1]]}", "field 'judged'"),
        ("town: {paper: x, columns: [a], judged: [a], rows: [[m, 1]]}", "field 'judge': expected the name"),
        ("town: {paper: x, columns: [a], rows: []}", "at least one column and one row"),
    ],
)
def test_a_faulty_file_of_published_rows_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text(text)
    with pytest.raises(DataError, match=r"rows\.yaml") as caught:
        published.own_tables(file)
    assert message in str(caught.value)
