"""Records without texts from a folder of images: the starting point of annotations as in CODA-LM and AD2-Bench.

For each image: the whole scene (`general`, with a list of objects by category), advice (`suggestion`), each marked
object (`region`, where boxes are given), and a chain of five steps (`chain`). The wording of the questions is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.text_pieces import OBJECTS
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.images import safe_path, size_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import BilingualText, ReasoningStep, Record, VisualPrompt

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
STEPS = (
    ("environment", BilingualText("What are the weather, the light and the road like?", "天气、光线和道路状况如何？")),
    ("key vehicles", BilingualText("Which vehicles matter for the ego car, and why?", "哪些车辆对自车重要？为什么？")),
    (
        "vulnerable road users",
        BilingualText("Which people on foot or on two wheels matter, and why?", "哪些行人或骑行者重要？为什么？"),
    ),
    ("traffic rules", BilingualText("Which lights, signs and markings apply here?", "哪些信号灯、标志和标线适用？")),
    ("decision", BilingualText("What should the ego car do?", "自车应该怎么做？")),
)  # fmt: skip
_BOX_HINT = 'Give {"a.jpg": [{"box": [x_min, y_min, x_max, y_max], "category": "bus"}]}, or a COCO file.'
Boxes = dict[str, list[tuple[tuple[float, ...], str]]]


def blank_records(root: Path, asks: Iterable[str], boxes: Path | None = None) -> Iterator[Record]:
    """Yield records of all images below `root`, ordered by path. Raises Ad2Error if there is none or one is broken."""
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
        yield from _of_picture(name, size, asks, marked.get(name, []))


def _of_picture(
    name: str, size: tuple[int, int], asks: tuple[str, ...], boxes: list[tuple[tuple[float, ...], str]]
) -> Iterator[Record]:
    for ask in asks:
        if ask == "region":
            for number, (box, category) in enumerate(boxes, 1):
                meta = {"object_key": str(number), "category_name": category}
                yield _record(name, size, ask, f"/{number}", mark=VisualPrompt("box", (box,)), meta=meta)
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


def read_boxes(path: Path) -> Boxes:
    """Read boxes (x_min, y_min, x_max, y_max) in pixels with their categories, by image. Raises DataError."""
    data = stream.load_json(path, limit=64 << 20)  # one file for a whole folder of pictures
    if not isinstance(data, Mapping):
        raise DataError(path, None, "file", "an object {...}", data, _BOX_HINT)
    if "annotations" in data and "images" in data:
        return _coco(UntrustedRow(data, path, None))
    found: Boxes = {}
    for name in data:
        for row in UntrustedRow(data, path, None).inners(name):
            found.setdefault(name, []).append((_box(row, row.get("box")), row.string("category", "object")))
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
        found.setdefault(names[image], []).append((box, categories.get(row.integer("category_id"), "object")))
    return found


def _box(row: UntrustedRow, value: Any) -> tuple[float, ...]:
    box = row.numbers("box", value, 4)
    if not (box[0] < box[2] and box[1] < box[3]):
        raise row.fail("box", "x_min < x_max and y_min < y_max", value)
    return box
