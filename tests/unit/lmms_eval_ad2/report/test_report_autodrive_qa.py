"""AutoDrive-QA in reports: kinds and sets of distractors, rotations of options, makers of distractors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.compare import compare, compare_sets, render
from lmms_eval_ad2.report.grid import ResultGrid, grids
from lmms_eval_ad2.report.page import plots, report_page

DOMAIN, LOGIC, AMBIGUOUS = "driving_domain_misconceptions", "logical_inconsistencies", "question_ambiguity"
FRONT = {"views": "front"}


def kind(chosen: int, offered: int, share: float, rate: float, width: float = 5.0) -> dict[str, Any]:
    return {
        "chosen": chosen, "offered": offered, "share": share, "share_ci": [share - width, share + width],
        "rate": rate, "rate_ci": [rate - width, rate + width],
    }  # fmt: skip


KINDS = {
    DOMAIN: kind(6, 60, 60, 10), LOGIC: kind(4, 20, 40, 20),
    AMBIGUOUS: {"chosen": 0, "offered": 9, "share": 0.0, "share_ci": None, "rate": 0.0, "rate_ci": None},
}  # fmt: skip


def mcq(
    part: str, score: float, *, distractors: str | None = "all", maker: str = "rules", mark: float | None = None,
    variant: Mapping[str, Any] = FRONT, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A task over a set of distractors, imported under the name in its YAML file."""
    name = "autodrive_qa" if distractors in (None, "all") else f"autodrive_qa_{distractors}"
    table = task("autodrive_qa", part, cell(score, ci=[score - 4, score + 4]),
                 {"accuracy": cell(score)}, data=name, variant=variant, **more)  # fmt: skip
    if distractors:
        n = 0 if mark is None else 80
        table["data"] |= {
            "distractors": distractors, "maker": maker, "correctness": {"mean": mark, "n": n, "unrated": 100 - n},
        }  # fmt: skip
    return table


def loaded(
    tmp_path: Path, tasks: dict[str, Any], samples: Any = None, name: str = "a", **more: Any
) -> report.RunSummary:
    write_run(tmp_path / name, summary(tasks, **more), samples)
    (run,) = report.load([tmp_path / name])
    return run


def shown(runs: list[report.RunSummary], **options: Any) -> dict[str, ResultGrid]:
    return {grid.key: grid for grid in grids(runs, **options)}


def rows(grid: ResultGrid) -> dict[str, list[float | None]]:
    return {r.label: [c.official if c else None for c in r.cells] for r in grid.rows if r.kind != "published"}


def test_shares_and_rates_have_counts_and_intervals(tmp_path: Path) -> None:
    table = mcq("planning", 60.0, error_kinds={DOMAIN: 6, LOGIC: 4}, offered_kinds=KINDS)
    run = loaded(tmp_path, {"ad2_mcq_planning": table})
    found = shown([run])
    assert rows(found["autodrive_qa/7"])["toy-7b: Driving domain misconceptions"] == [None, None, 60]
    # No row for a kind that was never offered; the kind that is chosen most is the one that is offered most.
    rates = {label: cells[0] for label, cells in rows(found["autodrive_qa/rates"]).items()}
    assert rates == {
        "toy-7b: Driving domain misconceptions": 10, "toy-7b: Logical inconsistencies": 20,
        "toy-7b: Question ambiguity": 0,
    }  # fmt: skip
    text = tables.render([run], wide=True)
    assert "60.0 [55.0, 65.0] (6)" in text
    assert "10.0 [5.0, 15.0] (6 of 60)" in text
    assert "0.0 (0 of 9)" in text
    page = report_page.page([run], worst_samples=0)
    assert "[5.0, 15.0] (6 of 60)" in page


def test_no_table_by_category_for_data_with_options_of_no_category(tmp_path: Path) -> None:
    """Shares of the five categories say nothing if two thirds of the options have none: one line says so."""
    kinds = {DOMAIN: KINDS[DOMAIN], "uncategorised": kind(4, 40, 40, 10)}
    table = mcq("planning", 60.0, error_kinds={DOMAIN: 6, "uncategorised": 4}, offered_kinds=kinds)
    run = loaded(tmp_path, {"ad2_mcq_planning": table})
    found = shown([run], with_published=False)
    assert "autodrive_qa/7" not in found and "autodrive_qa/rates" not in found
    (line,) = [note for note in found["autodrive_qa/1"].notes if "error category" in note]
    assert "40 of 100 wrong options have none" in line
    assert plots.error_kinds([run]) is None
    assert "No table by error category (Table 7)" in tables.render([run])


def test_invalid_counts_are_reported_with_their_field(tmp_path: Path) -> None:
    table = mcq("planning", 60.0, offered_kinds={DOMAIN: {**KINDS[DOMAIN], "chosen": -1}})
    with pytest.raises(DataError, match=r"ad2_mcq_planning\.offered_kinds\.driving_domain_misconceptions\.chosen"):
        loaded(tmp_path, {"ad2_mcq_planning": table})


