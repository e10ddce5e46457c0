"""`ad2 mcq check` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mcq.choices import choice, row
from support.running import BIN, run

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.testing.fake_endpoint import serve


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    choices = [
        choice(
            f"q{i}", f"What is vehicle {i}?", "a red car", [f"a blue bus {i}", f"a van {i}", f"a tram {i}"], at=i % 4
        )
        for i in range(24)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row(one)) + "\n" for one in choices), "utf-8")
    return path


def test_the_report_has_all_sections(questions: Path, tmp_path: Path) -> None:
    done = run(BIN / "ad2", "mcq", "check", questions, "--out", tmp_path / "r.json", cwd=tmp_path)
    for part in ("24 questions", "faults: none", "choose longest %", "right letters: A 6, B 6, C 6, D 6", "warnings"):
        assert part in done.stdout
    report = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert report["schema"] == "ad2-mcq-check/2" and report["text_only"] is None
    # The correct text is the same in all scenes, so it can be learnt from other scenes without the image.
    assert report["attacks"]["by_attack"]["usual_text"]["all"]["accuracy"] == 1.0
    assert any("right most often in other scenes" in line for line in report["warnings"])


def test_exit_code_1_if_a_row_must_be_repaired(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = choice("bad", "What is it?", "One bus and one car.", ["One bus.", "Two cars.", "A tram."])
    questions.write_text(questions.read_text("utf-8") + json.dumps(row(bad)) + "\n{\n", "utf-8")
    assert main(["mcq", "check", str(questions), "--config", "no_progress=true"]) == 1
    output = capsys.readouterr().out
    assert "faults: 2" in output and "bad B: One bus." in output and "invalid rows: 1" in output


def test_models_are_not_asked_again(questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.json"
    with serve(reply="B") as server:
        words = ["mcq", "check", str(questions), "--llm", f"openai:model=m,base_url={server.url}", "--sample", "10",
                 "--config", "rotations=4", "--out", str(out), "--json", "--config", "no_progress=true"]  # fmt: skip
        assert main(words) == 0
        first: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert server.requests == 40
        assert main(words) == 0
        assert server.requests == 40
    again = json.loads(out.read_text("utf-8"))
    assert first["text_only"]["asked"] == 10 and first["text_only"]["all"]["accuracy"] == 0.25
    assert again["text_only"]["all"] == first["text_only"]["all"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.jsonl"], "no such file"),
        (["nothing_imported"], "import"),
        (["{questions}", "--sample", "0"], "--sample 0"),
        (["{questions}", "--config", "prompts=x.yaml"], "--evaluator"),
        (["{questions}", "--llm", "telepathy"], "--llm"),
        (["{questions}", "--llm", "openai:model=m,base_url=http://127.0.0.1:9/v1"], "no endpoint answers"),
    ],
)
def test_mistakes_are_reported_in_one_message(
    words: list[str], message: str, questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["mcq", "check", "--config", "no_progress=true", *(word.format(questions=questions) for word in words)])
        == 2
    )
    output = capsys.readouterr().err
    assert message in output and "Traceback" not in output and output.count("\n") == 1


def test_the_folder_of_a_build_is_accepted(questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    assert main(["mcq", "check", str(tmp_path), "--config", "no_progress=true"]) == 0
    assert "questions.jsonl (test): 24 questions" in capsys.readouterr().out


def test_unreadable_rows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"scene": {}}\n{"scene": {}}\n', "utf-8")
    assert main(["mcq", "check", str(path), "--config", "no_progress=true"]) == 1
    output = capsys.readouterr().out
    assert "0 questions" in output and "invalid rows: 2" in output
    assert "answers predicted without image" not in output and "no bias" not in output


def test_a_missing_api_key_is_reported_before_the_questions_are_read(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["mcq", "check", str(questions), "--llm", "openai:gpt-4o"]) == 2
    output = capsys.readouterr().err
    assert "OPENAI_API_KEY" in output and output.count("\n") == 1 and "options:" not in output
