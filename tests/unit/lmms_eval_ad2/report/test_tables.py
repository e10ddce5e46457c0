"""Tables: figures in their columns, separate columns per judge, and a reason for each missing score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_runs import ad2_tasks, cell, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.report import cell_text, tables
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.grid import GridRow, ResultGrid, grids
from lmms_eval_ad2.report.page import report_page
from lmms_eval_ad2.report.runs import ScoreCell
from lmms_eval_ad2.report.table import WIDTH, columns_of
from lmms_eval_ad2.report.table_rows import mean
from lmms_eval_ad2.report.task_groups import reason_notes
from lmms_eval_ad2.scoring.metrics.intervals import METHOD

GPT4O = "openai:gpt-4o-2024-11-20"


def loaded(tmp_path: Path, *runs: dict[str, Any]) -> list[report.RunSummary]:
    for i, data in enumerate(runs):
        write_run(tmp_path / f"run{i}", data)
    return report.load([tmp_path])


def grid_of(runs: list[report.RunSummary], key: str, **options: Any) -> ResultGrid:
    return {g.key: g for g in grids(runs, **options)}[key]


def figures(grid: ResultGrid, row: GridRow) -> dict[str, float | None]:
    return {
        column.heading: c.official for column, c in zip(grid.columns, row.cells, strict=True) if c is not None
    }  # fmt: skip


def test_overall_table_with_its_average_and_interval(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary(ad2_tasks(GPT4O), judge=GPT4O))
    grid = grid_of(runs, "ad2_bench/2")
    ours = figures(grid, grid.rows[0])
    assert list(ours.values()) == [40, 60, 50, 70, 55]
    average = grid.rows[0].cells[-1]
    # Four independent parts with half-widths of 2: sqrt(4 * 2^2) / 4 = 1.
    assert average is not None
    assert average.ci == (54, 56)
    assert average.strict == 54
    assert "55.0 [54.0, 56.0]" in tables.render(runs)


def region(score: float, bleu: float, **variant: Any) -> dict[str, Any]:
    columns = {"text_score": cell(score, judge=GPT4O), "bleu_4": cell(bleu)}
    return task("coda_lm", "region", cell(score, judge=GPT4O), columns, variant=variant)


def test_objects_given_by_coordinates_are_beside_table_5_not_table_3(tmp_path: Path) -> None:
    """Red-box figures and figures by coordinates are in one row of Table 5; Tables 3 and 6 have the red box alone."""
    both = {"ad2_coda_region": region(50.0, 3.0), "ad2x_coda_region_coord": region(20.0, 2.0, coords=True)}
    alone = {"ad2x_coda_region_coord": region(10.0, 1.0, coords=True)}
    boxed = {"ad2_coda_region": region(60.0, 4.0)}
    runs = loaded(
        tmp_path, summary(both, judge=GPT4O), summary(alone, judge=GPT4O, label="b"),
        summary(boxed, judge=GPT4O, label="c"),
    )  # fmt: skip
    found = {g.key: g for g in grids(runs)}
    assert list(found) == ["coda_lm/3", "coda_lm/5", "coda_lm/6", "coda_lm/coordinates"]
    five = found["coda_lm/5"]
    ours = [(row.label, list(figures(five, row).values())) for row in five.rows if row.kind == "run"]
    assert ours == [("toy-7b", [50, 20]), ("b", [10])]
    printed = {row.label: list(figures(five, row).values()) for row in five.rows if row.kind == "published"}
    assert printed == {"MiniGPT-v2-7B": [14.3], "LLaVA1.5-13B": [38.7, 16.6], "Gemini-Pro": [53.0, 39.3]}
    for key in ("coda_lm/3", "coda_lm/6"):
        assert [row.label for row in found[key].rows if row.kind == "run"] == ["toy-7b", "c"]
    own = found["coda_lm/coordinates"]
    assert [list(figures(own, row).values()) for row in own.rows] == [[2.0], [1.0]]


def test_without_tasks_by_coordinates_there_is_no_table_5(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary({"ad2_coda_region": region(60.0, 4.0)}, judge=GPT4O))
    assert [g.key for g in grids(runs)] == ["coda_lm/3", "coda_lm/6"]


BOXES = {"box": {"n": 9, "scores": {"auto": 1.0, "thousand": 88.0}}}


def test_the_frame_of_coordinates_is_in_the_label_of_rows_with_points_or_boxes(tmp_path: Path) -> None:
    """All tasks of a run share AD2_FRAME: they stay one row, and only rows with coordinates name it."""
    framed = {"variant": {"frame": "thousand"}}
    tasks = {name: {**table, **framed} for name, table in ad2_tasks().items()}
    tasks["ad2_perception_base"]["coordinates"] = {"frame": "thousand", "model_input": None, "by_frame": BOXES}
    coda = {"ad2_coda_general": {**task("coda_lm", "general", cell(50.0)), **framed}}
    runs = loaded(tmp_path, summary({**tasks, **coda}, frame="thousand"))
    labels = {
        key: [row.label for row in grid_of(runs, key).rows if row.kind == "run"] for key in ("ad2_bench/2", "coda_lm/2")
    }
    assert labels == {"ad2_bench/2": ["toy-7b (frame thousand)"], "coda_lm/2": ["toy-7b"]}


def test_a_frame_that_does_not_fit_is_noted_below_the_tables(tmp_path: Path) -> None:
    tasks = ad2_tasks()
    tasks["ad2_perception_base"]["coordinates"] = {"frame": "auto", "model_input": None, "by_frame": BOXES}
    text = " ".join(tables.render(loaded(tmp_path, summary(tasks))).split())
    assert "9 boxes score 1.0, but 88.0 in 'thousand'" in text and "ad2 rescore RUN --frame thousand" in text


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("ad2_bench/3", ["20.166", "5,046", "8 of 12 models", "59.330"]),
        ("ad2_bench/5", ["65.6 and Qwen2-VL's 63.3"]),
        ("ad2_bench/7", ["1/1216"]),
        ("coda_lm/3", ["12.7 / 15.3 / 7.7 / 12.7"]),
        ("coda_lm/6", ["same METEOR"]),
        ("autodrive_qa/1", ["5.32 / 6.14 / 4.49", "between 5.9 and 8.5", "60.1 / 58.05 / 59"]),
        ("autodrive_qa/8", ["59.74 (misinterpreted", "60.1 / 58.05 / 59"]),
    ],
)  # fmt: skip
def test_contradictions_in_a_paper_are_printed_below_its_figures(tmp_path: Path, key: str, words: list[str]) -> None:
    region = task("coda_lm", "region", cell(50.0, judge=GPT4O), {"bleu_4": cell(1.0)})
    naive = task("autodrive_qa", "planning", cell(50.0), {"accuracy": cell(50.0)}, data="autodrive_qa_naive")
    naive["data"] |= {"distractors": "naive", "maker": "rules", "correctness": {"mean": 4.0, "n": 9, "unrated": 0}}
    full = task("autodrive_qa", "planning", cell(50.0), {"accuracy": cell(50.0)})
    tasks = {**ad2_tasks(GPT4O), "ad2_coda_region": region, "ad2_mcq_planning": full, "ad2x_naive": naive}
    runs = loaded(tmp_path, summary(tasks, judge=GPT4O))
    found = [note for note in grid_of(runs, key).notes if note.startswith("The paper is inconsistent")]
    assert len(found) == len(words) and all(any(word in note for note in found) for word in words)
    text = " ".join(tables.render(runs, published=True, wide=True).split())
    assert all(word in text for word in words)
    without = grid_of(runs, key, with_published=False)
    assert not any("inconsistent" in note for note in without.notes)


def test_other_judges_have_separate_columns(tmp_path: Path) -> None:
    runs = loaded(
        tmp_path,
        summary(ad2_tasks("lexical"), judge="lexical", label="lex"),
        summary(ad2_tasks(GPT4O), judge=GPT4O, label="gpt"),
        summary(ad2_tasks("openai:qwen3-32b"), judge="openai:qwen3-32b", label="qwen"),
    )
    grid = grid_of(runs, "ad2_bench/6")
    by_label = {row.label: figures(grid, row) for row in grid.rows}
    paper = f"{GPT4O}; paper: GPT-4o"
    assert by_label["lex"]["Cap. & Others [lexical]"] == 60
    assert by_label["gpt"][f"Cap. & Others [{paper}]"] == 60
    assert by_label["qwen"]["Cap. & Others [openai:qwen3-32b]"] == 60
    assert by_label["InternVL3 (Qwen2.5-7B)"][f"Cap. & Others [{paper}]"] == 78.09
    assert by_label["InternVL3 (Qwen2.5-7B)"]["OCR-F1"] == 89.7
    for heading in {h for values in by_label.values() for h in values if h.startswith(("Cap.", "Avg-S"))}:
        inside = {label for label, values in by_label.items() if heading in values}
        assert len(inside & {"lex", "gpt", "qwen"}) <= 1, heading
        assert not (inside & {"lex", "qwen"} and "InternVL3 (Qwen2.5-7B)" in inside), heading


def test_column_of_the_papers_judge_is_blank_for_other_judges(tmp_path: Path) -> None:
    score = cell(30.0, judge="lexical")
    runs = loaded(tmp_path, summary({"ad2_coda_general": task("coda_lm", "general", score)}, judge="lexical"))
    grid = grid_of(runs, "coda_lm/2")
    assert [c.heading for c in grid.columns] == [
        "General [lexical]", "General [paper: GPT-4]", "Suggestion [paper: GPT-4]",
    ]  # fmt: skip
    assert figures(grid, grid.rows[0]) == {"General [lexical]": 30}
    assert figures(grid, grid.rows[-1]) == {"General [paper: GPT-4]": 46.5, "Suggestion [paper: GPT-4]": 62.6}


def test_two_snapshots_of_the_papers_judge_are_two_judges(tmp_path: Path) -> None:
    runs = loaded(
        tmp_path,
        *(
            summary({"t": task("ad2_bench", "cot", cell(50.0, judge=j))}, judge=j, label=j)
            for j in (GPT4O, "openai:gpt-4o")
        ),
    )
    headings = [c.heading for c in grid_of(runs, "ad2_bench/3").columns if c.title == "w/ CoT"]
    assert headings == [f"w/ CoT [{GPT4O}]", "w/ CoT [openai:gpt-4o]", "w/ CoT [paper: GPT-4o]"]


def test_unjudged_figure_is_not_in_the_papers_judged_column(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary({"t": task("ad2_bench", "perception_advanced", cell(50.0))}))
    grid = grid_of(runs, "ad2_bench/6")
    assert figures(grid, grid.rows[0]) == {"Avg-S [no judge]": 50}


@pytest.mark.parametrize("alone", [False, True])
def test_cells_without_a_readable_answer_stay_in_the_column_of_their_judge(tmp_path: Path, alone: bool) -> None:
    """Chains that were all unparsed were never rated, so their summary names no judge."""

    def chains(judge: str | None, **counts: int) -> dict[str, Any]:
        columns = {name: cell(10.0, judge=judge, **counts) for name in ("sacs", "slps", "orcs", "djss")}
        return {"t": task("ad2_bench", "cot", cell(10.0, judge=judge, **counts), columns)}

    unread = summary(chains(None, unparsed=100), label="unread", judge="lexical")
    rated = summary(chains("lexical"), label="rated", judge="lexical")
    runs = loaded(tmp_path, *([unread] if alone else [unread, rated]))
    grid = grid_of(runs, "ad2_bench/3", with_published=False)
    headings = ["w/ CoT [lexical]", "SACS [lexical]", "SLPS [lexical]", "ORCS [lexical]", "DJSS [lexical]"]
    assert [c.heading for c in grid.columns] == headings
    assert all(figures(grid, row) == dict.fromkeys(headings, 10) for row in grid.rows)
    average = grid_of(runs, "ad2_bench/2", with_published=False) if not alone else grid
    assert not any(c.judge == "no judge" for c in average.columns)


def test_average_requires_every_part(tmp_path: Path) -> None:
    tasks = ad2_tasks("lexical")
    del tasks["ad2_relation"]
    grid = grid_of(loaded(tmp_path, summary(tasks, judge="lexical")), "ad2_bench/2")
    assert not any(h.startswith("Avg-S") for h in figures(grid, grid.rows[0]))


def test_mean_of_cells() -> None:
    def score_cell(value: float | None, ci: tuple[float, float] | None = None) -> ScoreCell:
        return ScoreCell(value, value, ci, 10, 9, 1, 0, "j", clusters=12 if ci else 3)

    assert mean([score_cell(1.0), None]) is None
    got = mean([score_cell(10.0, (7, 13)), score_cell(20.0, (16, 24))])
    assert got is not None
    assert (got.official, got.n, got.n_unparsed, got.judge) == (15, 20, 2, "j")
    assert got.ci == pytest.approx((15 - 2.5, 15 + 2.5))  # sqrt(3^2 + 4^2) / 2
    assert got.clusters == 12
    incomplete = mean([score_cell(10.0), score_cell(None)])
    assert incomplete is not None
    assert (incomplete.official, incomplete.strict, incomplete.ci, incomplete.clusters) == (None, None, None, 3)


def test_the_final_score_of_coda_lm_is_the_mean_of_its_three_tasks(tmp_path: Path) -> None:
    scores = {"general": 30.0, "region": 60.0, "suggestion": 75.0}
    tasks = {part: task("coda_lm", part, cell(score, judge=GPT4O)) for part, score in scores.items()}
    grid = grid_of(loaded(tmp_path, summary(tasks, judge=GPT4O)), "coda_lm/2")
    assert list(figures(grid, grid.rows[0]).values()) == [30, 75, 60, 55]  # General, Suggestion, Regional, Final


def test_both_scores_with_counts_and_reasons_are_shown(tmp_path: Path) -> None:
    text = tables.render(loaded(tmp_path, summary(ad2_tasks("lexical"), judge="lexical")), wide=True)
    base = text[text.index("AD2-Bench: basic perception") :].splitlines()
    assert base[1] == "Data: ad2_bench test"  # shown once; no judge was needed
    official, strict = base[5].split(), base[6].split()
    assert official[:2] == ["toy-7b", "100"]
    assert official[-1] == "77.0"
    assert "40.0 [38.0, 42.0]" in base[5]
    assert strict == ["·", "strict", "(2", "/", "0)", "49.0", "39.0", "59.0", "9.0", "39.0", "77.0"]
    assert "Category (outside the mean)" in base[2]
    assert "  2 unparsed: hedged" in base
    assert "published:" not in text


def test_a_missing_score_has_a_reason(tmp_path: Path) -> None:
    score = cell(None, n=12, unscored=12, judge="lexical")
    table = task("coda_lm", "suggestion", score, reasons={"unscored:judge_timeout": 12})
    text = tables.render(loaded(tmp_path, summary({"t": table}, judge="lexical")), wide=True)
    assert "– (12 unscored)" in text
    assert "12 unscored: judge timeout" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_partial_means_are_marked(tmp_path: Path) -> None:
    table = task("ad2_bench", "perception_base", cell(50.0, ci=[40, 60], missing_columns=["detection"]))
    text = tables.render(loaded(tmp_path, summary({"t": table})))
    assert "50.0† [40.0, 60.0]" in text
    assert "† a mean over fewer columns" in text


def test_samples_and_reconstructions_are_labelled(tmp_path: Path) -> None:
    mcq = task("autodrive_qa", "perception", cell(60.0), variant={"views": "front"})
    tasks = {**ad2_tasks(None, data="sample_ad2_bench", prefix="ad2demo"), "ad2_mcq_perception": mcq}
    runs = loaded(tmp_path, summary(tasks, label="ad2_chance", model="ad2_chance", limit=8))
    text = tables.render(runs)
    assert "sample: not the benchmark" in text
    assert "reconstruction: not the authors' questions" in text
    assert "first 8 of each task only" in text
    assert "ad2_chance (floor)" in text


def test_variants_and_data_sets_have_separate_rows(tmp_path: Path) -> None:
    tasks = {
        "ad2_relation": task("ad2_bench", "relation", cell(50.0)),
        "ad2x_relation_zh": task("ad2_bench", "relation", cell(51.0), variant={"lang": "zh"}),
        "ad2x_relation_mark_box": task("ad2_bench", "relation", cell(52.0), variant={"mark": "box"}),
        "my_own_relation": task("ad2_bench", "relation", cell(53.0)),
        "ad2demo_relation": task("ad2_bench", "relation", cell(54.0), data="sample_ad2_bench"),
    }
    grid = grid_of(loaded(tmp_path, summary(tasks)), "ad2_bench/7", with_published=False)
    found = {(row.label, row.data): figures(grid, row)["Avg-S"] for row in grid.rows}
    assert found == {
        ("toy-7b", "ad2_bench test"): 50,
        ("toy-7b (zh)", "ad2_bench test"): 51,
        ("toy-7b (mark as box)", "ad2_bench test"): 52,
        ("toy-7b (task my_own_relation)", "ad2_bench test"): 53,
        ("toy-7b", "sample_ad2_bench test"): 54,
    }


def mcq_tasks() -> dict[str, Any]:
    tasks = {}
    kinds = {"driving_domain_misconceptions": 5, "logical_inconsistencies": 3, "question_ambiguity": 2}
    for i, part in enumerate(("perception", "prediction", "planning")):
        for views, suffix in (("front", ""), ("all", "_mv")):
            variant = {"views": "front"} if views == "front" else {}
            tasks[f"{part}{suffix}"] = task(
                "autodrive_qa", part, cell(60.0 + i, unparsed=3), {"accuracy": cell(60.0 + i)},
                variant=variant, error_kinds=kinds if views == "front" else {},
            )  # fmt: skip
        tasks[f"{part}_open"] = task(
            "autodrive_qa", part, cell(None), {"bleu_4": cell(6.0), "cider": cell(30.0)},
            variant={"views": "front", "form": "vqa", "judge": False},
        )  # fmt: skip
    return tasks


def test_autodrive_qa_rows_join_accuracy_and_open_ended_metrics(tmp_path: Path) -> None:
    grid = grid_of(loaded(tmp_path, summary(mcq_tasks())), "autodrive_qa/1")
    front, all_views = grid.rows[0], grid.rows[1]
    assert [c.official for c in front.cells if c] == [60, 6, 30, 61, 6, 30, 62, 6, 30]
    assert [c.official if c else None for c in all_views.cells] == [60, None, None, 61, None, None, 62, None, None]
    assert (front.views, all_views.views) == ("1", "all")
    assert (front.n, front.n_unparsed) == (300, 9)  # the open-ended tasks ask the same questions again
    assert [r.views for r in grid.rows if r.kind == "published"] == ["1", "1", "≥ 1", "≥ 1", "≥ 1", "1"]


def test_error_kinds_in_percent_of_the_wrong_answers(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary(mcq_tasks()))
    grid = grid_of(runs, "autodrive_qa/7")
    shares = {row.label: [c.official for c in row.cells if c] for row in grid.rows if row.kind == "run"}
    assert shares == {
        "toy-7b: Driving domain misconceptions": [50, 50, 50],
        "toy-7b: Logical inconsistencies": [30, 30, 30],
        "toy-7b: Misinterpreted sensor inputs": [0, 0, 0],
        "toy-7b: Question ambiguity": [20, 20, 20],
    }
    assert "50.0 (5)" in tables.render(runs)
    assert figures(grid, grid.rows[-1]) == {"Perception": 16.21, "Prediction": 36.99, "Planning": 15.91}


def test_shares_over_the_papers_three_groups_sum_to_100(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary(mcq_tasks()))
    (grid,) = (g for g in grids(runs, kinds="paper") if g.key == "autodrive_qa/7")
    shares = {row.label: [c.official for c in row.cells if c] for row in grid.rows if row.kind == "run"}
    assert shares == {
        "toy-7b: Driving domain misconceptions": [62.5, 62.5, 62.5],  # 5 of 8; the 2 of question ambiguity are left out
        "toy-7b: Logical inconsistencies": [37.5, 37.5, 37.5],
        "toy-7b: Misinterpreted sensor inputs": [0, 0, 0],
    }
    assert "62.5 (5)" in tables.render(runs, kinds="paper")
    assert "shares sum to 100" in grid.notes[0] and "--config kinds=paper" in grid_of(runs, "autodrive_qa/7").notes[0]
    others = [g for g in grids(runs, kinds="paper") if g.key != "autodrive_qa/7"]
    assert others == [g for g in grids(runs) if g.key != "autodrive_qa/7"]


def test_region_classes_and_unknown_classes(tmp_path: Path) -> None:
    classes = {"vehicle": cell(50.0, judge="lexical"), "unknown": cell(10.0, n=2, judge="lexical")}
    columns = {"text_score": cell(40.0, judge="lexical"), "bleu_4": cell(3.0), "spice": cell(None, reason="no_java: x")}
    table = task("coda_lm", "region", cell(40.0, judge="lexical"), columns, breakdowns={"category": classes})
    runs = loaded(tmp_path, summary({"t": table}, judge="lexical"))
    by_class = grid_of(runs, "coda_lm/3", with_published=False)
    assert figures(by_class, by_class.rows[0]) == {
        "ALL [lexical]": 40, "Vehicle [lexical]": 50, "Unknown (not in the paper) [lexical]": 10,
    }  # fmt: skip
    captions = grid_of(runs, "coda_lm/6")
    assert figures(captions, captions.rows[0]) == {"BLEU-4": 3, "SPICE": None}
    assert "SPICE: no_java: x" in captions.notes
    assert "coda_lm/2" not in {g.key for g in grids(runs)}  # a region task alone has nothing for Table 2


def test_benchmarks_without_a_papers_table_are_shown_too(tmp_path: Path) -> None:
    tasks = {"ad2x_drivelm_planning_mc": task("drivelm", "planning", cell(33.0, ci=[30, 36]), variant={"form": "mc"})}
    text = tables.render(loaded(tmp_path, summary(tasks)), wide=True)
    assert "DriveLM: score by part" in text
    assert text.count("33.0 [30.0, 36.0]") == 2  # in its table and among all tasks


def test_parts_of_an_own_benchmark_with_rubrics_share_a_row(tmp_path: Path) -> None:
    tasks = {
        "signs": task("town", "signs", cell(50.0)),
        "advice": task("town", "advice", cell(70.0), variant={"rubric": "coda_suggestion"}),
    }
    grid = grid_of(loaded(tmp_path, summary(tasks)), "town/parts", with_published=False)
    assert [figures(grid, row) for row in grid.rows] == [{"Signs": 50.0, "Advice": 70.0}]


def test_every_task_is_listed_with_its_counts(tmp_path: Path) -> None:
    runs = loaded(tmp_path, summary({**ad2_tasks("lexical"), **mcq_tasks()}, judge="lexical"))
    listed = tables.render(runs, published=True, wide=True).split("All tasks\n")[1]
    for name, table in runs[0].tasks.items():
        line = next(x for x in listed.splitlines() if f" {name} " in x)
        assert f"{table.score.n}" in line.split()
    assert "– (n-gram metrics only)" in listed


def test_markdown_has_both_figures_in_a_cell_and_escapes_labels(tmp_path: Path) -> None:
    text = tables.render(
        loaded(tmp_path, summary(ad2_tasks("lexical"), label="a|b<img src=x>`[l](http://x)", judge="lexical")),
        markdown=True,
    )
    assert "| 40.0 [38.0, 42.0] / 39.0 |" in text.replace("  ", " ")
    assert "a\\|b&lt;img src=x&gt;\\`[l]\\(http://x)" in text
    assert "<img" not in text
    for block in text.split("### ")[1:]:
        lines = [line.replace("\\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    text = tables.render(loaded(tmp_path, summary(ad2_tasks("lexical"), label="x\x1b[2Jy‮z", judge="lexical")))
    assert "x\\x1b[2Jy\\u202ez" in text
    assert "\x1b" not in text


def test_records_without_the_asked_language_are_counted_below_the_tables(tmp_path: Path) -> None:
    tasks = {"ad2x_relation_zh": task("ad2_bench", "relation", cell(51.0), variant={"lang": "zh"})}
    tasks["ad2x_relation_zh"]["data"] |= {"left_out": 7, "not_in_lang": 5}
    tasks["ad2x_coda_general_zh"] = task("coda_lm", "general", cell(51.0), variant={"lang": "zh"})
    tasks["ad2x_coda_general_zh"]["data"] |= {"left_out": 0, "not_in_lang": 3}
    tasks["ad2x_relation_vqa"] = task("ad2_bench", "relation", cell(51.0), variant={"form": "vqa"})
    tasks["ad2x_relation_vqa"]["data"] |= {"left_out": 4, "not_in_form": 4}
    found = tables.warnings(loaded(tmp_path, summary(tasks)))
    assert "ad2x_relation_vqa: 4 records do not have the form vqa; left out (toy-7b)" in found
    assert "ad2x_relation_zh: 5 records have no Chinese text; left out (toy-7b)" in found
    assert "ad2x_coda_general_zh: 3 records have no Chinese text; asked in the other language (toy-7b)" in found


def test_unknown_subtasks_are_shown_under_their_own_names(tmp_path: Path) -> None:
    columns = {"spatial": cell(50.0), "right_of_way": cell(12.5)}
    runs = loaded(tmp_path, summary({"ad2_relation": task("ad2_bench", "relation", cell(50.0), columns)}))
    grid = grid_of(runs, "ad2_bench/7", with_published=False)
    assert figures(grid, grid.rows[0])["Right of way (outside the mean)"] == 12.5


def test_columns_of_a_users_table_are_shown_in_reasoning_with_their_place(tmp_path: Path) -> None:
    columns = {"reasoning": cell(50.0), "traffic_rule": cell(100.0), "dark": cell(0.0)}
    score = {**cell(75.0), "columns": ["reasoning", "traffic_rule"]}
    runs = loaded(tmp_path, summary({"ad2_reasoning": task("ad2_bench", "reasoning", score, columns)}))
    shown = figures(grid := grid_of(runs, "ad2_bench/3", with_published=False), grid.rows[0])
    assert shown == {
        "w/o CoT": 75.0, "Reasoning (in the mean, not in the paper)": 50.0,
        "Traffic rule (in the mean, not in the paper)": 100.0, "Dark (outside the mean)": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("named", [{"columns": ["reasoning"]}, {}])
def test_the_only_column_of_reasoning_is_its_score(tmp_path: Path, named: dict[str, Any]) -> None:
    table = task("ad2_bench", "reasoning", {**cell(50.0), **named}, {"reasoning": cell(50.0)})
    grid = grid_of(loaded(tmp_path, summary({"ad2_reasoning": table})), "ad2_bench/3", with_published=False)
    assert figures(grid, grid.rows[0]) == {"w/o CoT": 50.0}


def test_abstentions_are_shares_of_the_wrong_answers(tmp_path: Path) -> None:
    """8 wrong answers of which 2 are E and 1 is F: 25 and 12.5 %."""
    kinds = {"distractor": 5, "none_matches": 2, "absent": 1}
    tasks = {
        "ad2_relation": task("ad2_bench", "relation", cell(50.0), error_kinds=kinds),
        "ad2_perception_base": task("ad2_bench", "perception_base", cell(50.0), error_kinds={"distractor": 3}),
        "ad2_reasoning": task("ad2_bench", "reasoning", cell(50.0)),  # free text: no choices
    }
    runs = loaded(tmp_path, summary(tasks))
    grid = grid_of(runs, "ad2_bench/abstentions")
    assert {row.label: figures(grid, row) for row in grid.rows} == {
        "toy-7b: E, none matches": {"Base Perc.": 0.0, "Relation Und.": 25.0},
        "toy-7b: F, target absent": {"Base Perc.": 0.0, "Relation Und.": 12.5},
    }
    for wide in (False, True):
        text = tables.render(runs, wide=wide)
        assert "wrong answers that abstain" in text and "25.0" in text and "12.5" in text
    del kinds["none_matches"], kinds["absent"]
    assert "abstain" not in tables.render(loaded(tmp_path / "none", summary(tasks))), "the data may not offer E and F"


def test_breakdowns_never_mix_judges(tmp_path: Path) -> None:
    def run(judge: str | None) -> dict[str, Any]:
        groups = {
            "weather": {"fog": cell(40.0, judge=judge), "rain": cell(50.0, judge=judge)},
            "severity": {"x": cell(1.0)},
        }
        table = task("ad2_bench", "reasoning", cell(45.0, judge=judge), breakdowns=groups)
        return summary({"ad2_reasoning": table}, judge=judge, label=str(judge))

    found = breakdown_grids(loaded(tmp_path, run("lexical"), run(GPT4O)))
    assert [(g.key, [r.label for r in g.rows]) for g in found] == [
        ("ad2_bench/reasoning/weather/lexical", ["lexical"]),
        (f"ad2_bench/reasoning/weather/{GPT4O}", [GPT4O]),
    ]


def test_different_data_of_one_name_are_distinguished(tmp_path: Path) -> None:
    def run(label: str, sha256: str) -> dict[str, Any]:
        return summary({"t": task("ad2_bench", "relation", cell(50.0), sha256=sha256)}, label=label)

    same = grid_of(loaded(tmp_path / "1", run("a", "11" * 32), run("b", "11" * 32)), "ad2_bench/7")
    assert (same.caption, same.data_column) == ("Data: ad2_bench test", False)
    different = grid_of(loaded(tmp_path / "2", run("a", "11" * 32), run("b", "22" * 32)), "ad2_bench/7")
    assert [r.data for r in different.rows[:2]] == ["ad2_bench test 11111111", "ad2_bench test 22222222"]
    assert "Rows with different hashes were asked different questions." in different.notes
    assert different.data_column


def test_reasons_are_listed_once_for_all_runs() -> None:
    code = "unscored:not_judgeable_lexically"
    assert reason_notes([("a", [(code, 14)]), ("b", [(code, 14)]), ("c", [("unparsed:hedged", 1)])]) == [
        "14 unscored in each of 2 rows: the lexical judge cannot mark logic (SLPS, ORCS, DJSS); "
        "choose an LLM with --judge",
        "1 unparsed: hedged",
    ]
    assert reason_notes([("a", [("unparsed:hedged", 1)]), ("b", [("unparsed:hedged", 2)])]) == [
        "unparsed (a 1, b 2): hedged"
    ]


def test_local_paths_are_not_shown(tmp_path: Path) -> None:
    why = (
        "no: put it into /home/me/env/site-packages/pycocoevalcap/spice/lib, see https://example.org/a/b or /opt/x.jar"
    )
    columns = {"bleu_4": cell(3.0), "spice": cell(None, reason=why)}
    grid = grid_of(
        loaded(tmp_path, summary({"t": task("coda_lm", "region", cell(40.0), columns)}, label="m")), "coda_lm/6"
    )
    assert "SPICE: no: put it into pycocoevalcap/spice/lib, see https://example.org/a/b or x.jar" in grid.notes


LONG = "Qwen/Qwen2.5-VL-72B-Instruct-with-a-very-long-suffix-of-training-run-"
CHINESE = "视觉语言模型" * 6


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
    assert [line for line in text.splitlines() if columns_of(line) > WIDTH] == []
    assert max(map(columns_of, tables.render(many_runs, wide=True, published=published).splitlines())) > 200
    assert ("InternVL3-8B" in text) is published


def test_long_names_are_whole_and_differ(many_runs: list[report.RunSummary]) -> None:
    """A name is wrapped, so all its characters are in its row."""
    found = next(g for g in tables.grids(many_runs, with_published=False) if g.key == "ad2_bench/2")
    table = tables.compact(found).split("Judge: ")[1]
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
    text = " ".join(tables.compact(accuracy).split())
    assert "100.0 [99.9, 100.0]" in text
    assert "Left out here, see --wide: BLEU, CIDEr, BLEU, CIDEr, BLEU, CIDEr, strict" in text


def test_judges_have_tables_of_their_own(tmp_path: Path) -> None:
    runs = loaded(
        tmp_path,
        summary(ad2_tasks("lexical"), judge="lexical", label="a"),
        summary(ad2_tasks(GPT4O), judge=GPT4O, label="b"),
    )
    overall = next(g for g in tables.grids(runs, with_published=False) if g.key == "ad2_bench/2")
    first, second = tables.compact(overall).split("Judge: ")[1:]
    assert first.startswith("lexical\n") and "\na " in first and "\nb " not in first
    assert second.startswith(GPT4O) and "\nb " in second and "–" not in first + second.split("\n  ")[0]


def test_columns_without_a_judge_have_no_star(tmp_path: Path) -> None:
    """A relation task is exact as multiple choice and judged as free text; only the latter is starred."""
    exact = task("ad2_bench", "relation", cell(50.0), {"spatial": cell(50.0)})
    free = task("ad2_bench", "relation", cell(60.0, judge="lexical"), {"spatial": cell(60.0, judge="lexical")})
    free["variant"] = {"form": "vqa"}
    runs = loaded(tmp_path, summary({"ad2_relation": exact, "ad2x_relation_vqa": free}, judge="lexical"))
    grid = next(g for g in tables.grids(runs, with_published=False) if g.key == "ad2_bench/7")
    none, lexical = tables.compact(grid).split("Judge: ")[1:]
    assert none.startswith("none") and "Spatial" in none and "*" not in none
    assert lexical.startswith("lexical") and "Spatial*" in lexical and "* rated by lexical" in lexical


@pytest.mark.parametrize(
    ("cost", "text"), [(0.269238, "0.27"), (0.003412, "0.0034"), (12.34567, "12.35"), (0, "0"), (None, "None")]
)
def test_the_cost_of_a_judge_is_rounded(cost: float | None, text: str) -> None:
    assert cell_text.usage({"requests": 168, "cost": cost}) == f"requests 168, cost {text}"


def clustered(
    folder: Path, label: str = "toy-7b", method: str | None = METHOD, **score: Any
) -> list[report.RunSummary]:
    found = cell(57.3, **score)
    more = {"interval_method": method} if method else {}
    write_run(folder, summary({"t": task("autodrive_qa", "planning", found, {"accuracy": found}, **more)}, label=label))
    return report.load([folder])


def test_the_method_and_the_number_of_clusters_are_shown(tmp_path: Path) -> None:
    runs = clustered(tmp_path, ci=[41.0, 72.2], clusters=7)
    text = " ".join(tables.render(runs, wide=True).split())
    assert "is left out in turn (jackknife)" in text and "bootstrap" not in text
    head, _, line = tables.render(runs, wide=True).split("All tasks\n")[1].splitlines()[:3]
    assert line[head.index("Clusters") :].split()[0] == "7"
    (figures,) = tables.as_json(runs)["tasks"]
    assert (figures["interval_method"], figures["score"]["clusters"]) == (METHOD, 7)
    page = report_page.page(runs)
    assert "is left out in turn (jackknife)" in page and "7 clusters" in page


@pytest.mark.parametrize("markdown", [False, True])
def test_one_cluster_has_no_interval_and_the_table_shows_the_reason(tmp_path: Path, markdown: bool) -> None:
    text = tables.render(clustered(tmp_path, clusters=1), markdown=markdown, wide=not markdown)
    assert text.count("57.3 [no interval: 1 cluster]") == 2  # the last table too


def test_runs_with_intervals_of_an_earlier_version_are_listed(tmp_path: Path) -> None:
    clustered(tmp_path / "old", "old-7b", None, ci=[38, 42])
    clustered(tmp_path / "new", "new-7b", ci=[30, 51], clusters=9)
    text = " ".join(tables.render(report.load([tmp_path])).split())
    assert "Those of old-7b are bootstrap intervals of an earlier version" in text and "ad2 rescore" in text
