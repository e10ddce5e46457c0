"""Sampling of a study: which records, which pairs, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.studies import TASK, write_answers

from lmms_eval_ad2.annotate.pairwise_study import PairwiseStudy, draw
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def run(tmp_path: Path, label: str, numbers: range, **more: object) -> Path:
    return write_answers(tmp_path / label, label, {str(k): (f"{label} on {k}", 5.0) for k in numbers}, **more)


def test_records_with_two_answers_are_drawn_and_reproducible(tmp_path: Path) -> None:
    runs = [run(tmp_path, "a", range(30)), run(tmp_path, "b", range(10, 40)), run(tmp_path, "c", range(15, 20))]
    study = draw(runs, tmp_path / "s", n=12, seed=3)
    assert study.drawn[TASK]["common"] == 20 and study.drawn[TASK]["items"] == 12
    ids = {pair.id for pair in study.pairs}
    assert len(ids) == 12 and ids <= {str(k) for k in range(10, 30)}
    for id in ids:
        expected = [("a", "b"), ("a", "c"), ("b", "c")] if int(id) in range(15, 20) else [("a", "b")]
        assert sorted(pair.models for pair in study.pairs if pair.id == id) == expected
    for pair in study.pairs:
        assert pair.answers == tuple(f"{model} on {pair.id}" for model in pair.models)
        assert pair.question == f"Question {pair.id}?"
    assert PairwiseStudy.open(tmp_path / "s").pairs == study.pairs
    assert draw(runs, tmp_path / "again", n=12, seed=3).pairs == study.pairs
    assert draw(runs, tmp_path / "other", n=12, seed=4).pairs != study.pairs
    assert draw(runs, tmp_path / "all", n=100).drawn[TASK]["items"] == 20


def test_failed_requests_and_empty_replies_are_no_answers(tmp_path: Path) -> None:
    a = run(tmp_path, "a", range(4))
    b = write_answers(
        tmp_path / "b", "b", {"0": ("x", 5), "1": (" ", 1), "2": ("[LMMS_EVAL_REQUEST_FAILED after 3]", None)}
    )
    assert [pair.id for pair in draw([a, b], tmp_path / "s").pairs] == ["0"]


def test_refusals(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a", range(3)), run(tmp_path, "b", range(5, 9))
    with pytest.raises(Ad2Error, match="name two or more run folders"):
        draw([a], tmp_path / "s")
    with pytest.raises(Ad2Error, match="another run is named 'a'"):
        draw([a, a], tmp_path / "s")
    with pytest.raises(Ad2Error, match="no free-text task in common"):
        draw([a, b], tmp_path / "s")
    with pytest.raises(Ad2Error, match="the runs are on different data"):
        draw([a, run(tmp_path, "c", range(3), sha256="cd" * 32)], tmp_path / "s")
    draw([a, run(tmp_path, "d", range(3))], tmp_path / "s")
    with pytest.raises(Ad2Error, match="is a study already"):
        draw([a, tmp_path / "d"], tmp_path / "s")


def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"is no study.*ad2 annotate sample RUN RUN --out"):
        PairwiseStudy.open(tmp_path)
    draw([run(tmp_path, "a", range(3)), run(tmp_path, "b", range(3))], tmp_path / "s")
    with (tmp_path / "s" / "pairs.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(Ad2Error, match="is not the file that this study was made with"):
        PairwiseStudy.open(tmp_path / "s")
    (tmp_path / "s" / "study.json").write_text("[]")
    with pytest.raises(DataError, match="ad2-study/1"):
        PairwiseStudy.open(tmp_path / "s")
