"""`ad2 annotate` on the command line: the folder, drafts, export, agreement, and errors of the page."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from PIL import Image
from support.running import BIN, run

from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.testing.fake_endpoint import serve


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    root.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (64, 48), (90, 120, 90)).save(root / name)
    return root


def call(*words: object) -> int:
    return main(["annotate", *map(str, words)])


def test_pictures_are_drafted_reviewed_exported_and_compared(
    tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out.jsonl"
    with serve(reply="Drive on.") as server:
        assert (
            call(
                pictures,
                "--out",
                notes,
                "--config",
                "ask=suggestion",
                "--pre",
                f"endpoint:m@{server.url}",
                "--config",
                "no_page=true",
            )
            == 0
        )
    output = capsys.readouterr().out
    assert "2 records" in output
    assert "drafts: 2 new, 0 from before" in output
    assert call("export", notes, "--out", out) == 1  # nothing is finished
    assert "left out: 2 not begun" in capsys.readouterr().out
    project = AnnotationProject(open_folder(notes))
    for reviewer in ("anna", "bo"):
        project.save_verdict(reviewer, 0, "answer", "keep", ("", "", ""))
        project.save_score(reviewer, 0, "answer", 9)
        project.save(reviewer, 0, "complete", True)
    assert call("export", notes, "--out", out) == 2
    assert "several reviewers worked here (anna, bo): --reviewer NAME or --merge majority" in capsys.readouterr().err
    assert call("export", notes, "--out", out, "--merge", "majority") == 0
    assert "1 of 2 records" in capsys.readouterr().out
    record = json.loads(out.read_text("utf-8"))
    assert record["answer"]["en"] == "Drive on."
    assert record["meta"]["annotation"] == {
        "reviewers": ["anna", "bo"], "kept": 1, "changed": 0, "deleted": 0, "added": 0, "pre": "openai:m",
        "scores": {"anna": {"answer": 9}, "bo": {"answer": 9}},
    }  # fmt: skip
    assert call("summary", notes) == 0
    output = capsys.readouterr().out
    assert "finished: anna 1, bo 1" in output
    assert "drafts of suggestion by openai:m: 2 of 2 reviews accepted them unchanged (100.0 %)" in output
    assert "Table 4" not in output, "it is about regions"
    assert "keep / change / delete: 1 by two or more, 100.0 % of pairs alike, alpha - (nominal)" in output
    assert call("summary", notes, "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["units_by_two_or_more"] == 1
    # The exported records can be annotated again.
    assert call(out, "--images", pictures, "--out", tmp_path / "again", "--config", "no_page=true") == 0


def test_boxes_are_selected_and_drafts_of_regions_stand_beside_table_4(
    tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes = {"a.png": [{"box": [0, 0, n, n], "category": "bus"} for n in (10, 20, 40)]}
    (tmp_path / "boxes.json").write_text(json.dumps(boxes), "utf-8")
    (tmp_path / "pre.jsonl").write_text(json.dumps({"id": "a.png/region/3", "answer": "A bus.", "model": "m"}), "utf-8")
    words = (pictures, "--boxes", tmp_path / "boxes.json", "--config", "ask=region", "--config", "no_page=true")
    assert call(*words, "--out", tmp_path / "notes", "--pre", tmp_path / "pre.jsonl") == 0
    output = capsys.readouterr().out
    assert "regions: 1 of 3 boxes; left out: 2 crowded, 0 beyond the 2 largest of a category" in output
    assert "1 records" in output
    project = AnnotationProject(open_folder(tmp_path / "notes"))
    project.save_verdict("anna", 0, "answer", "keep", ("", "", ""))
    project.save("anna", 0, "complete", True)
    assert call("summary", tmp_path / "notes") == 0
    output = capsys.readouterr().out
    assert "drafts of region by m: 1 of 1 reviews accepted them unchanged (100.0 %)" in output
    assert "CODA-LM, Table 4: box 85 %, coordinates 12 %" in output
    assert call(*words, "--out", tmp_path / "all", "--config", "select=all") == 0
    output = capsys.readouterr().out
    assert "regions: 3 of 3 boxes" in output and "3 records" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.jsonl", "--out", "notes"), "no such file or folder: nowhere.jsonl"),
        (("{}", "--out", "notes", "--config", "ask=generl"), "unknown kind in ask 'generl'; did you mean general"),
        (("{}", "--out", "notes", "--config", "limit=0"), "--config limit=0: 1 or more"),
        (("{}", "--out", "notes", "--port", "70000"), "--port 70000: from 0 to 65535"),
        (("{}", "--out", "notes", "--reviewer", "<b>"), "use letters, digits"),
        (("{}", "--out", "notes", "--boxes", "none.json"), "cannot read none.json"),
        (("export", "{}", "--out", "x.jsonl"), "is no annotation folder (no annotation.json)"),
        (("summary", "nothing"), "nothing is no annotation folder"),
        (("summary", "nothing"), "nothing is no annotation folder"),
        (("{}", "--out", "notes", "--check"), "--check needs multiple-choice questions"),
        (("{}", "--out", "notes", "--config", "sample=3"), "--config sample is for the check of questions"),
        (("{}", "--out", "notes", "--check", "--config", "scale=5"), "--config scale is for the review of texts"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_in_one_line(
    pictures: Path, tmp_path: Path, words: tuple[str, ...], message: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert call(*(word.format(pictures) for word in words)) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.startswith("error: ")
    assert output.count("\n") == 1


def test_a_port_in_use_is_reported(tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gradio")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert call(pictures, "--out", tmp_path / "notes", "--port", taken.getsockname()[1]) == 2
    assert "cannot listen on 127.0.0.1:" in capsys.readouterr().err


def test_a_folder_is_opened_again_by_its_path_alone(
    tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(pictures, "--config", "no_page=true") == 2
    assert f"--out is required: ad2 annotate {pictures} --out DIR" in capsys.readouterr().err
    assert call(pictures, "--out", tmp_path / "notes", "--config", "no_page=true") == 0
    first = capsys.readouterr().out
    assert call(tmp_path / "notes", "--config", "no_page=true") == 0
    assert capsys.readouterr().out == first


def test_help_lists_the_subcommands(tmp_path: Path) -> None:
    output = run(BIN / "ad2", "annotate", "--help", cwd=tmp_path).stdout
    assert "ad2 annotate sample_coda_lm --out notes" in output
    assert "export" in output
    assert "--pre" in run(BIN / "ad2", "annotate", "page", "--help", cwd=tmp_path).stdout
