"""LingoQA: rows grouped by question, five frames, several references; single files and the folder of the release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.data.releases import RELEASES, BadRow

ROW: dict[str, Any] = {
    "question_id": "q1", "segment_id": "s1", "images": [f"images/val/s1/{i}.jpg" for i in range(5)],
    "question": "Is the light red?", "answer": "Yes.",
}  # fmt: skip


def write(folder: Path, *rows: dict[str, Any], name: str = "val.parquet") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "images").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / name)
    return folder / name


def items(path: Path) -> list[Any]:
    return list(RELEASES["lingoqa"].open(path, split=None, images=None, options={}).records())


def test_answers_of_one_question_are_its_references(tmp_path: Path) -> None:
    other = {**ROW, "question_id": "q2", "answer": "Two."}
    first, second = items(write(tmp_path, ROW, other, {**ROW, "answer": "It is."}, {**other, "answer": "2"}))
    assert (first.id, first.answer.en, first.meta["references"]) == ("q1", "Yes.", ["Yes.", "It is."])
    assert second.meta["references"] == ["Two.", "2"]
    assert (len(first.images), first.cluster, first.task) == (5, "s1", "val")


@pytest.mark.parametrize("folder", ["action", "scenery"])
def test_training_files_give_their_folder_as_task(tmp_path: Path, folder: str) -> None:
    manifest = import_release("lingoqa", write(tmp_path / folder, ROW, name="train.parquet"))
    assert (manifest.split, manifest.counts["task"]) == ("train", {folder: 1})


def test_incomplete_val_split_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ROW)
    with pytest.raises(DataError, match="500 records in all"):
        import_release("lingoqa", path)
    assert import_release("lingoqa", path, partial=True).n == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"images": ["a.jpg"]}, "images"),
        ({"images": ["../a.jpg"] * 5}, "images"),
        ({"answer": ""}, "answer"),
        ({"question": "Is it green?"}, "question_id"),
        ({"segment_id": "s2"}, "question_id"),
    ],
)
def test_faults_are_reported_with_their_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    (bad,) = items(write(tmp_path, ROW, {**ROW, **changes}))
    assert isinstance(bad, BadRow)
    assert (bad.error.field, bad.error.row) == (field, 1)


def test_missing_column_or_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="field 'segment_id': expected a column"):
        items(write(tmp_path, {"question_id": "q", "images": [], "question": "q", "answer": "a"}))
    with pytest.raises(Ad2Error, match="is a folder without action/train"):
        items(tmp_path)


def question_row(number: int, segment: str, **changes: Any) -> dict[str, Any]:
    frames = [f"images/train/{segment}/{i}.jpg" for i in range(5)]
    return {**ROW, "question_id": f"q{number}", "segment_id": segment, "images": frames, **changes}


def release(root: Path, action: list[dict[str, Any]], scenery: list[dict[str, Any]]) -> Path:
    """The official folder with both training files, their frames next to each, and one val question."""
    for folder, rows in (("action", action), ("scenery", scenery)):
        write(root / folder, *rows, name="train.parquet")
        for path in {root / folder / name for row in rows for name in row["images"]}:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(path.name.encode())
    write(root / "evaluation", ROW)
    return root


def read_folder(root: Path, split: str | None = "train", images: Path | None = None) -> list[Any]:
    return list(RELEASES["lingoqa"].open(root, split=split, images=images, options={}).records())


def test_release_folder_has_both_training_files(tmp_path: Path) -> None:
    root = release(tmp_path, [question_row(1, "s1"), question_row(2, "s1")], [question_row(3, "s2")])
    records = read_folder(root)
    assert [(r.id, r.task, r.cluster) for r in records] == [
        ("q1", "action", "s1"), ("q2", "action", "s1"), ("q3", "scenery", "s2"),
    ]  # fmt: skip
    assert [r.images[0] for r in records[1:]] == ["action/images/train/s1/0.jpg", "scenery/images/train/s2/0.jpg"]
    assert all((root / path).is_file() for record in records for path in record.images)
    manifest = import_release("lingoqa", root, split="train")
    assert (manifest.n, manifest.split, manifest.counts["task"]) == (3, "train", {"action": 2, "scenery": 1})
    assert [Path(file["path"]).parent.name for file in manifest.source["files"]] == ["action", "scenery"]
    with pytest.raises(DataError, match="500 records in all"):
        import_release("lingoqa", root, split="val")


def test_question_in_both_files_is_one_record(tmp_path: Path) -> None:
    first, second = question_row(1, "s1"), question_row(2, "s1")
    root = release(tmp_path, [first, second], [{**first, "answer": "It is."}, question_row(3, "s2")])
    records = {record.id: record for record in read_folder(root)}
    assert len(records) == 3
    assert (records["q1"].meta["references"], records["q1"].task) == (["Yes.", "It is."], "action")


def test_one_id_for_two_questions_is_a_bad_row(tmp_path: Path) -> None:
    root = release(tmp_path, [question_row(1, "s1")], [question_row(2, "s2"), question_row(1, "s2")])
    record, bad = read_folder(root)
    assert (record.id, bad.error.file, bad.error.row) == ("q2", root / "scenery/train.parquet", 1)
    assert bad.error.field == "question_id"


def test_equal_images_of_both_files_are_shared(tmp_path: Path) -> None:
    """Only images with the same bytes are shared; another image with the same name is kept."""
    shared, other, missing = ([question_row(n, f"s{n}"), question_row(n + 3, f"s{n}")] for n in (1, 2, 3))
    root = release(tmp_path, [shared[0], other[0], missing[0]], [shared[1], other[1], missing[1]])
    (root / "scenery/images/train/s2/4.jpg").write_bytes(b"another image")
    (root / "action/images/train/s3/4.jpg").unlink()
    folders = {record.id: {path.split("/")[0] for path in record.images} for record in read_folder(root)}
    assert folders == {
        "q1": {"action"}, "q2": {"action"}, "q3": {"action"}, "q4": {"action"}, "q5": {"scenery"}, "q6": {"scenery"},
    }  # fmt: skip


def test_images_can_be_in_separate_or_shared_folders(tmp_path: Path) -> None:
    root = release(tmp_path / "release", [question_row(1, "s1")], [question_row(2, "s2")])
    for folder in ("apart/action/images", "apart/scenery/images", "together/images", "neither/action/images"):
        (tmp_path / folder).mkdir(parents=True)
    apart, together = read_folder(root, images=tmp_path / "apart"), read_folder(root, images=tmp_path / "together")
    assert [r.images[0].split("/")[0] for r in apart] == ["action", "scenery"]
    assert [r.images[0] for r in together] == ["images/train/s1/0.jpg", "images/train/s2/0.jpg"]
    with pytest.raises(Ad2Error, match="holds neither scenery/images nor images"):
        read_folder(root, images=tmp_path / "neither")


def test_missing_split_and_files_of_the_folder_are_reported(tmp_path: Path) -> None:
    root = release(tmp_path, [question_row(1, "s1")], [question_row(2, "s2")])
    with pytest.raises(Ad2Error, match="splits train and val: give --split"):
        read_folder(root, split=None)
    with pytest.raises(Ad2Error, match="no split 'mine'; splits: train, val"):
        read_folder(root, split="mine")
    (root / "evaluation/val.parquet").unlink()
    assert len(read_folder(root, split=None)) == 2
    (root / "scenery/train.parquet").unlink()
    with pytest.raises(Ad2Error, match="train needs scenery/train"):
        read_folder(root)
