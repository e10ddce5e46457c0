"""Agreement of a folder's reviewers, against values computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.annotate.folders import keep_all, make_project, text_record

from lmms_eval_ad2.annotate.agreement import agreement


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