def test_table_8_has_one_row_per_set_in_the_papers_order(tmp_path: Path) -> None:
    tasks = {
        "ad2_mcq_planning": mcq("planning", 43.0, mark=4.55),
        f"ad2x_mcq_planning_{DOMAIN}": mcq("planning", 49.0, distractors=DOMAIN, mark=4.5),
        "ad2x_mcq_planning_naive": mcq("planning", 51.0, distractors="naive"),
        "ad2x_mcq_perception_naive": mcq("perception", 58.0, distractors="naive"),
    }
    found = shown([loaded(tmp_path, tasks)])
    grid = found["autodrive_qa/8"]
    assert rows(grid) == {
        "toy-7b: Naive": [58, None, None, None, 51, None],
        "toy-7b: Driving domain misconceptions": [None, None, None, None, 49, 4.5],
        "toy-7b: All kinds": [None, None, None, None, 43, 4.55],
    }
    assert list(rows(grid)) == ["toy-7b: Naive", "toy-7b: Driving domain misconceptions", "toy-7b: All kinds"]
    printed = [r for r in grid.rows if r.kind == "published"]
    assert (printed[0].label, printed[-1].label) == ("Naive", "All kinds")
    assert [c.official for c in printed[-1].cells if c] == [51.64, 4.57, 39.74, 4.60, 43.50, 4.55]
    assert "Correctness: 20 of 100 questions were not rated" in grid.notes
    assert "4.55" in tables.render([loaded(tmp_path, tasks)])
    # Naive distractors are not the benchmark.
    assert list(rows(found["autodrive_qa/1"])) == ["toy-7b"]
    assert [c for c in rows(found["autodrive_qa/1"])["toy-7b"] if c is not None] == [43]


def test_table_8_requires_a_second_set_or_a_rating(tmp_path: Path) -> None:
    assert "autodrive_qa/8" not in shown([loaded(tmp_path, {"t": mcq("planning", 43.0)})])
    assert "autodrive_qa/8" not in shown([loaded(tmp_path, {"t": mcq("planning", 43.0, distractors=None)})])
    assert "autodrive_qa/8" in shown([loaded(tmp_path, {"t": mcq("planning", 43.0, mark=5.0)})])


def test_the_maker_of_distractors_is_shown_with_every_score(tmp_path: Path) -> None:
    by_rules = loaded(tmp_path, {"t": mcq("planning", 43.0)}, label="one")
    assert "distractors made by rules" in shown([by_rules])["autodrive_qa/1"].caption
    assert "autodrive_qa: distractors made by rules (one)" in tables.warnings([by_rules])
    by_model = loaded(tmp_path, {"t": mcq("planning", 40.0, maker="openai:gpt-4o")}, name="b", label="two")
    both = shown([by_rules, by_model])["autodrive_qa/1"]
    assert both.data_column
    assert [r.note.split("; ")[-1] for r in both.rows if r.kind == "run"] == [
        "distractors made by rules", "distractors made by openai:gpt-4o",
    ]  # fmt: skip
    assert "distractors made by openai:gpt-4o" in report_page.page([by_rules, by_model], worst_samples=0)


CIRCULAR = {"views": "front", "circular": True}


def rotated(part: str = "planning") -> dict[str, Any]:
    table = mcq(part, 30.0, variant=CIRCULAR)
    table["columns"] = {
        "circular": cell(30.0, ci=[20, 40]), "consistency": cell(55.0, ci=[50, 60]),
        "accuracy": cell(50.0, ci=[45, 55], n=400),
    }  # fmt: skip
    table["position"] = {
        "questions": 100, "asked": 402, "incomplete": 2, "n": 398, "distance": 12.5, "ci": [8.0, 17.0], "letters": {},
    }  # fmt: skip
    return table


def test_rotations_of_options_have_a_separate_table(tmp_path: Path) -> None:
    tasks = {"ad2_mcq_planning": mcq("planning", 60.0), "ad2x_mcq_planning_circular": rotated()}
    run = loaded(tmp_path, tasks)
    found = shown([run])
    order = found["autodrive_qa/order"]
    assert [c.title for c in order.columns] == [
        "Planning", "right on average", "same text in all", "letter preference ↓",
    ]  # fmt: skip
    assert rows(order) == {"toy-7b (all orders of the options)": [30, 50, 55, 12.5]}
    assert order.rows[0].n == 100
    assert "letter preference ↓: 2 answers left out: not every rotation of their questions was asked" in order.notes
    assert [c for c in rows(found["autodrive_qa/1"])["toy-7b"] if c is not None] == [60]
    text = tables.render([run], wide=True)
    assert "30.0 [26.0, 34.0]" in text
    assert "12.5 [8.0, 17.0]" in text


