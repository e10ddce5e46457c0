"""Boxes of objects in a folder of images, and the selection of those that get a region record (CODA-LM section 4.1).

The paper takes the two largest objects of each category of an image and leaves out crowded ones; it gives no rule for
"crowded". Here a box is crowded if the file marks it (COCO's `iscrowd`), or if another box of its category covers at
least half of its area.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

Selection = Literal["largest", "all"]
LARGEST = 2  # boxes of a category in an image
MOST = 500  # boxes of an image; their pairs are compared
COVERED = 0.5  # share of a box's area from which it is crowded
_HINT = 'Give {"a.jpg": [{"box": [x_min, y_min, x_max, y_max], "category": "bus"}]}, or a COCO file.'


@dataclass(frozen=True, slots=True)
class MarkedBox:
    """A box (x_min, y_min, x_max, y_max) in pixels. `number`: its place among the image's boxes, from 1."""

    number: int
    box: tuple[float, ...]
    category: str
    crowd: bool = False

    @property
    def area(self) -> float:
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1)

    def covered_by(self, other: MarkedBox) -> float:
        """The share of its area that is in `other`, 0..1."""
        width = min(self.box[2], other.box[2]) - max(self.box[0], other.box[0])
        height = min(self.box[3], other.box[3]) - max(self.box[1], other.box[1])
        return max(width, 0.0) * max(height, 0.0) / self.area


Boxes = dict[str, list[MarkedBox]]


def select(boxes: Sequence[MarkedBox], selection: Selection) -> list[MarkedBox]:
    """The boxes of one image that get a record, in the order of the file."""
    if selection == "all":
        return list(boxes)
    by_category: dict[str, list[MarkedBox]] = defaultdict(list)
    for box in boxes:
        if not is_crowded(box, boxes):
            by_category[box.category].append(box)
    chosen = [box for same in by_category.values() for box in sorted(same, key=lambda b: -b.area)[:LARGEST]]
    return sorted(chosen, key=lambda b: b.number)


def is_crowded(box: MarkedBox, boxes: Sequence[MarkedBox]) -> bool:
    """Whether the file marks the box, or a box of its category covers half of it. Of two equal boxes one remains."""
    return box.crowd or any(
        other.category == box.category
        and (other.area, -other.number) > (box.area, -box.number)
        and box.covered_by(other) >= COVERED
        for other in boxes
    )


def selection_note(boxes: Boxes, selection: Selection) -> str:
    """The numbers of boxes that are selected and left out, for the user."""
    count: Counter[str] = Counter()
    for same in boxes.values():
        crowded = sum(is_crowded(box, same) for box in same) if selection == "largest" else 0
        chosen = len(select(same, selection))
        count.update({"all": len(same), "chosen": chosen, "crowded": crowded, "smaller": len(same) - chosen - crowded})
    text = f"regions: {count['chosen']} of {count['all']} boxes"
    if selection == "all":
        return text
    return (
        f"{text}; left out: {count['crowded']} crowded, {count['smaller']} beyond the {LARGEST} largest of a category"
    )


def read_boxes(path: Path) -> Boxes:
    """Read the boxes by image. Raises DataError."""
    data = stream.load_json(path, limit=64 << 20)  # one file for a whole folder of pictures
    if not isinstance(data, Mapping):
        raise DataError(path, None, "file", "an object {...}", data, _HINT)
    if "annotations" in data and "images" in data:
        return _coco(UntrustedRow(data, path, None))
    found: Boxes = {}
    for name in data:
        for row in UntrustedRow(data, path, None).inners(name):
            _add(found, name, _box(row, row.get("box")), row.string("category", "object"), row)
    return found


def _coco(data: UntrustedRow) -> Boxes:
    """Boxes of a COCO file (as CODA's annotations): [x, y, width, height], images and categories by id."""
    names = {row.integer("id"): row.image("file_name", row.get("file_name")) for row in data.inners("images")}
    categories = {row.integer("id"): row.string("name") for row in data.inners("categories")}
    found: Boxes = {}
    for row in data.inners("annotations"):
        image = row.integer("image_id")
        if image not in names:
            raise row.fail("image_id", "the id of one of the images", image)
        x, y, width, height = row.numbers("bbox", row.get("bbox"), 4)
        box = _box(row, [x, y, x + width, y + height])
        _add(found, names[image], box, categories.get(row.integer("category_id"), "object"), row)
    return found


def _add(found: Boxes, name: str, box: tuple[float, ...], category: str, row: UntrustedRow) -> None:
    crowd = row.get("iscrowd")
    if crowd not in (None, 0, 1):
        raise row.fail("iscrowd", "0 or 1", crowd)
    boxes = found.setdefault(name, [])
    if len(boxes) == MOST:
        raise row.fail("box", f"at most {MOST} boxes of one image", name)
    boxes.append(MarkedBox(len(boxes) + 1, box, category, bool(crowd)))


def _box(row: UntrustedRow, value: Any) -> tuple[float, ...]:
    box = row.numbers("box", value, 4)
    if not (box[0] < box[2] and box[1] < box[3]):
        raise row.fail("box", "x_min < x_max and y_min < y_max", value)
    return box
