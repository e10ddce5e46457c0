"""`ad2 annotate sample` and `export` of a study: pairs of answers, votes and marks as files, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.studies import write_answers

from lmms_eval_ad2.annotate.votes import open_project
from lmms_eval_ad2.cli.main import main


@pytest.fixture
def study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for label, score in (("a", 9.0), ("b", 2.0)):
        write_answers(tmp_path / label, label, {str(k): (f"{label} on {k}", score) for k in range(3)})
    folder = tmp_path / "study"
    assert main(["annotate", "sample", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(folder), "--n", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2 of 3 records, 2 pairs of answers" in printed and f"vote: ad2 annotate page {folder}" in printed
    return folder


def test_votes_and_marks_are_exported_with_their_consistency(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "votes"
    words = ["annotate", "export", str(study), "--out", str(out)]
    assert main(words) == 2
    assert f"has no votes yet: ad2 annotate page {study}" in capsys.readouterr().err
    project = open_project(study)
    for number in range(2):
        project.vote("ann", number, "left" if project.sides("ann", number)[0].startswith("a") else "right")
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "2 votes of 1 people on 2 of 2 pairs; judge: lexical" in printed
    assert "consistency 100.0%" in printed
    assert main(["judge", "agree", str(out / "ratings.jsonl"), str(out / "votes.jsonl")]) == 0
    assert "consistency 100.0%" in capsys.readouterr().out


def test_options_of_other_kinds_are_refused(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["export", study, "--out", "o", "--reviewer", "ann"], "omit --reviewer and --merge"),
        (["export", tmp_path, "--out", "o", "--config", "by=mean-score"], "by: is for studies"),
        (["page", study, "--check"], "check is not for votes"),
        (["page", study, "--config", "no_page=true"], "no-page is not for votes"),
    ):
        assert main(["annotate", *map(str, words)]) == 2
        assert message in capsys.readouterr().err
