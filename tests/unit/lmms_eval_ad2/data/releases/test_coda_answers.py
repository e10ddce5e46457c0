"""CODA-LM's answer files: names of images, accepted rows, and one clear error for each malformed one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.releases import coda_answers
from lmms_eval_ad2.data.releases.coda_answers import CodaAnswerRow, image_of, numbers_by_image, read_answers

GENERAL = Record(
    id="test_0001/general", benchmark="coda_lm", task="general", subtask="general", form="vqa",
    images=("test/images/0001.jpg",), question=BilingualText("q"), answer=BilingualText("a"),
)  # fmt: skip
REGION = replace(GENERAL, id="test_0001/region/10", task="region", meta={"object_key": "10"})
ROW = {"question_id": 0, "image": "test/images/0001.jpg", "question": "q", "answer": "a"}


def file_of(folder: Path, *rows: Any) -> Path:
    path = folder / "general_perception_answer.jsonl"
    texts = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(texts))
    return path


def test_images_name_the_folder_of_the_release_and_the_object() -> None:
    assert image_of(GENERAL) == "test/images/0001.jpg"
    assert image_of(REGION) == "test/images_w_boxes/0001_object_10.jpg"
    train = replace(REGION, images=("val/images/0042.jpg",), meta={"object_key": "3"})
    assert image_of(train) == "val/images_w_boxes/0042_object_3.jpg"


@pytest.mark.parametrize(
    "record",
    [
        replace(GENERAL, images=("0af3.jpg",)),
        replace(GENERAL, images=("test/images/../x.jpg",)),
        replace(GENERAL, images=("test/images/1.jpg", "test/images/2.jpg")),
        replace(REGION, meta={}),
    ],
)
def test_records_of_other_formats_are_refused(record: Record) -> None:
    with pytest.raises(Ad2Error, match=r"has no row in CODA-LM's answer files.*format 'raw'"):
        image_of(record)


def test_numbers_follow_the_records_and_images_are_unique() -> None:
    others = [replace(REGION, meta={"object_key": key}) for key in ("2", "10", "1")]
    assert list(numbers_by_image(others).values()) == [0, 1, 2]
    assert list(numbers_by_image(others))[1] == "test/images_w_boxes/0001_object_10.jpg"
    with pytest.raises(Ad2Error, match=r"two records of part 'region' have the image"):
        numbers_by_image([REGION, REGION])


def test_rows_are_read_as_they_are(tmp_path: Path) -> None:
    path = file_of(tmp_path, ROW, b"", {**ROW, "question_id": 7, "question": "", "answer": " two\nlines 停 "}, b"")
    assert list(read_answers(path)) == [
        CodaAnswerRow(0, "test/images/0001.jpg", "q", "a"),
        CodaAnswerRow(7, "test/images/0001.jpg", "", " two\nlines 停 "),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'{"question_id": 0, "image"', r"row 2: field 'line': expected a JSON object.*one JSON object per line"),
        (b"\xff\xfe", r"row 2: field 'line': expected a JSON object"),
        ([1], r"row 2: field 'row': expected an object"),
        (b'{"image": "a", "image": "b"}', r"row 2: field 'line'.*occurs twice"),
        (b"[" * 5000 + b"]" * 5000, r"row 2: field 'line'.*more than 16 values"),
        ({**ROW, "prediction": "x"}, r"row 2: field 'prediction': expected no such field \(known: question_id, image"),
        ({k: v for k, v in ROW.items() if k != "image"}, r"row 2: field 'image': expected a value.*keys question_id"),
        ({**ROW, "question_id": "0"}, r"row 2: field 'question_id': expected a whole number from 0, found '0'"),
        ({**ROW, "question_id": True}, r"row 2: field 'question_id'"),
        ({**ROW, "question_id": -1}, r"row 2: field 'question_id'"),
        ({**ROW, "answer": None}, r"row 2: field 'answer': expected a string"),
        ({**ROW, "answer": ["a"]}, r"row 2: field 'answer': expected a string, found \['a'\]"),
        ({**ROW, "answer": "\ud800"}, r"row 2: field 'answer': expected valid Unicode text"),
        ({**ROW, "image": "x" * 501}, r"row 2: field 'image': expected at most 500 characters"),
        ({**ROW, "image": 3}, r"row 2: field 'image': expected a string, found 3"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_one_error_with_its_place(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        list(read_answers(file_of(tmp_path, ROW, row)))
    assert str(refused.value).startswith(str(tmp_path / "general_perception_answer.jsonl"))
    assert "\n" not in str(refused.value)


def test_lines_and_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, {**ROW, "answer": "x" * coda_answers.LONGEST_LINE})
    with pytest.raises(DataError, match=r"row 1: field 'line': expected at most 1 MiB"):
        list(read_answers(path))
    monkeypatch.setattr(coda_answers, "LARGEST", 1 << 20)
    with pytest.raises(DataError, match=r"field 'file': expected at most 1 MiB"):
        list(read_answers(path))
