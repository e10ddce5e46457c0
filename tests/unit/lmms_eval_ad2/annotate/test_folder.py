"""Sources of records to annotate, and folders that are opened again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from support.annotate.folders import SIZE, chain_record, text_record

from lmms_eval_ad2.annotate.folder import AnnotationRequest, open_or_make
from lmms_eval_ad2.annotate.record_images import rendered
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data import home as data_home


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    (root / "night").mkdir(parents=True)
    for name in ("a.png", "night/b.jpg"):
        Image.new("RGB", SIZE, (90, 120, 90)).save(root / name)
    return root


def test_folder_of_images_as_source(tmp_path: Path, pictures: Path) -> None:
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps({"night/b.jpg": [{"box": [1, 2, 30, 40], "category": "bus"}]}), "utf-8")
    folder = open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures), boxes=boxes))
    assert folder.ids == [
        "a.png/general", "a.png/suggestion", "a.png/chain",
        "night/b.jpg/general", "night/b.jpg/suggestion", "night/b.jpg/region/1", "night/b.jpg/chain",
    ]  # fmt: skip
    region = folder.record(5)
    assert (region.mark.coords, region.meta["category_name"], region.image_size) == (((1, 2, 30, 40),), "bus", SIZE)
    assert [step.name.en for step in folder.record(6).steps] == [
        "environment", "key vehicles", "vulnerable road users", "traffic rules", "decision"
    ]  # fmt: skip
    assert rendered(region, folder.about.image_root)[0].size == SIZE


def test_boxes_in_coco_format(tmp_path: Path, pictures: Path) -> None:
    boxes = tmp_path / "coco.json"
    coco = {
        "images": [{"id": 7, "file_name": "a.png"}],
        "categories": [{"id": 2, "name": "dog"}],
        "annotations": [{"image_id": 7, "category_id": 2, "bbox": [10, 20, 30, 40]}],
    }
    boxes.write_text(json.dumps(coco), "utf-8")
    folder = open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures), boxes=boxes, asks=("region",)))
    assert folder.ids == ["a.png/region/1"]
    assert folder.record(0).mark.coords == ((10, 20, 40, 60),)


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ({"c.png": [{"box": [0, 0, 1, 1]}]}, "a picture below"),
        ({"a.png": [{"box": [5, 5, 1, 1]}]}, "x_min < x_max"),
        ({"a.png": [{"box": "x"}]}, "4 finite numbers"),
        ({"a.png": 3}, "a list"),
        ([], "an object"),
        ({"images": [], "annotations": [{"image_id": 1, "bbox": [0, 0, 1, 1]}]}, "the id of one of the images"),
    ],
)
def test_invalid_boxes_are_reported(tmp_path: Path, pictures: Path, boxes: object, message: str) -> None:
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps(boxes), "utf-8")
    with pytest.raises(DataError, match=message):
        open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures), boxes=file))
    assert not (tmp_path / "notes" / "annotation.json").exists()


def test_broken_image_and_empty_folder_are_refused(tmp_path: Path, pictures: Path) -> None:
    (pictures / "c.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="a readable image"):
        open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(Ad2Error, match="no pictures in it"):
        open_or_make(tmp_path / "notes", AnnotationRequest(str(tmp_path / "empty")))


def test_file_of_records_as_source(tmp_path: Path, pictures: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(r.to_json() + "\n" for r in (text_record(), chain_record())), "utf-8")
    folder = open_or_make(tmp_path / "notes", AnnotationRequest(str(file), images=pictures, limit=1))
    assert (len(folder), folder.record(0)) == (1, text_record())
    bad = text_record().to_json().replace('"a.png"]', '"../../etc/passwd"]')
    file.write_text(bad + "\n", "utf-8")
    with pytest.raises(DataError, match=r"without '\.\.'"):
        open_or_make(tmp_path / "more", AnnotationRequest(str(file), images=pictures))
    file.write_text(text_record().to_json() + "\n" + text_record().to_json() + "\n", "utf-8")
    with pytest.raises(Ad2Error, match="two records have the id a/region"):
        open_or_make(tmp_path / "more", AnnotationRequest(str(file), images=pictures))


def test_dataset_as_source(tmp_path: Path, pictures: Path) -> None:
    for split in ("val", "test"):
        data_home.write_dataset("mine", split, [text_record()], image_root=pictures, source={}, resume=False)
    with pytest.raises(Ad2Error, match=r"several splits: --config split=test \| val"):
        open_or_make(tmp_path / "notes", AnnotationRequest("mine"))
    assert len(open_or_make(tmp_path / "notes", AnnotationRequest("mine", split="val"))) == 1
    with pytest.raises(Ad2Error, match="not imported"):
        open_or_make(tmp_path / "other", AnnotationRequest("yours"))
    with pytest.raises(Ad2Error, match="no such file or folder"):
        open_or_make(tmp_path / "other", AnnotationRequest("yours.jsonl"))


def test_repeated_command_opens_the_same_folder(tmp_path: Path, pictures: Path) -> None:
    request = AnnotationRequest(str(pictures), asks=("suggestion",))
    first = open_or_make(tmp_path / "notes", request)
    Image.new("RGB", SIZE).save(pictures / "late.png")  # images added later do not change the annotation folder
    assert open_or_make(tmp_path / "notes", request).ids == first.ids
    with pytest.raises(Ad2Error, match="was begun with SOURCE"):
        open_or_make(tmp_path / "notes", AnnotationRequest("else"))
    with pytest.raises(Ad2Error, match="was begun with --config lang en, not zh"):
        open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures), lang="zh"))
    moved = pictures.rename(tmp_path / "moved")
    again = open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures), images=moved))
    assert again.about.image_root == moved
    assert open_or_make(tmp_path / "notes", AnnotationRequest(str(pictures))).about.image_root == moved


def test_an_image_outside_the_root_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="not opened"):
        rendered(text_record(images=("/etc/passwd",)), tmp_path)
