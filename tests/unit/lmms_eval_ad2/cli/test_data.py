"""`ad2 data list, verify, remove`: text, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.library_rows import row

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.data.home import open_dataset, write_dataset


def write(name: str, root: Path, split: str = "test") -> None:
    write_dataset(name, split, [row(1, scene={"weather": "fog"})], image_root=root, source={})


def test_a_damaged_dataset_is_named_in_the_list_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("coda_lm", tmp_path)
    write("drivelm", tmp_path)
    (part,) = open_dataset("coda_lm", "test").parts
    part.write_bytes(part.read_bytes()[:50])
    assert main(["data", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"dataset coda_lm (test) is damaged: {part} is no complete parquet file; ")
    assert first.endswith("ad2 data import coda_lm SOURCE --split test") and second.startswith("drivelm (test): 1 rec")
    assert main(["data", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [bool(one["damaged"]) for one in rows] == [True, False]
    assert main(["data", "list", "coda_lm"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: dataset coda_lm (test) is damaged: ")
    assert main(["data", "verify", "coda_lm"]) == 1


def test_statistics_of_all_splits_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("d", tmp_path)
    write("d", tmp_path, "train")
    assert main(["data", "list", "d"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("d (")] == [
        f"d ({split}): 1 records, sha256 {open_dataset('d', split).sha256[:16]}" for split in ("test", "train")
    ]
    assert main(["data", "list", "d", "--json"]) == 0
    _, found = json.loads(capsys.readouterr().out)
    assert (found["split"], found["conditions"]) == ("train", ["weather"])
    assert found["rows"] == [{"part": "cot", "subtask": "social", "weather": "fog", "n": 1}]


def test_the_file_layout_of_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--layout"]) == 0
    assert "coda_lm" in capsys.readouterr().out
    assert main(["data", "list", "coda_lm", "--layout"]) == 0
    assert "--config metadata=FILE" in capsys.readouterr().out
    assert main(["data", "list", "coda", "--layout"]) == 2
    assert "coda_lm" in capsys.readouterr().err


def test_moved_images_are_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("d", tmp_path / "before")
    moved = tmp_path / "moved"
    assert main(["data", "verify", "d", "--images", str(moved)]) == 2
    assert f"--images: no such folder: {moved}" in capsys.readouterr().err
    for path in row(1).images:
        (moved / path).parent.mkdir(parents=True, exist_ok=True)
        (moved / path).write_bytes(b"")
    assert main(["data", "verify", "d", "--images", str(moved)]) == 0
    assert open_dataset("d", "test").image_root == moved


def test_removal_says_what_it_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("d", tmp_path)
    folder = open_dataset("d", "test").parts[0].parent
    assert main(["data", "remove", "e"]) == 2
    assert "no dataset 'e' in the data home; imported: d" in capsys.readouterr().err
    assert main(["data", "remove", "d", "--split", "test"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"removed d (test): 1 records; {folder}", f"  images were not touched: {tmp_path}",
    ]  # fmt: skip
    assert main(["data", "list"]) == 0
    assert "no datasets in" in capsys.readouterr().out
