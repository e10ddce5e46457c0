"""`ad2 export answers` and `ad2 score coda_lm`: a run, its answer files, and the same figures from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.coda_data import answer_rows, images, import_coda, write_answers
from support.running import BIN, run, run_folder

from lmms_eval_ad2.data.releases.coda_answers import FILES
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.system
def test_a_run_its_files_and_their_score(tmp_path: Path) -> None:
    import_coda(tmp_path / "release", n=3, regions=2)
    run(BIN / "ad2", "eval", "--model", "ad2_chance", "--tasks", "bench_coda_lm", "--out", "runs", cwd=tmp_path)
    source = run_folder(tmp_path / "runs")
    printed = run(BIN / "ad2", "export", "answers", "runs", "--out", "answers", cwd=tmp_path).stdout
    assert "region_perception_answer.jsonl: 6 rows of 6 records of coda_lm/test, from ad2_coda_region" in printed
    for part, name in FILES.items():
        found = rows(tmp_path / "answers" / name)
        assert [row["image"] for row in found] == images(part)
        assert [row["question_id"] for row in found] == list(range(len(found)))
        samples = list(read_samples(source, f"ad2_coda_{part}"))
        assert [(row["question"], row["answer"]) for row in found] == [(s["prompt"], s["raw"]) for s in samples]
    done = run(BIN / "ad2", "score", "coda_lm", "answers", "--out", "scored", cwd=tmp_path)
    assert "general_perception_answer.jsonl: 3 rows, answers to 3 of 3 records" in done.stdout
    ours, theirs = (read_summary(folder)["tasks"] for folder in (source, tmp_path / "scored"))
    assert ours == theirs
    for task in ours:
        assert list(read_samples(source, task)) == list(read_samples(tmp_path / "scored", task))
    assert "answers" in run(BIN / "ad2", "report", "scored", cwd=tmp_path).stdout
    run(BIN / "ad2", "rescore", "scored", "--judge", "fake", "--out", "again", cwd=tmp_path)


def test_what_does_not_fit_is_printed(tmp_path: Path) -> None:
    import_coda(tmp_path / "release")
    given = answer_rows("general")
    write_answers(tmp_path / "a", {"general": [*given[:2], given[0], {**given[0], "image": "x\x1b[2J.jpg"}]})
    text = run(BIN / "ad2", "score", "coda_lm", "a", "--out", "scored", cwd=tmp_path).stdout
    assert "general_perception_answer.jsonl: 4 rows, answers to 2 of 3 records" in text
    assert "  1 of 3 records have no answer: not scored" in text
    assert "  1 rows match no record, e.g. x\\x1b[2J.jpg" in text
    assert "  1 rows repeat an image, 0 with another answer: the first row counts" in text
    assert "region_perception_answer.jsonl: not in a; its task is left out" in text


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    import_coda(tmp_path / "release")
    broken = write_answers(tmp_path / "broken", {"general": answer_rows("general")})
    with (broken / FILES["general"]).open("a", encoding="utf-8") as file:
        file.write('{"question_id": 1,\n')
    other = write_answers(tmp_path / "other", {"general": answer_rows("general")})
    for words, message in (
        (("score", "coda_lm", "missing", "--out", "o"), "missing: no such folder"),
        (("score", "coda_lm", broken, "--out", "o"), "general_perception_answer.jsonl, row 4: field 'line': expected"),
        (
            ("score", "coda_lm", other, "--out", "o", "--config", "split=mini"),
            "ad2 data import coda_lm SOURCE --split mini",
        ),
        (("score", "coda_lm", other, "--out", "o", "--judge", "nonsense"), "nonsense"),
        (("export", "answers", "missing", "--out", "o"), "missing: no such folder"),
    ):
        done = run(BIN / "ad2", *words, cwd=tmp_path, code=2)
        assert done.stderr.startswith("error: ") and message in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "o").exists()
