"""CODA-LM's answer files as a run: rows find their records by image, and what does not fit is counted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.coda_data import answer_rows, images, import_coda, write_answers

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.answer_files import JoinedAnswers, join_answers, score_answers, task_of
from lmms_eval_ad2.judge import make_judge
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary

GENERAL = "ad2_coda_general"


@pytest.fixture(autouse=True)
def imported(tmp_path: Path) -> None:
    import_coda(tmp_path / "release")


def joined(folder: Path, part: str, rows: list[dict[str, Any]]) -> JoinedAnswers:
    (found,) = join_answers(write_answers(folder, {part: rows}), "test", "en")
    return found


def score(answers: list[JoinedAnswers], out: Path) -> dict[str, dict[str, Any]]:
    return score_answers(answers, out, lambda: make_judge("lexical"), "mine")


@pytest.mark.parametrize("part", ["general", "suggestion", "region"])
def test_order_and_question_id_do_not_matter(tmp_path: Path, part: str) -> None:
    rows = answer_rows(part)
    other = [{**row, "question_id": 5} for row in rows]
    random.Random(3).shuffle(other)
    assert [row["image"] for row in other] != images(part)
    found = joined(tmp_path / "a", part, rows), joined(tmp_path / "b", part, other)
    answers = [[(s.record.id, s.raw) for s in one.samples()] for one in found]
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(rows)
    assert [text for _, text in answers[0]] == [row["answer"] for row in rows]


def test_regions_are_found_by_object_key(tmp_path: Path) -> None:
    """With eleven objects the order of keys as texts differs from their order in the release."""
    import_coda(tmp_path / "many", split="val", n=2, regions=11)
    rows = sorted(answer_rows("region", 2, 11), key=lambda row: str(row["image"]))
    assert [row["image"] for row in rows] != images("region", 2, 11)
    (one,) = join_answers(write_answers(tmp_path / "a", {"region": rows}), "val", "en")
    by_image = {row["image"]: row["answer"] for row in rows}
    for sample in one.samples():
        name, key = sample.record.cluster.removeprefix("test_"), sample.record.meta["object_key"]
        assert sample.raw == by_image[f"test/images_w_boxes/{name}_object_{key}.jpg"]


def test_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    first, second, _ = answer_rows("general")
    foreign = [{**first, "image": f"test/images/9{k}.jpg"} for k in range(5)] + [
        {**first, "image": "test/images_w_boxes/0001_object_1.jpg"}
    ]
    doubled = [first, {**first, "answer": "something else"}]
    failed = {**second, "answer": "[LMMS_EVAL_REQUEST_FAILED] timeout"}
    counts = joined(tmp_path / "a", "general", [first, *foreign, *doubled, failed]).counts
    assert (counts.rows, counts.records, counts.answered) == (10, 3, 2)
    assert (counts.unknown, counts.repeated, counts.differing, counts.failed) == (6, 2, 1, 1)
    assert counts.examples == ["test/images/90.jpg", "test/images/91.jpg", "test/images/92.jpg"]


def test_a_record_without_answer_is_unscored(tmp_path: Path) -> None:
    rows = answer_rows("general")
    full = score([joined(tmp_path / "a", "general", rows)], tmp_path / "full")[GENERAL]
    table = score([joined(tmp_path / "b", "general", rows[:2])], tmp_path / "run")[GENERAL]
    assert (table["n"], table["n_ok"], table["n_unscored"]) == (3, 2, 1)
    assert table["reasons"] == {"unscored:no_answer": 1}
    marks = [row["score"] for row in read_samples(tmp_path / "full", GENERAL)]
    assert table["score"]["official"] == pytest.approx(sum(marks[:2]) / 2)
    assert table["score"]["strict"] == pytest.approx((sum(marks[:2]) + 10) / 3)
    assert full["n_ok"] == 3
    (missing,) = [row for row in read_samples(tmp_path / "run", GENERAL) if row["status"] != "ok"]
    assert (missing["id"], missing["reason"]) == ("test_0003/general", "no_answer")


def test_the_summary_states_the_files(tmp_path: Path) -> None:
    score([joined(tmp_path / "a", "general", answer_rows("general"))], tmp_path / "run")
    about = read_summary(tmp_path / "run")["run"]
    assert (about["model"], about["label"], about["judge"]["label"]) == ("answer_files", "mine", "lexical")
    stated = about["answer_files"]["general_perception_answer.jsonl"]
    assert (stated["rows"], stated["answered"], len(stated["sha256"])) == (3, 3, 64)
    assert next(iter(read_samples(tmp_path / "run", GENERAL)))["prompt"] == "What matters?"


def test_only_the_files_that_are_there_are_read(tmp_path: Path) -> None:
    rows = {part: answer_rows(part) for part in ("suggestion", "general")}
    found = join_answers(write_answers(tmp_path / "a", rows), "test", "zh")
    assert [one.task.name for one in found] == ["ad2x_coda_general_zh", "ad2x_coda_suggestion_zh"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(Ad2Error, match=r"none of CODA-LM's answer files is here: general_perception_answer\.jsonl"):
        join_answers(tmp_path / "empty", "test", "en")


@pytest.mark.parametrize(("rows", "found"), [([], ""), (["val/images/0001.jpg"], r" \(found 'val/images/0001.jpg'\)")])
def test_a_file_of_which_no_row_fits_is_refused(tmp_path: Path, rows: list[str], found: str) -> None:
    answers = [{**answer_rows("general")[0], "image": image} for image in rows]
    with pytest.raises(Ad2Error, match=rf"none of its \d rows .*'test/images/0001\.jpg'{found}; .*--split"):
        joined(tmp_path / "a", "general", answers)


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    answers = [joined(tmp_path / "a", "general", answer_rows("general"))]
    score(answers, tmp_path / "run")
    with pytest.raises(Ad2Error, match=r"has results already: choose another --out"):
        score(answers, tmp_path / "run")


def test_tasks_by_split_and_language() -> None:
    assert task_of("region", "test", "en").name == "ad2_coda_region"
    assert task_of("region", "mini", "en").name == "ad2x_coda_region_mini"
    with pytest.raises(Ad2Error, match="no task for part 'general' of coda_lm/val in language 'zh'"):
        task_of("general", "val", "zh")
