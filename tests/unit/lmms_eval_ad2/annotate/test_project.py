"""Actions of a reviewer on a record, and its open points until it is finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.annotate.folders import chain_record, choice_record, keep_all, make_project, scene_record, text_record

from lmms_eval_ad2.annotate import drafts
from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText


def test_verdict_follows_edits_and_choices(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    assert project.review("anna", 0).open == ("answer: keep, change or delete?", "complete or incomplete?")
    project.save_verdict("anna", 0, "answer", "keep", ("", "", "A dog ahead."))
    assert project.save("anna", 0, "complete", True).finished
    assert project.save_words("anna", 0, "answer", ("", "", "A brown dog ahead.")).line("answer").verdict == "change"
    restored = project.save_words("anna", 0, "answer", ("", "", "A dog ahead."))
    assert restored.line("answer").verdict is None  # the original text again: no verdict yet
    assert "keep, change or delete" in restored.open[0]
    chosen = project.save_verdict("anna", 0, "answer", "change", ("", "", "A dog ahead."))
    assert chosen.open == ("answer: marked as changed, but not changed yet",)
    deleted = project.save_verdict("anna", 0, "answer", "delete", ("", "", "A dog ahead."))
    assert deleted.finished
    assert deleted.line("answer").deleted
    edited = project.save_words("anna", 0, "answer", ("", "", "B"))
    assert edited.line("answer").verdict == "delete"  # an edit does not undo a deletion


def test_keep_restores_the_original_text(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    project.save_words("anna", 0, "answer", ("", "", "Something else."))
    kept = project.save_verdict("anna", 0, "answer", "keep", ("", "", "Something else."))
    assert kept.line("answer").now.text == "A dog ahead."


def test_steps_are_added_moved_and_removed(tmp_path: Path) -> None:
    project = make_project(tmp_path, chain_record())
    keep_all(project, "anna", 0)
    added = project.add("anna", 0)
    assert [line.base.key for line in added.lines][1:4] == ["step.1", "step.2", "step.3"]
    key = added.lines[-1].base.key
    assert added.open == ("step: there is no text",)
    assert project.save_words("anna", 0, key, ("", "", "Fog ahead.")).open == (
        "step: a step needs a name and a question",
    )
    project.save_words("anna", 0, key, ("hazards", "What else?", "Fog ahead."))
    moved = project.move("anna", 0, key, -1)
    assert [line.now.name for line in moved.lines][1:] == ["weather", "vehicles", "hazards", "decision"]
    assert project.move("anna", 0, "step.1", -1).lines == moved.lines  # at the top already
    assert moved.finished
    assert len(project.save_verdict("anna", 0, key, "delete", ("", "", "")).lines) == 4
    for step in ("step.1", "step.2", "step.3"):
        last = project.save_verdict("anna", 0, step, "delete", ("", "", ""))
    assert last.open == ("steps: at least one is needed",)


def test_an_empty_text_cannot_be_kept(tmp_path: Path) -> None:
    project = make_project(tmp_path, scene_record())
    project.save("anna", 0, "complete", True)
    assert project.save_verdict("anna", 0, "answer", "keep", ("", "", "")).open == ("answer: there is no text",)
    assert project.save_words("anna", 0, "answer", ("", "", "A street.")).finished
    key = project.add("anna", 0).lines[-1].base.key
    assert project.save_words("anna", 0, key, ("", "", "A bus.")).open == ("object: an object needs a category",)
    assert project.save_words("anna", 0, key, ("vehicle", "", "A bus.")).finished


@pytest.mark.parametrize(
    ("form", "good", "bad", "expected"),
    [
        ("yesno", "no", "maybe so", "yes or no"),
        ("count", "4", "many", "a whole number"),
        ("point", "<10, 20>", "left", "<x,y>"),
        ("box", "[1, 2, 30, 40]", "[1, 2]", "x_min"),
    ],
)
def test_typed_answers_are_checked(tmp_path: Path, form: str, good: str, bad: str, expected: str) -> None:
    project = make_project(tmp_path, text_record(form=form, answer=BilingualText("yes" if form == "yesno" else "3")))
    project.save("anna", 0, "complete", True)
    assert expected in project.save_words("anna", 0, "answer", ("", "", bad)).open[0]
    assert project.save_words("anna", 0, "answer", ("", "", good)).finished


def test_deleted_correct_option_requires_another_letter(tmp_path: Path) -> None:
    project = make_project(tmp_path, choice_record())
    keep_all(project, "anna", 0)
    assert project.review("anna", 0).line("answer") is None  # the correct option is the answer
    deleted = project.save_verdict("anna", 0, "option.B", "delete", ("", "", "dog"))
    assert "the correct one is deleted" in deleted.open[0]
    assert project.save("anna", 0, "letter", "C").finished


def test_record_marked_incomplete_is_finished(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert project.save("anna", 1, "complete", False).finished
    assert project.finished("anna") == {1}


def test_navigation_between_records(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert project.first_open("anna") == 0
    keep_all(project, "anna", 0)
    keep_all(project, "anna", 1)
    assert project.finished("anna") == {0, 1}
    assert project.finished("bo") == set()
    assert project.first_open("anna") == 2
    assert project.go("anna", 2, -1, only_open=True) == 2
    assert project.go("anna", 2, -1) == 1
    assert project.go("anna", 2, 1) == 2
    assert project.go("bo", 0, 1, only_open=True) == 1


def test_actions_of_another_process_are_read(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    other = AnnotationProject(open_folder(project.folder.path))
    keep_all(other, "anna", 0)
    assert project.review("anna", 0).finished
    assert project.finished("anna") == {0}


def test_scores_outside_the_scale_are_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path, scale=5)
    assert project.save_score("anna", 0, "answer", 5).line("answer").score == 5
    with pytest.raises(Ad2Error, match="expected 1 to 5"):
        project.save_score("anna", 0, "answer", 6)
    assert project.save_score("anna", 0, "answer", None).line("answer").score is None


def test_missing_texts_cannot_be_reviewed(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with pytest.raises(Ad2Error, match=r"no text 'step\.9'"):
        project.save_verdict("anna", 0, "step.9", "keep", ("", "", ""))
    with pytest.raises(Ad2Error, match="nothing can be added"):
        project.add("anna", 0)


def test_actions_of_another_folder_are_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.actions.append("anna", "elsewhere", "note", "note", "x")
    with pytest.raises(Ad2Error, match="elsewhere, which is not a record of this folder"):
        AnnotationProject(open_folder(project.folder.path))


def test_new_draft_has_no_verdict(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    keep_all(project, "anna", 0)
    pre = '{"id": "a/region", "model": "m", "answer": "A wolf.", "steps": null, "objects": null}\n'
    (project.folder.path / drafts.FILE).write_text(pre, "utf-8")
    review = AnnotationProject(open_folder(project.folder.path)).review("anna", 0)
    assert (review.line("answer").verdict, review.line("answer").base.own) == (None, "A dog ahead.")


def test_changed_record_file_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with (project.folder.path / "records.jsonl").open("a", encoding="utf-8") as handle:
        handle.write(text_record(id="more").to_json() + "\n")
    with pytest.raises(Ad2Error, match="is not the file that this folder was made with"):
        open_folder(project.folder.path)


def test_chinese_texts_are_reviewed_separately(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(), lang="zh")
    assert project.review("anna", 0).line("answer").now.text == "前方有狗。"
