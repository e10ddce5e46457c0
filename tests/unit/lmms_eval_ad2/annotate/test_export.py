"""Export of annotation folders: exported and omitted records, merging of several reviewers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.annotate.folders import chain_record, choice_record, keep_all, make_project, scene_record, text_record

from lmms_eval_ad2.annotate.export import export
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.releases.record_rows import open_records


def exported(project: AnnotationProject, tmp_path: Path, **options: str) -> tuple[list[Record], dict[str, int]]:
    summary = export(project, tmp_path / "out.jsonl", **options)  # type: ignore[arg-type]
    records = [Record.from_json(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    # The export is also read as an untrusted file: by `ad2 mcq build --source records=FILE`.
    read = list(open_records(tmp_path / "out.jsonl", None, project.folder.about.image_root).records())
    assert read == records
    assert summary.n == len(records)
    return records, dict(summary.left_out)


def test_kept_texts_are_unchanged(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for number in range(3):
        keep_all(project, "anna", number)
    project.save_score("anna", 0, "answer", 4)
    records, left_out = exported(project, tmp_path)
    assert left_out == {}
    assert [r.meta.pop("annotation") for r in records] == [  # type: ignore[attr-defined]
        {"reviewers": ["anna"], "kept": n, "changed": 0, "deleted": 0, "added": 0, **more}
        for n, more in ((1, {"scores": {"anna": {"answer": 4}}}), (3, {}), (3, {}))
    ]
    assert records == [text_record(), chain_record(), choice_record()]


def test_changed_texts_are_in_one_language(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(), chain_record())
    keep_all(project, "anna", 0)
    keep_all(project, "anna", 1)
    project.save_words("anna", 0, "answer", ("", "", "A brown dog."))
    project.save("anna", 0, "mark", {"kind": "box", "coords": [[1, 2, 3, 4]]})
    project.save_words("anna", 1, "step.3", ("decision", "decision?", "Brake now."))
    project.save_verdict("anna", 1, "step.2", "delete", ("", "", ""))
    (region, chain), _ = exported(project, tmp_path)
    assert region.answer == BilingualText("A brown dog.")
    assert region.question == text_record().question
    assert region.mark.coords == ((1, 2, 3, 4),)
    assert [s.answer for s in chain.steps] == [
        BilingualText("weather is fine.", "weather正常。"),
        BilingualText("Brake now."),
    ]
    assert chain.steps[1].question == BilingualText("decision?", "decision？")  # unchanged: still in both languages
    assert chain.answer == BilingualText("Brake now.")  # the answer of the last step
    assert (chain.meta["annotation"]["changed"], chain.meta["annotation"]["deleted"]) == (1, 1)


def test_options_are_relettered(tmp_path: Path) -> None:
    project = make_project(tmp_path, choice_record())
    keep_all(project, "anna", 0)
    project.save_verdict("anna", 0, "option.A", "delete", ("", "", ""))
    project.save_words("anna", 0, "option.B", ("", "", "brown dog"))
    ((record,), _) = exported(project, tmp_path)
    assert [(o.letter, o.text.en, o.kind) for o in record.options] == [
        ("A", "brown dog", "correct"), ("B", "cow", "logical_inconsistencies"),
    ]  # fmt: skip
    assert (record.letter, record.answer.en) == ("A", "brown dog")


def test_omitted_records_are_counted(tmp_path: Path) -> None:
    records = [text_record(id=f"r{n}") for n in range(5)]
    project = make_project(tmp_path, *records, choice_record())
    keep_all(project, "anna", 0)
    keep_all(project, "anna", 1, complete=False)
    project.save("anna", 2, "note", "hm")
    keep_all(project, "anna", 3)
    project.save_verdict("anna", 3, "answer", "delete", ("", "", ""))
    keep_all(project, "anna", 5)
    for letter in "AC":
        project.save_verdict("anna", 5, f"option.{letter}", "delete", ("", "", ""))
    found, left_out = exported(project, tmp_path)
    assert [r.id for r in found] == ["r0"]
    assert left_out == {"incomplete": 1, "unfinished": 1, "deleted": 1, "not begun": 1, "too few options": 1}


def test_typed_answers_are_exported_in_canonical_form(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(form="count", answer=BilingualText("3", "3")))
    keep_all(project, "anna", 0)
    project.save_words("anna", 0, "answer", ("", "", "there are 4"))
    ((record,), _) = exported(project, tmp_path)
    assert record.answer == BilingualText("4")


def test_objects_are_exported_in_meta(tmp_path: Path) -> None:
    project = make_project(tmp_path, scene_record())
    project.save_words("anna", 0, "answer", ("", "", "A street."))
    key = project.add("anna", 0).lines[-1].base.key
    project.save_words("anna", 0, key, ("vehicle", "", "A bus ahead."))
    project.save("anna", 0, "complete", True)
    ((record,), _) = exported(project, tmp_path)
    assert record.meta["objects"] == [{"category": "vehicle", "text": "A bus ahead."}]
    assert record.meta["annotation"]["added"] == 1


def test_several_reviewers_require_an_option(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    keep_all(project, "anna", 0)
    keep_all(project, "bo", 0, complete=False)
    with pytest.raises(Ad2Error, match=r"anna, bo\): --reviewer NAME or --merge majority"):
        export(project, tmp_path / "x.jsonl")
    with pytest.raises(Ad2Error, match="reviewer 'cy' has done nothing here; reviewers: anna, bo"):
        export(project, tmp_path / "x.jsonl", reviewer="cy")
    assert not (tmp_path / "x.jsonl").exists()
    assert export(project, tmp_path / "x.jsonl", reviewer="anna").n == 1
    assert export(project, tmp_path / "x.jsonl", reviewer="bo").left_out["incomplete"] == 1


def test_majority_of_texts_and_verdicts(tmp_path: Path) -> None:
    project = make_project(tmp_path, *[text_record(id=f"r{n}") for n in range(4)])
    for reviewer in ("anna", "bo", "cy"):
        for number in range(4):
            keep_all(project, reviewer, number)
    texts = {"anna": "A big brown dog runs.", "bo": "A brown dog runs.", "cy": "A brown dog."}
    for reviewer, text in texts.items():
        # All change it: the text closest to the others is taken.
        project.save_words(reviewer, 0, "answer", ("", "", text))
    project.save_verdict("bo", 1, "answer", "delete", ("", "", ""))  # two keep, one deletes
    project.save_words("anna", 2, "answer", ("", "", "A cat."))
    project.save_verdict("bo", 2, "answer", "delete", ("", "", ""))  # three verdicts: no majority
    project.save("anna", 3, "complete", False)
    project.save("bo", 3, "complete", False)
    found, left_out = exported(project, tmp_path, merged="majority")
    assert {r.id: r.answer.en for r in found} == {"r0": "A brown dog runs.", "r1": "A dog ahead."}
    assert left_out == {"disagree: verdict": 1, "incomplete": 1}
    assert found[0].meta["annotation"]["reviewers"] == ["anna", "bo", "cy"]


def test_majority_of_added_steps_boxes_and_letters(tmp_path: Path) -> None:
    project = make_project(tmp_path, chain_record(), choice_record(), text_record())
    for reviewer in ("anna", "bo", "cy"):
        for number in range(3):
            keep_all(project, reviewer, number)
    for reviewer, text in (
        ("anna", "Fog lies over the road."),
        ("bo", "Fog lies over the road!"),
        ("cy", "A parked bus."),
    ):
        key = project.add(reviewer, 0).lines[-1].base.key
        project.save_words(reviewer, 0, key, ("more", "What else?", text))
    project.save("anna", 1, "letter", "C")
    project.save("bo", 1, "letter", "C")
    for reviewer, edge in (("anna", 3), ("bo", 4), ("cy", 5)):
        project.save(reviewer, 2, "mark", {"kind": "box", "coords": [[0, 0, edge, 9]]})
    found, left_out = exported(project, tmp_path, merged="majority")
    chain, choice = found
    assert [s.name.en for s in chain.steps] == ["weather", "vehicles", "decision", "more"]
    assert chain.steps[-1].answer.en == "Fog lies over the road."
    assert (choice.letter, choice.answer.en) == ("C", "cow")
    assert [o.kind for o in choice.options] == ["distractor", "distractor", "correct"]
    assert left_out == {"disagree: boxes": 1}


def test_a_tie_of_two_is_no_majority(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    keep_all(project, "anna", 0)
    keep_all(project, "bo", 0)
    project.save_verdict("bo", 0, "answer", "delete", ("", "", ""))
    assert exported(project, tmp_path, merged="majority") == ([], {"disagree: verdict": 1})


def test_repeated_export_is_identical(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    keep_all(project, "anna", 0)
    export(project, tmp_path / "1.jsonl")
    export(AnnotationProject(project.folder), tmp_path / "2.jsonl")
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    json.loads((tmp_path / "1.jsonl").read_text("utf-8"))
