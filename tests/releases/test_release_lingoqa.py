"""LingoQA: rows grouped by question, five frames, several references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.library import import_release
from lmms_eval_ad2.releases import RELEASES, BadRow

ROW: dict[str, Any] = {
    "question_id": "q1", "segment_id": "s1", "images": [f"images/val/s1/{i}.jpg" for i in range(5)],
    "question": "Is the light red?", "answer": "Yes.",
}  # fmt: skip


def write(folder: Path, *rows: dict[str, Any], name: str = "val.parquet") -> Path:
    folder.mkdir(exist_ok=True)
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


def test_a_short_val_split_is_refused(tmp_path: Path) -> None:
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
def test_a_fault_names_its_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    (bad,) = items(write(tmp_path, ROW, {**ROW, **changes}))
    assert isinstance(bad, BadRow)
    assert (bad.error.field, bad.error.row) == (field, 1)


def test_a_missing_column_or_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="field 'segment_id': expected a column"):
        items(write(tmp_path, {"question_id": "q", "images": [], "question": "q", "answer": "a"}))
    with pytest.raises(Ad2Error, match="is a folder"):
        items(tmp_path)