def test_subtasks_have_intervals_in_terminal_and_page(tmp_path: Path) -> None:
    cells = {"safe action": cell(40.0, ci=[30, 50], n=50), "goal action": cell(60.0, ci=[50, 70], n=50)}
    run = loaded(tmp_path, {"t": mcq("planning", 50.0, subtasks=cells)})
    assert [g.title for g in breakdown_grids([run])] == ["AutoDrive-QA: planning by sub-task"]
    assert "40.0 [30.0, 50.0]" in tables.render([run], breakdowns=True)
    assert "40.0 [30.0, 50.0]" not in tables.render([run])
    assert "[30.0, 50.0]" in report_page.page([run], worst_samples=0)


# --- two sets, question by question ---


def two_sets(tmp_path: Path, *, maker: str = "rules", question: str = "Is there a truck?") -> report.RunSummary:
    """Ten questions; with naive distractors all are right, with error-modelled ones eight are wrong."""
    tasks = {
        "ad2x_mcq_planning_naive": mcq("planning", 100.0, distractors="naive", sha256="cd" * 32),
        "ad2_mcq_planning": mcq("planning", 20.0, maker=maker),
        "ad2x_mcq_planning_mv": mcq("planning", 20.0, variant={}),
    }
    naive = [sample(f"drivelm:s_{i}", 100.0) for i in range(10)]
    modelled = [sample(f"drivelm:s_{i}", 0.0 if i < 8 else 100.0, question=question) for i in range(10)]
    samples = {"ad2x_mcq_planning_naive": [*naive, sample("drivelm:x", 0.0)], "ad2_mcq_planning": modelled}
    return loaded(tmp_path, tasks, {**samples, "ad2x_mcq_planning_mv": modelled})


def test_naive_against_all_is_paired_by_question(tmp_path: Path) -> None:
    run = two_sets(tmp_path)
    (row,) = compare_sets(run, run, ("naive", "all"))
    assert row.task == "ad2x_mcq_planning_naive / ad2_mcq_planning"
    assert (row.n, row.only_a, row.only_b, row.mean_a, row.mean_b, row.difference) == (10, 1, 0, 100, 20, 80)
    assert row.test == "mcnemar"
    assert row.p_value == pytest.approx(2 / 2**8)
    assert "distractors made by rules" in render(run, run, [row])
    assert "A: toy-7b, distractors naive\nB: toy-7b, distractors all\n" in render(
        run, run, [row], sets=("naive", "all")
    )


def test_the_legend_distinguishes_rows_of_one_model(tmp_path: Path) -> None:
    tasks = {"ad2_mcq_planning": mcq("planning", 20.0), "ad2x_mcq_planning_mv": mcq("planning", 30.0, variant={})}
    grid = shown([loaded(tmp_path, tasks)])["autodrive_qa/1"]
    svg = str(plots.draw(plots.grid_plot(grid), colours := plots.grid_colours([grid])))
    assert "toy-7b, views: 1</text>" in svg and "toy-7b, views: all</text>" in svg
    assert len({colours[f"toy-7b, views: {views}"] for views in ("1", "all")}) == 2


def test_sets_of_other_questions_or_other_makers_are_refused(tmp_path: Path) -> None:
    run = two_sets(tmp_path / "1", question="Is there a bus?")
    with pytest.raises(Ad2Error, match=r"different questions with the same id \(drivelm:s_0\)"):
        compare_sets(run, run, ("naive", "all"))
    run = two_sets(tmp_path / "2", maker="openai:x")
    with pytest.raises(Ad2Error, match="data maker rules against openai:x"):
        compare_sets(run, run, ("naive", "all"))
    (row,) = compare_sets(run, run, ("naive", "all"), force=True)
    assert {"distractors made by rules", "distractors made by openai:x"} <= set(row.notes)
    with pytest.raises(Ad2Error, match="the runs have: all, naive; all, naive"):
        compare_sets(run, run, ("naive", LOGIC))


def test_rotations_are_compared_by_question(tmp_path: Path) -> None:
    """A is right in all rotations of both questions; B fails one of the first. The third has one rotation only."""
    options = {"options": [{"letter": x} for x in "AB"]}

    def sample_row(id: str, score: float | None, question: str) -> dict[str, Any]:
        row = sample(id, score, cluster=question)
        row["record"] |= options
        return row

    def sample_rows(first: float) -> list[dict[str, Any]]:
        scores = {"q1#0": first, "q1#1": 100.0, "q2#0": 100.0, "q2#1": 100.0, "q3#0": 100.0}
        return [sample_row(id, score, id[:2]) for id, score in scores.items()]

    name = "ad2x_mcq_planning_circular"
    a = loaded(tmp_path, {name: rotated()}, {name: sample_rows(100.0)}, "a")
    b = loaded(tmp_path, {name: rotated()}, {name: sample_rows(0.0)}, "b")
    (row,) = compare(a, b)
    assert (row.n, row.mean_a, row.mean_b, row.test) == (2, 100, 50, "mcnemar")
