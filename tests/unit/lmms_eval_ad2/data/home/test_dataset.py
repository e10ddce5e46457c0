"""Reading the data home: errors for missing, damaged or moved files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.library_rows import row, store

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home import home, list_datasets, open_dataset, relocate, verify, write_dataset
from lmms_eval_ad2.data.home.dataset import DamagedDatasetError, damage, load_dataset


def test_home_is_set_by_environment_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "a"))
    assert home() == tmp_path / "a"
    monkeypatch.delenv("AD2_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert home() == tmp_path / "b/lmms-eval-ad2"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home() == Path.home() / ".cache/lmms-eval-ad2"


def test_missing_dataset_error_contains_the_import_command(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"run: ad2 data import coda_lm SOURCE --split test$"):
        open_dataset("coda_lm", "test", home=tmp_path)
    store(tmp_path, 30)
    with pytest.raises(Ad2Error, match=r"imported splits: test\): run: ad2 data import RELEASE SOURCE .*--as d$"):
        open_dataset("d", "val", home=tmp_path)


def test_moved_images_are_relocated(tmp_path: Path) -> None:
    images, moved = tmp_path / "images", tmp_path / "moved"
    images.mkdir()
    (images / "a.jpg").touch()
    store(tmp_path, 30, image_root=images)
    images.rename(moved)
    with pytest.raises(Ad2Error, match="ad2 data verify d --split test --images DIR"):
        open_dataset("d", "test", home=tmp_path)
    with pytest.raises(Ad2Error, match=r"there is no file a\.jpg"):
        relocate("d", "test", tmp_path, home=tmp_path)
    with pytest.raises(Ad2Error, match="no such folder"):
        relocate("d", "test", images, home=tmp_path)
    before = read_manifest(tmp_path)
    relocate("d", "test", moved, home=tmp_path)
    assert open_dataset("d", "test", home=tmp_path).image_root == moved
    assert {**read_manifest(tmp_path), "image_root": ""} == {**before, "image_root": ""}


def read_manifest(root: Path) -> dict:
    return json.loads((root / "data/d/test/manifest.json").read_text("utf-8"))


def test_damaged_datasets_are_omitted_from_the_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert list_datasets(home=tmp_path) == []
    store(tmp_path, 30)
    write_dataset("e", "val", [row(1)], image_root=tmp_path, source={}, home=tmp_path)
    assert [(m.name, m.split, m.n) for m in list_datasets(home=tmp_path)] == [("d", "test", 30), ("e", "val", 1)]
    (tmp_path / "data/d/test/manifest.json").write_text("{}")
    assert [m.name for m in list_datasets(home=tmp_path)] == ["e"]
    assert "is damaged" in caplog.text
    with pytest.raises(Ad2Error, match="damaged"):
        open_dataset("d", "test", home=tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 50, b"x" * 50 + b"PAR1", b"<html>", None])
def test_a_cut_or_missing_part_is_named_with_the_import_command(tmp_path: Path, content: bytes | None) -> None:
    store(tmp_path, 30)
    part = tmp_path / "data/d/test/records-00001.parquet"
    (manifest,) = list_datasets(home=tmp_path)
    assert damage(manifest, tmp_path) == ""
    part.unlink() if content is None else part.write_bytes(content)
    line = (
        r"dataset d \(test\) is damaged: .*records-00001\.parquet is .*; import the data again: .*--split test --as d$"
    )
    for read in (lambda: open_dataset("d", "test", home=tmp_path), lambda: load_dataset("d", "test", tmp_path)):
        with pytest.raises(DamagedDatasetError, match=line):
            read()
    assert list_datasets(home=tmp_path) == [manifest], "the leak check must not ignore it"
    assert re.fullmatch(line, damage(manifest, tmp_path))


def test_verify_reports_every_change(tmp_path: Path) -> None:
    store(tmp_path, 50)
    folder = tmp_path / "data/d/test"
    assert verify("d", "test", home=tmp_path).ok
    manifest = read_manifest(tmp_path)

    def problems(**changes: object) -> str:
        (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))
        verdict = verify("d", "test", home=tmp_path)
        assert verdict.ok is False
        return " / ".join(verdict.problems)

    assert "50 records, but 49 in the manifest" in problems(n=49)
    assert "are not those of the manifest" in problems(sha256="0")
    assert "counts by form" in problems(counts={**manifest["counts"], "form": {"mc": 50}})
    first, second, third = manifest["parts"]
    assert "has changed since the import" in problems(parts=[{**first, "sha256": "0"}, second, third])
    assert "the id occurs twice" in problems(parts=[first, first, third])
    part = folder / first["file"]
    part.write_bytes(part.read_bytes()[:100])
    assert "not a readable parquet" in problems()
    part.unlink()
    with pytest.raises(Ad2Error, match="is missing; import the data again"):
        verify("d", "test", home=tmp_path)
