"""Boxes of objects: files, crowded ones, the two largest of a category."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmms_eval_ad2.annotate import blank_records
from lmms_eval_ad2.annotate.blank_records import MarkedBox, is_crowded, select, selection_note
from lmms_eval_ad2.core.errors import DataError


def square(number: int, x: float, side: float, category: str = "bus", crowd: bool = False) -> MarkedBox:
    return MarkedBox(number, (x, 0.0, x + side, side), category, crowd)


def chosen(*boxes: MarkedBox) -> list[int]:
    return [box.number for box in select(boxes, "largest")]


def test_the_two_largest_of_each_category_in_the_order_of_the_file() -> None:
    boxes = (square(1, 0, 10), square(2, 100, 30), square(3, 200, 20), square(4, 300, 5, "dog"))
    assert chosen(*boxes) == [2, 3, 4]
    assert [box.number for box in select(boxes, "all")] == [1, 2, 3, 4]


def test_crowded_boxes_do_not_count_among_the_two() -> None:
    assert chosen(square(1, 0, 50, crowd=True), square(2, 100, 30), square(3, 200, 20)) == [2, 3]


def test_a_box_half_covered_by_a_larger_one_of_its_category_is_crowded() -> None:
    """A 10 x 10 box that reaches 5 px into a 40 x 40 one is covered by half; at 4.9 px it is not."""
    large = square(1, 0, 40)
    for x, covered in ((35.0, True), (35.1, False)):
        small = square(2, x, 10)
        assert is_crowded(small, (large, small)) is covered
        assert not is_crowded(large, (large, small))
    other = square(2, 10, 10, "dog")
    assert chosen(large, other) == [1, 2], "another category"
    assert chosen(square(1, 0, 40), square(2, 0, 40)) == [1], "of two equal boxes one remains"


def test_coco_marks_and_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
    file = tmp_path / "coco.json"

    def read(*crowds: object) -> list[bool]:
        rows = [{**row, "iscrowd": crowd} for crowd in crowds]
        data = {"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [], "annotations": rows}
        file.write_text(json.dumps(data), "utf-8")
        return [box.crowd for box in blank_records.read_boxes(file)["a.jpg"]]

    assert read(0, 1, None) == [False, True, False]
    with pytest.raises(DataError, match=r"annotations\[1\]\.iscrowd': expected 0 or 1"):
        read(0, "yes")
    monkeypatch.setattr(blank_records, "MOST", 2)
    with pytest.raises(DataError, match="at most 2 boxes of one image"):
        read(0, 0, 0)


def test_the_numbers_are_printed() -> None:
    boxes = [square(1, 0, 40), square(2, 10, 10), square(3, 100, 30), square(4, 200, 20)]
    assert selection_note({"a.jpg": boxes}, "largest") == (
        "regions: 2 of 4 boxes; left out: 1 crowded, 1 beyond the 2 largest of a category"
    )
    assert selection_note({"a.jpg": boxes}, "all") == "regions: 4 of 4 boxes"
