"""Comparison of two runs: known p-values, refused pairs, counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report import compare as comparing
from lmms_eval_ad2.report.compare import BY_IMAGE, compare, holm


def pair(
    tmp_path: Path, a: dict[str, list[dict[str, Any]]], b: dict[str, list[dict[str, Any]]],
    change_a: dict[str, Any] | None = None, change_b: dict[str, Any] | None = None,
) -> tuple[report.RunSummary, report.RunSummary]:  # fmt: skip
    for name, samples, change in (("a", a, change_a), ("b", b, change_b)):
        tasks = {t: {**task("ad2_bench", "perception_base", cell(50.0)), **(change or {})} for t in samples}
        write_run(tmp_path / name, summary(tasks, label=name), samples)
    first, second = report.load([tmp_path / "a"]), report.load([tmp_path / "b"])
    return first[0], second[0]


def scores(values: list[float | None], **more: Any) -> list[dict[str, Any]]:
    return [sample(f"s{i}", v, **more) for i, v in enumerate(values)]


def test_mcnemar_by_hand(tmp_path: Path) -> None:
    # 10 samples that only A has right, 2 that only B has: 2 * (1 + 12 + 66) / 2^12 = 0.03857
    a = scores([100.0] * 10 + [0.0] * 2 + [100.0] * 8)
    b = scores([0.0] * 10 + [100.0] * 2 + [100.0] * 8)
    row = compare(*pair(tmp_path, {"t": a}, {"t": b}))[0]
    assert (row.test, row.n, row.mean_a, row.mean_b) == ("mcnemar", 20, 90, 50)
    assert row.difference == pytest.approx(40)
    assert row.p_value == pytest.approx(158 / 4096)
    assert row.p_holm == row.p_value
    assert row.ci is not None
    assert row.ci[0] < 40 < row.ci[1]


def test_sign_flip_on_graded_scores(tmp_path: Path) -> None:
    # five differences of the same sign: 2 of the 2^5 sign patterns are as extreme
    row = compare(*pair(tmp_path, {"t": scores([60.0] * 5)}, {"t": scores([50.0, 40.0, 30.0, 50.0, 55.0])}))[0]
    assert row.test == "sign-flip"
    assert row.p_value == pytest.approx(2 / 32)


def test_samples_of_one_cluster_are_not_independent(tmp_path: Path) -> None:
    a, b = scores([100.0] * 12, cluster="one image"), scores([0.0] * 12, cluster="one image")
    runs = pair(tmp_path, {"t": a}, {"t": b})
    row = compare(*runs)[0]
    assert (row.difference, row.p_value, row.p_holm, row.test) == (100, None, None, "none")
    assert "+100.0 [no interval: 1 cluster]" in comparing.render(*runs, [row])


def test_the_difference_of_few_clusters_has_a_wide_interval(tmp_path: Path) -> None:
    a, b = (
        [sample(f"q{i}", 100.0 * right, cluster=f"scene {i // 2}") for i, right in enumerate(correct)]
        for correct in ([1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1])
    )
    runs = pair(tmp_path, {"t": a}, {"t": b})
    (row,) = compare(*runs)
    assert (row.clusters, row.difference, row.p_value) == (3, 50.0, 0.5)
    assert row.ci is not None and row.ci[0] < 0 < 50 < row.ci[1] <= 100, "three scenes are no proof"
    assert "is left out in turn (jackknife)" in " ".join(comparing.render(*runs, [row]).split())


def test_samples_of_one_run_only_are_counted(tmp_path: Path) -> None:
    a = [*scores([100.0, 0.0, None, 100.0]), sample("x", 0.0)]
    b = [*scores([100.0, 100.0, 100.0, None]), sample("y", 0.0), sample("z", 0.0)]
    runs = pair(tmp_path, {"t": a}, {"t": b})
    row = compare(*runs)[0]
    assert (row.n, row.only_a, row.only_b, row.unscored) == (2, 1, 2, 2)
    text = comparing.render(*runs, [row])
    assert "1 only in A, 2 only in B, 2 unscored" in text


def test_frames_of_coordinates_may_differ_and_are_named(tmp_path: Path) -> None:
    coordinates = {"frame": "auto", "model_input": None, "by_frame": {}}
    change = {"variant": {"frame": "model_input", "model_input": "max_pixels=9"}, "coordinates": coordinates}
    runs = pair(tmp_path, {"t": scores([1.0, 2.0])}, {"t": scores([1.0, 2.0])}, {"coordinates": coordinates}, change)
    text = comparing.render(*runs, compare(*runs))
    assert "coordinates in the frame auto against model_input:max_pixels=9" in text


def test_no_sample_scored_in_both_runs(tmp_path: Path) -> None:
    row = compare(*pair(tmp_path, {"t": scores([None])}, {"t": scores([100.0])}))[0]
    assert (row.n, row.mean_a, row.p_value, row.test) == (0, None, None, "none")
    assert row.notes == ("no sample that both runs scored",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"data": {"name": "ad2_bench", "split": "test", "sha256": "cd" * 32}},
            "sha256 abababababab against cdcdcdcdcdcd",
        ),
        ({"judge": "lexical"}, "judge none against lexical"),
        ({"variant": {"lang": "zh"}}, r"asked as {} against {'lang': 'zh'}"),
    ],
)
def test_other_data_and_other_judges_are_refused_unless_forced(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:  # fmt: skip
    runs = pair(tmp_path, {"t": scores([100.0, 0.0])}, {"t": scores([0.0, 0.0])}, None, change)
    with pytest.raises(Ad2Error, match="not comparable: t: ") as caught:
        compare(*runs)
    assert message in str(caught.value)
    assert "--force" in str(caught.value)
    row = compare(*runs, force=True)[0]
    assert any(message in note for note in row.notes)
    assert f"Attention, t: {row.notes[0]}" in comparing.render(*runs, [row])


def test_runs_without_a_common_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="share no task: a has t; b has u"):
        compare(*pair(tmp_path, {"t": scores([1.0])}, {"u": scores([1.0])}))


def chain_run(folder: Path, mean_of: list[str], sacs: list[float], slps: float | None = None) -> report.RunSummary:
    """A run with a chain task: `score` only if its mean has no column without a value."""
    rows = []
    for i, value in enumerate(sacs):
        values = {"sacs": value / 100, "slps": None if slps is None else slps / 100}
        known = [100 * v for c in mean_of if (v := values[c]) is not None]
        score = sum(known) / len(known) if len(known) == len(mean_of) else None
        rows.append(sample(f"s{i}#cot", score, status="partly", values=values))
    table = task("ad2_bench", "cot", {**cell(None, judge="lexical"), "columns": mean_of})
    write_run(folder, summary({"cot": table}, label=folder.name, judge="lexical"), {"cot": rows})
    return report.load([folder])[0]


def test_samples_without_a_score_are_compared_by_the_columns_that_their_judge_can_mark(tmp_path: Path) -> None:
    """The lexical judge marks SACS only: no chain has the mean of both columns."""
    a = chain_run(tmp_path / "a", ["sacs", "slps"], [60, 70, 80])
    b = chain_run(tmp_path / "b", ["sacs", "slps"], [50, 50, 50])
    rows = compare(a, b)
    assert [(row.task, row.n, row.unscored) for row in rows] == [("cot (sacs)", 3, 0)]
    assert (rows[0].mean_a, rows[0].mean_b, rows[0].difference) == pytest.approx((70, 50, 20))


def test_chains_whose_score_is_of_the_marked_columns_are_compared_by_their_score(tmp_path: Path) -> None:
    a, b = (chain_run(tmp_path / name, ["sacs"], values) for name, values in (("a", [60, 70]), ("b", [50, 50])))
    assert [(row.task, row.n, row.difference) for row in compare(a, b)] == [("cot", 2, pytest.approx(15))]


def two_tasks(
    folder: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], **more: Any
) -> report.RunSummary:
    """A run with a task asked directly and as a chain."""
    direct = task("ad2_bench", "reasoning", cell(50.0, judge="lexical"))
    chained = {**task("ad2_bench", "cot", cell(50.0, judge="lexical"), variant={"style": "chain"}), **more}
    tasks = {"ad2_reasoning": direct, "ad2_cot": chained}
    write_run(folder, summary(tasks, judge="lexical"), {"ad2_reasoning": first, "ad2_cot": second})
    return report.load([folder])[0]


COT_GAIN = ("ad2_cot", "ad2_reasoning")


def test_a_chain_and_the_question_that_it_was_made_from_are_a_pair(tmp_path: Path) -> None:
    direct = [sample(f"q{i}", value, cluster=f"i{i}") for i, value in enumerate([40.0, 60.0, 50.0])]
    chains = [sample(f"q{i}#cot", value, cluster=f"i{i}") for i, value in enumerate([50.0, 90.0])]
    run = two_tasks(tmp_path / "r", direct, [*chains, sample("q2#cot", None, cluster="i2")])
    (row,) = comparing.compare_tasks(run, run, COT_GAIN)
    assert (row.task, row.n, row.unscored) == ("ad2_cot / ad2_reasoning", 2, 1)
    assert (row.mean_a, row.mean_b, row.difference) == pytest.approx((70, 50, 20))
    assert row.notes == ()
    assert f"A: {run.name}, ad2_cot" in comparing.render(run, run, [row], tasks=COT_GAIN)


def test_tasks_without_a_common_record_are_paired_by_image(tmp_path: Path) -> None:
    direct = [sample(name, value, cluster=name[0]) for name, value in (("a1", 40.0), ("a2", 60.0), ("b1", 10.0))]
    chains = [
        sample(name, value, cluster=name[0]) for name, value in (("a/cot", 80.0), ("b/cot", 20.0), ("c/cot", 9.0))
    ]
    run = two_tasks(tmp_path / "r", direct, chains)
    (row,) = comparing.compare_tasks(run, run, COT_GAIN)
    assert (row.n, row.only_a, row.only_b) == (2, 1, 0)
    assert row.difference == pytest.approx(((80 - 50) + (20 - 10)) / 2)
    assert row.notes == (BY_IMAGE,)


def test_the_same_questions_with_another_visual_prompt_are_paired_by_record(tmp_path: Path) -> None:
    score = cell(50.0)
    tasks = {name: task("ad2_bench", "relation", score, variant={"mark": name}) for name in ("box", "none")}
    rows = {"box": scores([100.0, 100.0, 0.0]), "none": scores([0.0, 100.0, 0.0])}
    write_run(tmp_path / "r", summary(tasks), rows)
    (run,) = report.load([tmp_path / "r"])
    (row,) = comparing.compare_tasks(run, run, ("box", "none"))
    assert (row.n, row.test, row.difference) == (3, "mcnemar", pytest.approx(100 / 3))


def test_tasks_with_other_data_or_names_cannot_be_paired(tmp_path: Path) -> None:
    rows = [sample("a", 50.0)]
    other = two_tasks(tmp_path / "r", rows, rows, data={"name": "ad2_bench", "split": "test", "sha256": "cd" * 32})
    with pytest.raises(Ad2Error, match="not comparable: ad2_cot: data sha256"):
        comparing.compare_tasks(other, other, COT_GAIN)
    with pytest.raises(Ad2Error, match=r"has no task ad2_cott; did you mean ad2_cot\?"):
        comparing.compare_tasks(other, other, ("ad2_cott", "ad2_reasoning"))


def test_holm_correction_by_hand() -> None:
    # Holm (1979): sorted p times 4, 3, 2, 1, never decreasing; untested tasks are not counted
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx([0.03, 0.06, None, 0.06, 0.02], nan_ok=True)
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_p_values_are_corrected_over_the_tasks(tmp_path: Path) -> None:
    a = {name: scores([100.0] * 8) for name in ("t1", "t2", "t3")}
    b = {"t1": scores([0.0] * 8), "t2": scores([100.0] * 8), "t3": scores([0.0] * 6 + [100.0] * 2)}
    rows = {row.task: row for row in compare(*pair(tmp_path, a, b))}
    assert rows["t1"].p_value == pytest.approx(2 / 2**8)
    assert rows["t1"].p_holm == pytest.approx(3 * 2 / 2**8)
    assert rows["t3"].p_holm == pytest.approx(2 * 2 / 2**6)
    assert rows["t2"].p_holm == 1


def test_the_same_judge_with_other_rubrics_is_refused(tmp_path: Path) -> None:
    runs = pair(tmp_path, {"t": scores([50.0])}, {"t": scores([60.0])}, {"judge": "lexical"}, {"judge": "lexical"})
    assert compare(*runs)[0].difference == pytest.approx(-10)
    other = replace(runs[1], about={**runs[1].about, "judge": {"label": "lexical", "rubrics": "other"}})
    with pytest.raises(Ad2Error, match="judge lexical with other rubrics or settings"):
        compare(runs[0], other)


def test_other_prompts_are_reported(tmp_path: Path) -> None:
    a, b = pair(tmp_path, {"t": scores([50.0])}, {"t": scores([60.0])})
    b = replace(b, about={**b.about, "prompts_sha256": "ff"})
    assert "Attention: prompts_sha256 differs: None against ff" in comparing.render(a, b, compare(a, b))


def test_scores_that_are_means_of_columns_are_named_beside_the_means_of_samples(tmp_path: Path) -> None:
    """90 samples of one column, 10 of another: the mean of samples is not the mean of the two columns."""
    rows = [sample(f"s{i}", 100.0 if i < 90 else 0.0) for i in range(100)]
    score = {**cell(50.0), "columns": ["spatial", "causal"]}
    for name in "ab":
        tasks = {"ad2_relation": task("ad2_bench", "relation", score), "same": task("ad2_bench", "relation", score)}
        same = [sample(f"s{i}", 50.0) for i in range(100)]
        write_run(tmp_path / name, summary(tasks, label=name), {"ad2_relation": rows, "same": same})
    (a,), (b,) = report.load([tmp_path / "a"]), report.load([tmp_path / "b"])
    text = " ".join(comparing.render(a, b, compare(a, b)).split())
    assert "ad2_relation: 50.0 and 50.0 in ad2 report, the mean of its columns (spatial, causal)" in text
    assert "same: 50.0" not in text
    assert "A, B: means over the samples that both runs have and scored." in text
