"""The checks of `ad2 mcq check` that need no model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.mcq.choices import choice, row

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.mcq import check

FAIR = [
    choice("q0", "What is ahead?", "A red car.", ["A blue bus.", "A tall van.", "A long tram."], at=0, cluster="s0"),
    choice("q1", "What is behind?", "A tall van.", ["A red car.", "A blue bus.", "A long tram."], at=1, cluster="s1"),
    choice("q2", "What will it do?", "Stop now.", ["Go left.", "Go right.", "Back up."], at=2, task="prediction",
           cluster="s2", meta={"correctness": 5}),
    choice("q3", "What to do?", "Go right.", ["Go left.", "Stop now.", "Back up."], at=3, task="planning", cluster="s3",
           meta={"correctness": 3}),
]  # fmt: skip


def written(folder: Path, rows: list[Record | str]) -> Path:
    path = folder / "questions.jsonl"
    lines = [json.dumps(row(one)) if isinstance(one, Record) else one for one in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def report_of(folder: Path, rows: list[Record | str]) -> dict[str, object]:
    return check.check(check.read(str(written(folder, rows))), progress=False)


def test_a_fair_set_has_no_findings(tmp_path: Path) -> None:
    report = check.check(check.read(str(written(tmp_path, list(FAIR)))), progress=False)
    assert report["found"] == 0 and report["faults"]["n"] == 0 and report["data"]["n"] == 4
    assert report["position"]["counts"] == {"A": 1, "B": 1, "C": 1, "D": 1}
    assert report["balance"]["task"] == {"perception": 2, "prediction": 1, "planning": 1}
    assert report["stored_correctness"]["all"] == {
        "n": 2, "mean": 4.0, "counts": {"1": 0, "2": 0, "3": 1, "4": 0, "5": 1},
    }  # fmt: skip
    assert report["stored_correctness"]["by_task"]["perception"]["mean"] is None
    assert json.loads(json.dumps(report)) == report
    assert check.warnings(report) == []


def test_duplicates_and_faulty_rows_are_reported(tmp_path: Path) -> None:
    again = choice("q4", "what is AHEAD", "A red car.", ["A boat.", "A train.", "A plane."])
    alike = choice("q5", "What now?", "Wait.", ["Turn left, back up.", "Back up and turn left.", "Accelerate."])
    implied = choice("q6", "What is there?", "One truck and one bus.", ["One bus.", "Two cars.", "1 truck, 1 bus"])
    broken = '{"id": "q7", "task": "flying"}'
    report = report_of(tmp_path, [*FAIR, again, alike, implied, broken])
    assert report["duplicates"] == {
        "questions": [{"ids": ["q0", "q4"], "answers_differ": False}], "options": [{"id": "q5", "letters": ["B", "C"]}],
    }  # fmt: skip
    faults = report["faults"]
    assert isinstance(faults, dict)
    assert [(r["id"], r["letter"], r["code"]) for r in faults["rows"]] == [
        ("q6", "B", "implied_by_answer"), ("q6", "D", "equals_answer"),
    ]  # fmt: skip
    assert faults["by_kind"] == {"logical_inconsistencies": 2}
    data = report["data"]
    assert isinstance(data, dict) and data["invalid"] == 1 and "q7" not in [r.id for r in FAIR]
    assert "questions.jsonl" in data["invalid_rows"][0]
    assert report["found"] == 1 + 1 + 2 + 1


def test_verdicts_of_options_are_checked(tmp_path: Path) -> None:
    """Two options with one claim, one without a verdict; a naive option needs none. A bare reference is no fault."""
    asked = "Is it moving?"
    alike = choice("y0", asked, "Yes, it turns.", ["No.", "No, it waits.", "The bus."])
    fine = replace(choice("y1", f"{asked} ", "No, it waits.", ["No, it parks.", "Yes, it turns.", "Yes, it brakes."]),
                   answer=BilingualText("No."))  # fmt: skip
    naive = choice("y2", asked, "No.", ["A boat.", "A pool.", "Forty."], image="b.jpg")
    naive = replace(naive, options=tuple(replace(o, kind="naive") if o.kind != "correct" else o for o in naive.options))
    rows = [{**row(one), "open_answer": one.answer.en, "images": [f"{one.id}.jpg"]} for one in (alike, fine, naive)]
    report = report_of(tmp_path, [json.dumps(one) for one in rows])
    assert report["duplicates"]["options"] == [{"id": "y0", "letters": ["B", "C"]}]  # type: ignore[index]
    assert report["faults"]["by_code"] == {"no_verdict": 1}  # type: ignore[index]
    assert report["attacks"]["polar"] == {"n": 3, "alone": 0}  # type: ignore[index]


def test_a_question_with_two_answers_is_reported(tmp_path: Path) -> None:
    other = choice("q4", "What is ahead?", "A boat.", ["A train.", "A bike.", "A plane."])
    found = check.duplicate_questions([*FAIR, other])
    assert found == [{"ids": ["q0", "q4"], "answers_differ": True}]


def test_equal_questions_about_different_images_are_not_duplicates(tmp_path: Path) -> None:
    other = choice("q4", "What is ahead?", "A red car.", ["A boat.", "A train.", "A plane."], image="b.jpg")
    assert report_of(tmp_path, [*FAIR, other])["duplicates"] == {"questions": [], "options": []}


def test_the_open_answer_counts_as_a_reference(tmp_path: Path) -> None:
    data = row(FAIR[2]) | {"open_answer": "Back up."}
    report = report_of(tmp_path, [json.dumps(data)])
    faults = report["faults"]
    assert isinstance(faults, dict) and faults["by_code"] == {"equals_answer": 1}


def test_warnings_name_figure_and_threshold(tmp_path: Path) -> None:
    """Always A, always the longest, always the same text."""
    rows: list[Record | str] = [
        choice(f"q{i}", f"Is it {i}?", "No, it is far away.", [f"Yes {i}{j}" for j in "abc"], image=f"{i}.jpg")
        for i in range(40)
    ]
    report = check.check(check.read(str(written(tmp_path, rows))), progress=False)
    found = "\n".join(check.warnings(report))
    for part in (
        "the longest too often",
        "times as long",
        "not evenly spread",
        "the text that is right most often in other scenes",
        "the only option with its verdict",
        "in 40 of 40 yes-or-no questions",
    ):
        assert part in found
    assert "100.0 % (95 % 91.2 to 100.0, chance 25.0 %, p " in found


def test_an_imported_set_is_read_like_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, list(FAIR))
    (tmp_path / "a.jpg").write_bytes(b"")
    import_release("autodrive_qa", path)
    questions = check.read("autodrive_qa")
    assert (questions.name, questions.split, len(questions.sha256)) == ("autodrive_qa", "test", 64)
    assert [record.id for record in questions.records] == [record.id for record in FAIR]


@pytest.mark.parametrize("name", ["no/such.jsonl", "nothing", "../up", "questions.json"])
def test_an_unknown_set_is_an_error(name: str) -> None:
    with pytest.raises(Ad2Error):
        check.read(name)


def test_a_file_without_questions_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(Ad2Error, match="no multiple-choice question"):
        check.read(str(empty))


HOSTILE = choice("\x1b]0;q\x07", "What \ud800?", "A \x1b[31mcar.", ["A \x1b[5mbus.", "A v\ud800n.", "\u202eA tram."])


def test_output_has_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path, [*FAIR, HOSTILE]), tmp_path / "report.json"
    for more in ([], ["--json"], ["--out", str(out)]):
        assert main(["mcq", "check", str(path), "--config", "no_progress=true", *more]) == 1
        output = capsys.readouterr().out
        output.encode()
        assert not {"\x1b", "\x07"} & set(output)
    assert json.loads(out.read_text("utf-8"))["faults"]["by_code"] == {"not_text": 3}


def test_a_row_with_a_repeated_id_is_invalid(tmp_path: Path) -> None:
    found = check.read(str(written(tmp_path, [*FAIR, choice("q0", "What else?", "Rain.", ["Snow.", "Hail.", "Fog."])])))
    assert len(found.records) == 4 and "'q0' is used more than once" in found.invalid[0]
