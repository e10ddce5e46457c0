"""`ad2 data` on the command line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from lmms_eval_ad2.cli import data
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.releases import RELEASES

ROW = {
    "id": "q1", "image": "a.jpg", "dimension": "perception_base", "subtask": "counting", "form": "count",
    "question": "How many?", "answer": 2,
}  # fmt: skip


def ad2(*words: str) -> int:
    parser = argparse.ArgumentParser()
    data.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *words])
    return args.func(args)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([json.dumps(ROW), "{", json.dumps({**ROW, "id": "q2"})]), encoding="utf-8")
    return path


def test_import_list_verify_relocate(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl, row 2.*--skip-bad"):
        ad2("import", "ad2_bench", str(source))
    assert ad2("import", "ad2_bench", str(source), "--skip-bad", "--as", "mine", "--split", "dev") == 0
    out, err = capsys.readouterr()
    assert "mine (dev): 2 records [perception_base 2]" in out
    assert "bad rows skipped: 1, listed in" in err
    listed = Path(err.strip().splitlines()[-1].split("listed in ")[1])
    assert json.loads(listed.read_text("utf-8"))["row"] == 2

    assert ad2("list") == 0
    assert "mine (dev): 2 records" in capsys.readouterr().out
    assert ad2("list", "--json") == 0
    (manifest,) = json.loads(capsys.readouterr().out)
    assert (manifest["name"], manifest["bad_rows"], manifest["source"]["release"]) == ("mine", 1, "ad2_bench")

    assert ad2("verify", "mine") == 0
    assert capsys.readouterr().out == "mine (dev): 2 records: ok\n"
    assert ad2("verify", "mine", "--decode", "--json") == 1
    (verdict,) = json.loads(capsys.readouterr().out)
    assert (verdict["ok"], verdict["n_problems"]) == (False, 2)
    assert "image a.jpg: file not found" in verdict["problems"][0]

    images = tmp_path / "images"
    images.mkdir()
    (images / "a.jpg").touch()
    assert ad2("verify", "mine", "--images", str(images)) == 0
    assert open_dataset("mine", "dev").image_root == images


def test_missing_images_of_a_first_import_cause_a_warning(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ad2("import", "ad2_bench", str(source), "--skip-bad") == 0
    assert caplog.text.count("the images of 0 of 2 records are in") == 1
    assert "missing, e.g. a.jpg." in caplog.text
    (source.parent / "a.jpg").touch()
    caplog.clear()
    assert ad2("import", "ad2_bench", str(source), "--skip-bad", "--as", "again") == 0
    assert caplog.text == ""


@pytest.mark.parametrize("named", [True, False], ids=["--images", "default folder"])
def test_an_import_with_a_wrong_image_folder_keeps_the_earlier_one(
    source: Path, tmp_path: Path, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (source.parent / "a.jpg").touch()
    words = ("import", "ad2_bench", str(source), "--skip-bad")
    assert ad2(*words) == 0
    before = open_dataset("ad2_bench", "test")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    other = source.rename(wrong / "rows.jsonl") if not named else source
    again = ("import", "ad2_bench", str(other), "--skip-bad", *(("--images", str(wrong)) if named else ()))
    with pytest.raises(
        Ad2Error, match=r"images of 0 of 2 records are in .*wrong; missing, e.g. a.jpg. Give .*--images"
    ):
        ad2(*again)
    assert open_dataset("ad2_bench", "test") == before
    assert not [p for p in before.parts[0].parents[1].iterdir() if p.name.endswith(".new")]
    assert ad2(*again, "--partial") == 0
    assert open_dataset("ad2_bench", "test").image_root == wrong
    assert "starting again" not in caplog.text


def test_a_wrong_image_folder_is_found_before_the_whole_release_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmms_eval_ad2.data.home.writer.FIRST", 2)
    rows = [json.dumps({**ROW, "id": f"q{i}"}) for i in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*rows, "not read"]), encoding="utf-8")
    with pytest.raises(Ad2Error, match="images of none of the first 2 records"):
        ad2("import", "ad2_bench", str(tmp_path / "rows.jsonl"), "--images", str(tmp_path))


def test_a_repeated_import_writes_nothing(source: Path) -> None:
    words = ("import", "ad2_bench", str(source), "--skip-bad")
    assert ad2(*words) == 0
    part = open_dataset("ad2_bench", "test").parts[0]
    before = part.stat().st_mtime_ns
    assert ad2(*words) == 0
    assert part.stat().st_mtime_ns == before
    assert ad2(*words, "--config", "no_resume=true") == 0
    assert part.stat().st_mtime_ns != before


def test_empty_home_and_unknown_names_are_reported(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2("list") == 0
    assert "no datasets in" in capsys.readouterr().out
    with pytest.raises(Ad2Error, match="did you mean 'coda_lm'"):
        ad2("import", "codalm", str(source))
    with pytest.raises(Ad2Error, match="run: ad2 data import coda_lm"):
        ad2("verify", "coda_lm")
    with pytest.raises(Ad2Error, match="not found"):
        ad2("import", "ad2_bench", str(source.with_name("none.jsonl")))


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_prints_its_schema(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2("list", name, "--layout") == 0
    text = capsys.readouterr().out
    assert text.startswith(("SOURCE:", "Format raw"))
    assert max(map(len, text.splitlines())) <= 120
    assert ad2("list", "--layout") == 0
    assert name in capsys.readouterr().out
