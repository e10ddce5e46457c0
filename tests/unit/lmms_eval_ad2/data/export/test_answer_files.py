"""A run's replies as CODA-LM's answer files: the rows, records without a reply, and runs that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.coda_data import answer_rows, import_coda, write_answers

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.export.answer_files import export_answers
from lmms_eval_ad2.data.releases.coda_answers import FILES
from lmms_eval_ad2.harness.answer_files import join_answers, score_answers
from lmms_eval_ad2.judge import make_judge
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary, write_summary

GENERAL = "ad2_coda_general"
PARTS = ("general", "suggestion")  # the n-gram metrics of regions need Java


def make_run(folder: Path, rows: dict[str, list[dict[str, Any]]], split: str = "test") -> Path:
    answers = join_answers(write_answers(folder / "given", rows), split, "en")
    score_answers(answers, folder / "run", lambda: make_judge("lexical"), "mine")
    return folder / "run"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def edit_samples(run: Path, task: str, keep: int, **changes: Any) -> None:
    """Keep the first rows only, with changes."""
    rows = [{**row, **changes} for row in read_samples(run, task)][:keep]
    (run / "samples" / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    import_coda(tmp_path / "release")
    return make_run(tmp_path, {part: answer_rows(part) for part in PARTS})


def test_rows_are_those_that_were_scored(run: Path, tmp_path: Path) -> None:
    written = export_answers(run, tmp_path / "out")
    assert [(w.task, w.records, w.rows, w.not_asked, w.failed) for w in written] == [
        (GENERAL, 3, 3, 0, 0), ("ad2_coda_suggestion", 3, 3, 0, 0)
    ]  # fmt: skip
    for part in PARTS:
        assert read(tmp_path / "out" / FILES[part]) == answer_rows(part)
    assert not (tmp_path / "out" / FILES["region"]).exists()
    first = (tmp_path / "out" / FILES["general"]).read_bytes()
    export_answers(run, tmp_path / "out")
    assert (tmp_path / "out" / FILES["general"]).read_bytes() == first


def test_a_failed_reply_has_no_row_unless_wanted(tmp_path: Path) -> None:
    import_coda(tmp_path / "release")
    rows = answer_rows("general")
    rows[1]["answer"] = "[GENERATION_FAILED] the model returned no text"
    run = make_run(tmp_path, {"general": rows})
    (written,) = export_answers(run, tmp_path / "out")
    assert (written.rows, written.failed) == (2, 1)
    assert [row["question_id"] for row in read(written.path)] == [0, 2]
    (filled,) = export_answers(run, tmp_path / "filled", fill=True)
    assert (filled.rows, filled.failed) == (3, 1)
    assert read(filled.path)[1] == {**rows[1], "answer": ""}


def test_records_that_were_not_asked_keep_their_numbers(run: Path, tmp_path: Path) -> None:
    path = run / "samples" / f"{GENERAL}.jsonl"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[2:]), "utf-8")
    (written,) = export_answers(run, tmp_path / "out", tasks=[GENERAL])
    assert (written.rows, written.not_asked) == (1, 2)
    assert read(written.path) == answer_rows("general")[2:]
    (filled,) = export_answers(run, tmp_path / "filled", tasks=[GENERAL], fill=True)
    first = read(filled.path)[0]
    assert (first["question_id"], first["image"], first["answer"]) == (0, "test/images/0001.jpg", "")
    assert first["question"]


def test_tasks_are_chosen_by_name(run: Path, tmp_path: Path) -> None:
    (written,) = export_answers(run, tmp_path / "out", tasks=["ad2_coda_suggestion"])
    assert written.path.name == FILES["suggestion"]
    with pytest.raises(Ad2Error, match=r"has driving_suggestion_answer\.jsonl of another export"):
        export_answers(run, tmp_path / "out", tasks=[GENERAL])
    with pytest.raises(Ad2Error, match=r"has no task ad2_coda_region of CODA-LM; it has: ad2_coda_general, "):
        export_answers(run, tmp_path / "other", tasks=["ad2_coda_region"])


def test_two_tasks_of_one_part_are_refused(run: Path, tmp_path: Path) -> None:
    summary = read_summary(run)
    tables = {GENERAL: summary["tasks"][GENERAL], "ad2x_coda_general_zh": summary["tasks"][GENERAL]}
    write_summary(run, summary["run"], tables)
    with pytest.raises(Ad2Error, match="answer the same part: name one task per part, with --tasks"):
        export_answers(run, tmp_path / "out")


def test_two_splits_are_refused(run: Path, tmp_path: Path) -> None:
    summary = read_summary(run)
    summary["tasks"]["ad2_coda_suggestion"]["data"]["split"] = "mini"
    write_summary(run, summary["run"], summary["tasks"])
    with pytest.raises(Ad2Error, match="tasks of several splits"):
        export_answers(run, tmp_path / "out")


def test_a_run_without_coda_is_refused(run: Path, tmp_path: Path) -> None:
    write_summary(run, read_summary(run)["run"], {})
    with pytest.raises(Ad2Error, match="has no task of CODA-LM"):
        export_answers(run, tmp_path / "out")


def test_other_data_than_those_of_the_run_are_refused(run: Path, tmp_path: Path) -> None:
    import_coda(tmp_path / "again", n=4)
    with pytest.raises(Ad2Error, match=r"the imported coda_lm/test is not that of the run \(another sha256\)"):
        export_answers(run, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"raw": ["a"]}, "field 'raw': expected a string"), ({"id": "other"}, "field 'id': expected the records of")],
)
def test_changed_samples_are_one_error_and_no_file(
    run: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    edit_samples(run, GENERAL, 1, **changes)
    with pytest.raises(DataError, match=message):
        export_answers(run, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))
