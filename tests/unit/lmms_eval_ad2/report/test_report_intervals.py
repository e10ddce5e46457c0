"""Intervals in reports: method, number of clusters, and the reason if there is none."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.report import cell_text, compare, tables
from lmms_eval_ad2.report.page import report_page
from lmms_eval_ad2.report.runs import ScoreCell
from lmms_eval_ad2.report.table_rows import mean
from lmms_eval_ad2.scoring.metrics.intervals import METHOD


def run_of(folder: Path, score: dict[str, Any], label: str = "toy-7b", **more: Any) -> list[report.RunSummary]:
    tasks = {"ad2_mcq_planning": task("autodrive_qa", "planning", score, {"accuracy": score}, **more)}
    write_run(folder, summary(tasks, label=label))
    return report.load([folder])


def test_the_method_and_the_number_of_clusters_are_shown(tmp_path: Path) -> None:
    runs = run_of(tmp_path, cell(57.3, ci=[41.0, 72.2], clusters=7), interval_method=METHOD)
    text = " ".join(tables.render(runs, wide=True).split())
    assert "is left out in turn (jackknife)" in text and "bootstrap" not in text
    head, _, line = tables.render(runs, wide=True).split("All tasks\n")[1].splitlines()[:3]
    assert line[head.index("Clusters") :].split()[0] == "7"
    assert "7 clusters" in cell_text.tip(runs[0].tasks["ad2_mcq_planning"].score)
    found = asdict(runs[0].tasks["ad2_mcq_planning"])  # as in --json
    assert (found["interval_method"], found["score"]["clusters"]) == (METHOD, 7)
    report_page.write(runs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "is left out in turn (jackknife)" in page and "7 clusters" in page


@pytest.mark.parametrize("markdown", [False, True])
def test_one_cluster_has_no_interval_and_the_table_shows_the_reason(tmp_path: Path, markdown: bool) -> None:
    runs = run_of(tmp_path, cell(57.3, clusters=1), interval_method=METHOD)
    assert (
        tables.render(runs, markdown=markdown, wide=not markdown).count("57.3 [no interval: 1 cluster]") == 2
    )  # the last table too


def test_runs_with_intervals_of_an_earlier_version_are_listed(tmp_path: Path) -> None:
    run_of(tmp_path / "old", cell(40.0, ci=[38, 42]), label="old-7b")
    run_of(tmp_path / "new", cell(40.0, ci=[30, 51], clusters=9), label="new-7b", interval_method=METHOD)
    text = " ".join(tables.render(report.load([tmp_path])).split())
    assert "Those of old-7b are bootstrap intervals of an earlier version" in text and "ad2 rescore" in text


def test_invalid_number_of_clusters_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="clusters"):
        run_of(tmp_path, cell(40.0, clusters=-1))


def test_mean_of_parts_has_the_smallest_number_of_clusters() -> None:
    cells = [ScoreCell(10.0, 10.0, None, 9, 9, 0, 0, clusters=k) for k in (12, 3)]
    found = mean(cells)
    assert found is not None and found.clusters == 3


def test_paired_difference_of_few_clusters_has_a_wide_interval(tmp_path: Path) -> None:
    for name, correct in (("a", [1, 1, 1, 1, 1, 1]), ("b", [0, 1, 0, 0, 1, 1])):
        rows = [sample(f"q{i}", 100.0 * v, cluster=f"scene {i // 2}") for i, v in enumerate(correct)]
        write_run(tmp_path / name, summary({"t": task("autodrive_qa", "planning", cell(50.0))}), {"t": rows})
    (a,), (b,) = report.load([tmp_path / "a"]), report.load([tmp_path / "b"])
    (row,) = compare.compare(a, b)
    assert (row.clusters, row.difference, row.p_value) == (3, 50.0, 0.5)
    assert row.ci is not None and row.ci[0] < 0 < 50 < row.ci[1] <= 100, "three scenes are no proof"
    text = compare.render(a, b, [row])
    assert "clusters" in text and "is left out in turn (jackknife)" in " ".join(text.split())


def test_paired_difference_of_one_cluster_has_no_interval(tmp_path: Path) -> None:
    for name, value in (("a", 100.0), ("b", 0.0)):
        rows = [sample(f"q{i}", value, cluster="one") for i in range(4)]
        write_run(tmp_path / name, summary({"t": task("autodrive_qa", "planning", cell(50.0))}), {"t": rows})
    (a,), (b,) = report.load([tmp_path / "a"]), report.load([tmp_path / "b"])
    assert "+100.0 [no interval: 1 cluster]" in compare.render(a, b, compare.compare(a, b))
