"""Agreement between reviewers and accepted drafts, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.annotate.folders import keep_all, make_project, scene_record, text_record

from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.results import acceptance, agreement


def test_no_reviewers(tmp_path: Path) -> None:
    found = agreement(make_project(tmp_path))
    assert found["reviewers"] == []
    assert found["scores"]["alpha_interval"] is None
    assert found["pairs"] == []


def test_agreement_of_two_reviewers(tmp_path: Path) -> None:
    project = make_project(tmp_path, *[text_record(id=f"r{n}") for n in range(4)], scale=5)
    for number, (a, b) in enumerate(((1, 1), (2, 3), (5, 5))):
        project.save_score("anna", number, "answer", a)
        project.save_score("bo", number, "answer", b)
    project.save_score("anna", 3, "answer", 4)  # bo has not seen it
    for reviewer in ("anna", "bo"):
        for number in range(3):
            keep_all(project, reviewer, number)
    project.save_verdict("bo", 2, "answer", "delete", ("", "", ""))
    project.save_words("anna", 1, "answer", ("", "", "abcd"))
    project.save_words("bo", 1, "answer", ("", "", "abce"))
    found = agreement(project)
    # Values 1 1 2 3 5 5: observed 2*1/1 = 2; expected: pairs of values, squared differences summed over ordered
    # pairs, over n - 1 = 5: 2 * (2*1 + 2*4 + 4*16 + 1 + 2*9 + 2*4) / 5 = 2 * 101 / 5 = 40.4; alpha = 1 - 2 / 40.4.
    assert found["scores"]["alpha_interval"] == pytest.approx(1 - 2 / 40.4)
    assert (found["scores"]["units"], found["scores"]["units_by_two_or_more"]) == (4, 3)
    (pair,) = found["pairs"]
    # Kappa: observed 1; expected the sum over all 9 pairs of squared differences, 0+4+16+1+1+9+16+4+0 = 51, over 3.
    assert pair["kappa_quadratic"] == pytest.approx(1 - 1 / (51 / 3))
    assert pair["spearman"] == pytest.approx(1.0)
    assert pair["mean_difference"] == pytest.approx(-1 / 3)
    assert found["verdicts"]["same"] == pytest.approx(2 / 3)
    assert pair["same_verdict"] == pytest.approx(2 / 3)
    assert found["changes"] == {"units_by_two_or_more": 1, "similarity": pytest.approx(0.75)}  # 6 of 8 letters
    assert found["finished"] == {"anna": 3, "bo": 3}


def test_shares_worked_by_hand(tmp_path: Path) -> None:
    """Regions: kept, kept but incomplete, changed, not finished, no draft: 1 of 3. The scene gained an object: 0 of 1;
    for another reviewer it is complete as it is: 1 of 2."""
    made = make_project(tmp_path, *(text_record(id=f"r{n}") for n in range(5)), scene_record())
    drafts = [{"id": f"r{n}", "model": "m", "answer": "A wolf."} for n in range(4)]
    drafts.append({"id": "a/general", "model": "m", "answer": "A street.", "objects": [["vehicle", "A bus."]]})
    (made.folder.path / "pre.jsonl").write_text("".join(json.dumps(row) + "\n" for row in drafts), "utf-8")
    project = AnnotationProject(open_folder(made.folder.path))
    keep_all(project, "anna", 0)
    keep_all(project, "anna", 1, complete=False)
    project.save_words("anna", 2, "answer", ("", "", "A dog."))
    project.save("anna", 2, "complete", True)
    project.save_verdict("anna", 3, "answer", "keep", ("", "", ""))
    keep_all(project, "anna", 4)
    project.add("anna", 5)
    (added,) = [line.base.key for line in project.review("anna", 5).lines if line.verdict == "add"]
    project.save_words("anna", 5, added, ("cone", "", "A cone."))
    for key in ("answer", "object.1"):
        project.save_verdict("anna", 5, key, "keep", ("", "", ""))
    project.save("anna", 5, "complete", True)
    keep_all(project, "bo", 5)
    assert [list(row.values()) for row in acceptance(project)] == [
        ["general", "m", 2, 1, 0.5], ["region", "m", 3, 1, 1 / 3],
    ]  # fmt: skip
