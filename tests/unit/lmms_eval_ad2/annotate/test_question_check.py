"""Check of questions by people: sample, answers before verdicts, hidden categories, resuming, summary."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.annotate.folders import choice_record, text_record

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.folder import AnnotationRequest, open_folder, open_or_make
from lmms_eval_ad2.annotate.project import AnnotationProject, QuestionCheckProject
from lmms_eval_ad2.annotate.question_check import make_check, sampled
from lmms_eval_ad2.annotate.results import summary
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.releases.base import CAMERAS

TASKS = {"perception": 40, "planning": 30, "prediction": 30}


def questions(**numbers: int) -> list[Record]:
    return [
        choice_record(id=f"{task}/{n}", task=task, cluster=f"scene {n % 5}")
        for task, number in numbers.items()
        for n in range(number)
    ]


def project(folder: Path, records: list[Record], **request: Any) -> QuestionCheckProject:
    file = folder / "records.jsonl"
    file.write_text("".join(record.to_json() + "\n" for record in records), "utf-8")
    request = {"check": True, "images": folder, **request}
    return QuestionCheckProject(open_or_make(folder / "checked", AnnotationRequest(str(file), **request)))


def test_a_sample_has_the_shares_of_the_tasks_and_a_seed() -> None:
    records = [text_record(id="text"), *questions(**TASKS)]
    found = sampled(lambda: iter(records), 10, 0)
    assert Counter(record.task for record in found) == {"perception": 4, "planning": 3, "prediction": 3}
    ids = [record.id for record in found]
    assert ids == [record.id for record in sampled(lambda: iter(records), 10, 0)]
    assert set(ids) != {record.id for record in sampled(lambda: iter(records), 10, 1)}
    assert [record.task for record in found] != sorted(record.task for record in found), "tasks are mixed"
    assert len(sampled(lambda: iter(records), 400, 0)) == 100
    with pytest.raises(Ad2Error, match="has none"):
        sampled(lambda: iter(records[:1]), 10, 0)


def test_the_answer_comes_first_and_is_final(tmp_path: Path) -> None:
    check = project(tmp_path, questions(planning=1))
    assert check.review("anna", 0).open == ("choose the option that is right",)
    with pytest.raises(Ad2Error, match="choose an option first"):
        check.save_verdict("anna", 0, "correct")
    with pytest.raises(Ad2Error, match="no option 'F'"):
        check.save_choice("anna", 0, "F")
    chosen = check.save_choice("anna", 0, "A")
    assert not chosen.solved and chosen.open == ("is the question correct, ambiguous or wrong?",)
    with pytest.raises(Ad2Error, match="cannot be changed"):
        check.save_choice("anna", 0, "B")
    assert check.save_choice("anna", 0, "A").choice == "A"  # browsers may send an event twice
    assert check.save_verdict("anna", 0, "ambiguous").finished
    assert check.save("anna", 0, "note", "Both.").note == "Both."
    assert check.save_verdict("anna", 0, "wrong").verdict == "wrong"
    with pytest.raises(Ad2Error, match="one of correct, ambiguous, wrong"):
        check.save("anna", 0, "verdict", "keep")
    assert check.finished("anna") == {0} and check.finished("ben") == set()


def test_nothing_on_the_page_shows_the_kinds_of_the_options_and_the_marked_one_only_after_the_answer() -> None:
    record = choice_record(meta={"reasons": {"A": "A cat is tempting."}, "maker": "m"})
    before, after = make_check(record, "en", {}), make_check(record, "en", {"choice": "A"})
    texts = [page_html.option_text(before, o.letter) for o in record.options]
    assert texts == ["A. cat", "B. dog", "C. cow"]
    parts = [*texts, page_html.facts(before), page_html.status(before), page_html.picture(before, Path("/no"))]
    for hidden in ("distractor", "correct", "logical", "tempting", "Marked"):
        assert not any(hidden in part for part in parts), hidden
    assert "Marked as correct: <b>B. dog</b> You chose A." in page_html.marked_answer(after)


def test_the_images_are_those_that_a_model_is_shown() -> None:
    asked = BilingualText("What is to the back of the ego car?")
    record = choice_record(question=asked, images=tuple(f"{c}.jpg" for c in CAMERAS), views=CAMERAS)
    assert make_check(record, "en", {}).drawn.images == ("CAM_BACK.jpg",)


def test_an_opened_folder_continues_where_it_ended(tmp_path: Path) -> None:
    records = questions(**TASKS)
    first = project(tmp_path, records, sample=20, seed=3)
    order = list(first.folder.ids)
    first.save_choice("anna", 0, "B")
    first.save_verdict("anna", 0, "correct")
    first.save_choice("anna", 1, "B")  # killed here
    again = project(tmp_path, records)
    assert again.folder.ids == order and (again.folder.about.n, again.folder.about.seed) == (20, 3)
    assert again.first_open("anna") == 1 and again.review("anna", 1).choice == "B"
    for wrong, message in (
        ({"seed": 4}, "--config seed 3"),
        ({"sample": 21}, "--config sample 20"),
        ({"check": False}, "--check"),
    ):
        with pytest.raises(Ad2Error, match=message):
            project(tmp_path, records, **wrong)
    with pytest.raises(Ad2Error, match="ad2 annotate summary"):
        AnnotationProject(open_folder(tmp_path / "checked"))


def answer(check: QuestionCheckProject, reviewer: str, number: int, letter: str, verdict: Any) -> None:
    check.save_choice(reviewer, number, letter)
    check.save_verdict(reviewer, number, verdict)


def test_the_summary_by_reviewer_and_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = project(tmp_path, questions(perception=5, planning=5))
    for number in range(10):
        planning = check.folder.record(number).task == "planning"
        right = check.folder.ids[number] != "planning/0"
        answer(check, "anna", number, "B" if right else "A", "ambiguous" if planning and not right else "correct")
    answer(check, "ben", 0, "B", "wrong")
    check.save("ben", 0, "note", "No cow\nthere.")
    check.save_choice("ben", 1, "A")
    found = summary(check)
    results = found["reviewers"]["anna"]["results"]
    assert {task: part["n"] for task, part in results.items()} == {"perception": 5, "planning": 5, "all": 10}
    assert results["planning"]["accuracy"]["percent"] == 80.0 and results["perception"]["accuracy"]["percent"] == 100.0
    assert results["all"]["ambiguous"]["n"] == 1 and results["all"]["correct"]["percent"] == 90.0
    low, high = results["all"]["accuracy"]["interval"]
    assert 40 < low < 90 < high < 100
    assert found["reviewers"]["ben"]["pending"] == 9 and found["reviewers"]["ben"]["results"]["all"]["n"] == 1
    assert found["agreement"]["questions"] == 1
    assert {(row["id"], row["verdict"]) for row in found["flagged"]} >= {("planning/0", "ambiguous")}
    assert main(["annotate", "summary", str(tmp_path / "checked")]) == 0
    out = capsys.readouterr().out
    assert "10 questions of" in out and "perception 5, planning 5" in out
    assert "anna        all" in out and "ben: 9 not finished" in out and "No cow there." in out
    assert "over 97.5 % of prediction and planning" in out
    assert main(["annotate", "summary", str(tmp_path / "checked"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flagged"] == found["flagged"]


def test_nothing_finished_is_no_result(tmp_path: Path) -> None:
    check = project(tmp_path, questions(planning=2))
    check.save_choice("anna", 0, "B")
    assert summary(check)["reviewers"]["anna"]["results"]["all"]["accuracy"] is None
