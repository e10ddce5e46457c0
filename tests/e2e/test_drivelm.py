"""`ad2 score drivelm`: its table, its JSON, its errors."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from support.java import needs_java

from lmms_eval_ad2.cli import score
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def ad2(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    score.register(parser.add_subparsers())
    args = parser.parse_args(["score", "drivelm", *map(str, words)])
    return args.func(args)


def real_files(data_dir: Path) -> tuple[Path, str, Path]:
    return data_dir / "drivelm" / "output.json", "--truth", data_dir / "drivelm" / "test_eval.json"


@needs_java
def test_json_of_the_challenges_sample(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(*real_files(data_dir), "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["accuracy"], data["match_f1"], data["final"], data["tokenizer"]) == (0.0, 0.0, None, "ptb")
    assert (data["n_accuracy"], data["n_language"], data["n_match"], data["n_llm"]) == (9, 9, 4, 9)
    assert (data["n_skipped_by_walk"], data["n_missing"], data["n_duplicate"], data["n_unknown"]) == (35, 0, 0, 0)
    assert 0.1 < data["bleu_1"] < 0.3
    assert data["bleu_1"] > data["bleu_2"] > data["bleu_3"] > data["bleu_4"] >= 0
    assert 0.1 < data["rouge_l"] < 0.3
    assert 0 < data["cider"] < 0.1
    assert set(data["unscored"]) == {"llm", "match", "final"}
    assert (data["parsed_accuracy"], data["n_parsed"], data["n_unparsed"]) == (0.0, 6, 3)
    assert len(data["chosen"]) == 26


def test_table_of_the_challenges_sample(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(*real_files(data_dir), "--config", "tokenizer=plain") == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split() for line in lines]
    assert ["accuracy", "0.0000", "0..1", "9"] in cells
    assert ["match_f1", "0.0000", "0..100", "4"] in cells
    assert ["final", "-", "0..1"] in cells
    assert any(line.startswith("not scored: llm, match (no_judge:") for line in lines)
    assert "not scored: final (parts_missing: missing: llm, match)" in lines
    assert "66 questions, 66 answers; the walk counts 31 and skips 35" in lines
    assert "tokenizer of the language part: plain" in lines
    assert any(row[-1:] == ["not_offered"] for row in cells)


def test_without_java_the_other_parts_are_scored(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ad2(*real_files(data_dir)) == 0
    out = capsys.readouterr().out
    assert ["accuracy", "0.0000", "0..1", "9"] in [line.split() for line in out.splitlines()]
    assert "not scored: bleu_1, bleu_2, bleu_3, bleu_4, rouge_l, cider, language (java_missing:" in out
    assert "missing: llm, language, match" in out


def test_mismatched_files_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = {"Q": "Wet?", "A": "No.", "tag": [0]}
    qas = {"perception": [question, question], "prediction": [], "planning": [], "behavior": []}
    truth, answers = tmp_path / "t.json", tmp_path / "a.json"
    truth.write_text(json.dumps({"s": {"key_frames": {"f": {"QA": qas}}}}))
    rows = [{"id": "zzz", "answer": "No."}, {"id": "s_f_0", "answer": "No."}]
    answers.write_text("\ufeff" + json.dumps(rows[:1]), encoding="utf-8")
    with pytest.raises(
        Ad2Error, match=r"a\.json: none of its 1 answers .* as s_f_0; found zzz\. Are they of another split"
    ):
        ad2(answers, "--truth", truth)
    answers.write_text("\ufeff" + json.dumps(rows), encoding="utf-8")
    assert ad2(answers, "--truth", truth) == 0
    out = capsys.readouterr().out
    assert "1 questions have no answer in the file" in out
    assert "1 answers have no question in the truth" in out


@pytest.mark.parametrize("content", ["not json", "[1", "\xff\xfe", "", "[" * 100_000])
def test_a_file_that_is_not_json_is_rejected(tmp_path: Path, content: str) -> None:
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.write_bytes(content.encode("latin-1"))
    good.write_text("{}")
    with pytest.raises(DataError, match=r"bad\.json"):
        ad2(bad, "--truth", good)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"cannot read .*absent\.json: No such file"):
        ad2(tmp_path / "absent.json", "--truth", tmp_path / "t.json")


def test_help_states_the_units(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ad2("--help")
    assert "match_f1, llm and match are 0..100" in " ".join(capsys.readouterr().out.split())
