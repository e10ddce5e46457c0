"""`remove`: what an import wrote is gone, images of the user stay, and unknown names are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.library_rows import row, store

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home import list_datasets, open_dataset, write_dataset
from lmms_eval_ad2.data.home.removal import remove, stored_splits


def write(home: Path, name: str, split: str, images: Path) -> None:
    write_dataset(name, split, [row(1)], image_root=images, source={}, home=home)


def test_a_removed_split_is_no_dataset_any_more_and_may_be_imported_again(tmp_path: Path) -> None:
    store(tmp_path, 30)  # with bad rows
    write(tmp_path, "d", "train", tmp_path)
    done = remove("d", "test", home=tmp_path)
    assert (done.name, done.split, done.n, done.kept) == ("d", "test", 30, ())
    assert done.folders == (tmp_path / "data/d/test",) and not done.folders[0].exists()
    assert [(m.name, m.split) for m in list_datasets(home=tmp_path)] == [("d", "train")]
    with pytest.raises(Ad2Error, match=r"d \(test\) is not imported \(imported splits: train\)"):
        open_dataset("d", "test", home=tmp_path)
    store(tmp_path, 30)
    assert open_dataset("d", "test", home=tmp_path).n == 30
    assert remove("d", "train", home=tmp_path).n == 1


def test_images_and_other_files_of_the_user_stay(tmp_path: Path) -> None:
    images = tmp_path / "pictures"
    images.mkdir()
    (images / "a.jpg").write_bytes(b"1")
    write(tmp_path, "d", "test", images)
    own = tmp_path / "data/d/test/mine"
    own.mkdir()
    (own / "a.jpg").write_bytes(b"2")
    done = remove("d", home=tmp_path)
    assert (images / "a.jpg").is_file() and (own / "a.jpg").is_file()
    assert done.image_root == str(images) and done.kept == (f"1 other files in {tmp_path / 'data/d/test'}",)
    assert list_datasets(home=tmp_path) == [] and stored_splits(tmp_path) == {}


def test_copies_that_the_import_extracted_go_unless_another_dataset_uses_them(tmp_path: Path) -> None:
    copies = tmp_path / "images/d/test"
    copies.mkdir(parents=True)
    (copies / "a.jpg").write_bytes(b"1")
    write(tmp_path, "d", "test", copies)
    write(tmp_path, "e", "test", copies)
    kept = remove("d", home=tmp_path)
    assert kept.kept == (f"the images in {copies}, which e (test) uses",) and (copies / "a.jpg").is_file()
    remove("e", home=tmp_path)
    write(tmp_path, "d", "test", copies)
    done = remove("d", home=tmp_path)
    assert done.folders == (tmp_path / "data/d/test", copies) and not copies.exists() and done.image_root is None


@pytest.mark.parametrize("damage", ["manifest", "no manifest", "interrupted"])
def test_damaged_and_unfinished_imports_are_removed_too(tmp_path: Path, damage: str) -> None:
    store(tmp_path, 30)
    folder = tmp_path / "data/d/test"
    if damage == "manifest":
        (folder / "manifest.json").write_text(json.dumps({"schema": "other"}))
    elif damage == "no manifest":
        (folder / "manifest.json").unlink()
    else:
        folder.rename(folder.with_name(".test.new"))
    assert stored_splits(tmp_path) == {"d": ["test"]}
    assert remove("d", home=tmp_path).n is None
    assert stored_splits(tmp_path) == {} and not list((tmp_path / "data/d").glob("*test*/*"))


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("coda", None, r"no dataset 'coda' in the data home; did you mean coda_lm\?"),
        ("xyz", "test", r"no dataset 'xyz' in the data home; imported: coda_lm, d "),
        ("../d", "test", r"no dataset '\.\./d' in the data home; imported: coda_lm, d "),
        ("d", "tset", r"d has no split 'tset'; did you mean test\?"),
        ("d", "validation", r"d has no split 'validation'; its splits: test, train"),
        ("d", None, r"d has the splits test, train: name the one to remove with --split"),
    ],
)
def test_unknown_names_are_refused_with_the_near_ones(
    tmp_path: Path, name: str, split: str | None, message: str
) -> None:
    for dataset in (("d", "test"), ("d", "train"), ("coda_lm", "test")):
        write(tmp_path, *dataset, tmp_path)
    with pytest.raises(Ad2Error, match=message):
        remove(name, split, home=tmp_path)
    assert len(list_datasets(home=tmp_path)) == 3
