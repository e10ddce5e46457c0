"""Records without texts from a folder of images: the starting point of annotations as in CODA-LM and AD2-Bench.

For each image: the whole scene (`general`, with a list of objects by category), advice (`suggestion`), each marked
object (`region`, where boxes are given), and a chain of five steps (`chain`). The wording of the questions is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.marked_boxes import MarkedBox, Selection, read_boxes, select
from lmms_eval_ad2.annotate.text_pieces import OBJECTS
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.releases.images import safe_path, size_of

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
    (
        BilingualText("environment", "环境"),
        BilingualText("What are the weather, the light and the road like?", "天气、光线和道路状况如何？"),
    ),
    (
        BilingualText("key vehicles", "关键车辆"),
        BilingualText("Which vehicles matter for the ego car, and why?", "哪些车辆对自车重要？为什么？"),
    ),
    (
        BilingualText("vulnerable road users", "弱势交通参与者"),
        BilingualText("Which people on foot or on two wheels matter, and why?", "哪些行人或骑行者重要？为什么？"),
    ),
    (
        BilingualText("traffic rules", "交通规则"),
        BilingualText("Which lights, signs and markings apply here?", "哪些信号灯、标志和标线适用？"),
    ),
    (
        BilingualText("decision", "决策"),
        BilingualText("What should the ego car do?", "自车应该怎么做？"),
    ),
)  # fmt: skip


def blank_records(
    root: Path, asks: Iterable[str], boxes: Path | None = None, selection: Selection = "largest"
) -> Iterator[Record]:
    """Yield records of all images below `root`, ordered by path. Raises Ad2Error if there is none or one is broken.

    boxes: file of the objects' boxes; selection: which of them get a region record (marked_boxes.py).
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
