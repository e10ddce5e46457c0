"""Records without texts from a folder of images: the starting point of annotations as in CODA-LM and AD2-Bench.

For each image: the whole scene (`general`, with a list of objects by category), advice (`suggestion`), each marked
object (`region`, where boxes are given), and a chain of five steps (`chain`). The wording of the questions is ours.

Of the boxes of objects, CODA-LM (section 4.1) takes the two largest of each category of an image and leaves out crowded
ones; it gives no rule for "crowded". Here a box is crowded if the file marks it (COCO's `iscrowd`), or if another box
of its category covers at least half of its area.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_eval_ad2.annotate.record_review import OBJECTS
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.base import size_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow, safe_path

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
    """Check that the file marks the box, or a box of its category covers half of it. Of two equal boxes one remains."""
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


SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
ASKS = ("general", "suggestion", "region", "chain")
QUESTIONS = {
    "general": BilingualText("What in this scene matters for driving, and why?", "场景中哪些因素影响驾驶？为什么？"),
    "suggestion": BilingualText("How should the ego car drive here?", "自车在此应如何行驶？"),
    "region": BilingualText(
        "What is the marked object, and how does it affect the ego car?", "标出的目标是什么？它如何影响自车？"
    ),
    "chain": BilingualText("How should the ego car drive on from here?", "自车接下来应如何行驶？"),
}
# The five steps of AD2-Bench (section 3.2): topics from the paper, wording ours.
STEPS = tuple(
    (BilingualText(*name), BilingualText(*asked))
    for name, asked in (
        (("environment", "环境"), ("What are the weather, the light and the road like?", "天气、光线和道路状况如何？")),
        (("key vehicles", "关键车辆"),
         ("Which vehicles matter for the ego car, and why?", "哪些车辆对自车重要？为什么？")),
        (("vulnerable road users", "弱势交通参与者"),
         ("Which people on foot or on two wheels matter, and why?", "哪些行人或骑行者重要？为什么？")),
        (("traffic rules", "交通规则"),
         ("Which lights, signs and markings apply here?", "哪些信号灯、标志和标线适用？")),
        (("decision", "决策"), ("What should the ego car do?", "自车应该怎么做？")),
    )
)  # fmt: skip


def blank_records(
    root: Path, asks: Iterable[str], boxes: Path | None = None, selection: Selection = "largest"
) -> Iterator[Record]:
    """Yield records of all images below `root`, ordered by path. Raises Ad2Error if there is none or one is broken.

    boxes: file of the objects' boxes; selection: which of them get a region record (read_boxes).
    """
    asks = tuple(asks)
    pictures = sorted(p for p in root.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not pictures:
        raise Ad2Error(f"{root}: no pictures in it ({', '.join(SUFFIXES)})")
    marked = read_boxes(boxes) if boxes else {}
    names = [safe_path(p.relative_to(root).as_posix(), root, None, "image") for p in pictures]
    if unknown := sorted(set(marked) - set(names)):
        raise DataError(boxes, None, unknown[0], f"a picture below {root}", unknown[0])
    for path, name in zip(pictures, names, strict=True):
        try:
            size = size_of(root, name)
        except OSError as exc:
            raise DataError(path, None, "image", "a readable image", str(exc), "Repair or remove it.") from exc
        yield from _of_picture(name, size, asks, select(marked.get(name, []), selection))


def _of_picture(name: str, size: tuple[int, int], asks: tuple[str, ...], boxes: list[MarkedBox]) -> Iterator[Record]:
    for ask in asks:
        if ask == "region":
            for box in boxes:
                meta = {"object_key": str(box.number), "category_name": box.category}
                yield _record(name, size, ask, f"/{box.number}", mark=VisualPrompt("box", (box.box,)), meta=meta)
        elif ask == "chain":
            steps = tuple(ReasoningStep(step, question, BilingualText()) for step, question in STEPS)
            yield _record(name, size, ask, benchmark="ad2_bench", task="cot", form="chain", steps=steps)
        else:
            yield _record(name, size, ask, meta={OBJECTS: []} if ask == "general" else {})


def _record(name: str, size: tuple[int, int], ask: str, suffix: str = "", **more: Any) -> Record:
    values: dict[str, Any] = {"benchmark": "coda_lm", "task": ask, "form": "vqa", **more}
    return Record(
        id=f"{name}/{ask}{suffix}", subtask=ask if ask != "chain" else "holistic", images=(name,),
        question=QUESTIONS[ask], answer=BilingualText(), image_size=size, cluster=name, **values,
    )  # fmt: skip
