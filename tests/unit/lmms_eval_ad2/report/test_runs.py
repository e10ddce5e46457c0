"""Loading of runs: search, refusals and their messages."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.make_runs import ad2_tasks, cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.report import published
from lmms_eval_ad2.report.runs import sample_rows


def test_runs_below_a_folder_are_found_once(tmp_path: Path) -> None:
    a = write_run(tmp_path / "out" / "ad2" / "a", summary(ad2_tasks(), label="a"))
    write_run(tmp_path / "out" / "ad2" / "b", summary(ad2_tasks(), label="b"))
    runs = report.load([tmp_path / "out", a, a / "summary.json"])
    assert [run.name for run in runs] == ["a", "b"]
    assert runs[0].tasks["ad2_perception_base"].score.ci == (38, 42)


def test_models_come_first_then_floor_then_ceiling(tmp_path: Path) -> None:
    for model in ("ad2_oracle", "ad2_chance", "zz_model"):
        write_run(tmp_path / model, summary(ad2_tasks(), label=model, model=model))
    assert [(r.name, r.role) for r in report.load([tmp_path])] == [
        ("zz_model", "run"), ("ad2_chance", "floor"), ("ad2_oracle", "ceiling"),
    ]  # fmt: skip


def test_runs_of_one_model_have_distinct_names(tmp_path: Path) -> None:
    write_run(tmp_path / "x-1", summary(ad2_tasks("lexical"), judge="lexical"))
    write_run(tmp_path / "x-2", summary(ad2_tasks("openai:m"), judge="openai:m"))
    assert [r.name for r in report.load([tmp_path])] == ["toy-7b (lexical)", "toy-7b (openai:m)"]
    write_run(tmp_path / "x-3", summary(ad2_tasks("lexical"), judge="lexical"))
    names = [r.name for r in report.load([tmp_path])]
    assert names == ["toy-7b (x-1)", "toy-7b (openai:m)", "toy-7b (x-3)"]


def test_missing_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing there"):
        report.load([tmp_path / "absent"])
    with pytest.raises(DataError, match=r"expected a finished run at or below this folder, found 'none'"):
        report.load([tmp_path])


def test_unfinished_run_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "half" / "journal").mkdir(parents=True)
    with pytest.raises(DataError, match=r"only unfinished runs .*half.*run the same command again"):
        report.load([tmp_path])
    write_run(tmp_path / "done", summary(ad2_tasks()))
    with caplog.at_level(logging.WARNING):
        assert len(report.load([tmp_path])) == 1
    assert "half: unfinished run, left out" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{not json", "the summary of a run, as JSON"),
        ("[1, 2]", "field 'schema': expected 'ad2-run/1', found 'list'"),
        ('{"results": {}}', "field 'schema': expected 'ad2-run/1', found 'no schema'"),
        ('{"schema": "ad2-run/0"}', "found 'ad2-run/0'. run the evaluation again"),
        ('{"schema": "ad2-run/1", "run": [], "tasks": {}}', "field 'run': expected a mapping"),
        ('{"schema": "ad2-run/1", "run": {}, "tasks": {"t": 3}}', "field 'tasks.t': expected a mapping, found 3"),
        ('{"schema": "ad2-run/1", "run": {}, "tasks": {"t": NaN}}', "NaN is not a JSON number"),
        ("[" * 100_000, "the summary of a run, as JSON"),
    ],
)
def test_corrupt_and_foreign_summaries_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "summary.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"summary\.json") as caught:
        report.load([tmp_path])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ({"official": "57.3"}, "tasks.t.score.official", "a percentage or null"),
        ({"official": True}, "tasks.t.score.official", "a percentage or null"),
        ({"n": -1}, "tasks.t.score.n", "a count"),
        ({"n_unparsed": None}, "tasks.t.score.n_unparsed", "a count"),
        ({"clusters": -1}, "tasks.t.score.clusters", "a count"),
        ({"ci": [1]}, "tasks.t.score.ci", "[low, high] or null"),
        ({"ci": [1, "2"]}, "tasks.t.score.ci", "[low, high] or null"),
        ({"ci": [False, 1]}, "tasks.t.score.ci", "[low, high] or null"),
        ({"ci": [0, 10**400]}, "tasks.t.score.ci", "[low, high] or null"),
    ],
)
def test_invalid_cell_is_reported_with_its_field(
    tmp_path: Path, change: dict[str, Any], field: str, expected: str
) -> None:
    table = task("ad2_bench", "relation", cell(50.0))
    table["score"] = {**table["score"], **change}
    write_run(tmp_path, summary({"t": table}))
    with pytest.raises(DataError) as caught:
        report.load([tmp_path])
    assert (caught.value.field, caught.value.expected) == (field, expected)


def test_incomplete_last_line_is_skipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_run(tmp_path, summary({"t": task("ad2_bench", "relation", cell(50.0))}), {"t": [sample("1", 100.0)]})
    path = tmp_path / "samples" / "t.jsonl"
    with path.open("a", encoding="utf-8") as handle:
        handle.write('{"id": "2", "sc')
    run = report.load([tmp_path])[0]
    with caplog.at_level(logging.WARNING):
        assert [row["id"] for row in sample_rows(run, "t")] == ["1"]
    assert "line 2 breaks off" in caplog.text
    path.write_text('{"id": "2", "sc\n' + json.dumps(sample("3", 0.0)) + "\n", "utf-8")
    with pytest.raises(DataError, match="row 1"):  # in the middle it is damage, not an interrupted write
        list(sample_rows(run, "t"))


def test_judges_of_one_label_with_other_rubrics_are_two_judges(tmp_path: Path) -> None:
    for name, rubric in (("a", "own"), ("b", "official"), ("c", "own")):
        data = summary({"t": task("coda_lm", "general", cell(50.0, judge="openai:gpt-4"))}, judge="openai:gpt-4")
        data["run"]["judge"] |= {"rubrics": rubric, "usage": {"requests": len(name)}, "served_as": [name]}
        write_run(tmp_path / name, data)
    a, b, c = (run.tasks["t"].score.judge for run in report.load([tmp_path]))
    assert a == c != b
    assert str(a).startswith("openai:gpt-4 (settings ")
    assert report.load([tmp_path / "a"])[0].tasks["t"].judge == "openai:gpt-4"
    assert published.table("coda_lm", 2).judged_alike("general", a)


def test_task_names_that_are_paths_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path, summary({"../t": task("coda_lm", "general", cell(50.0))}))
    with pytest.raises(DataError, match="names of tasks"):
        report.load([tmp_path])


def test_runs_in_equal_folders_are_named_by_their_output_folder(tmp_path: Path) -> None:
    for out in ("bench", "chance"):
        write_run(tmp_path / out / "ad2" / "toy-12345678", summary(ad2_tasks()))
    assert [r.name for r in report.load([tmp_path])] == ["toy-7b (bench)", "toy-7b (chance)"]


def test_unfinished_run_next_to_others_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    half, done = tmp_path / "half", tmp_path / "done"
    (half / "ad2" / "m" / "journal").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    write_run(done, summary(ad2_tasks()))
    with caplog.at_level(logging.WARNING):
        assert [r.folder for r in report.load([half, done, tmp_path / "empty"])] == [done]
    assert "m: unfinished run, left out" in caplog.text
    assert "empty: no run at or below it" in caplog.text
    assert report.unfinished([half, done]) == [half / "ad2" / "m"]


def test_tasks_are_in_the_papers_order(tmp_path: Path) -> None:
    tasks = ad2_tasks() | {"z": task("coda_lm", "general", cell(1.0)), "y": task("coda_lm", "region", cell(1.0))}
    write_run(tmp_path, summary(dict(reversed(list(tasks.items())))))
    assert [t.part for t in report.load([tmp_path])[0].tasks.values()] == [
        "perception_base", "perception_advanced", "relation", "reasoning", "cot", "general", "region",
    ]  # fmt: skip
