"""The pictures of a sample as the model saw them; for points and boxes with the answer and the reference drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import MarkKind, Record, VisualPrompt
from lmms_eval_ad2.prompts import visual
from lmms_eval_ad2.report.runs import TaskSummary
from lmms_eval_ad2.storage.saved_samples import read_record

if TYPE_CHECKING:
    from PIL import Image

ANSWER, REFERENCE = (29, 78, 216), (26, 127, 75)  # blue and green; the mark of a question is red
LEGEND = "blue: the answer, green: the reference"
_PLACED: dict[str, tuple[MarkKind, int]] = {"point": ("point", 2), "box": ("box", 4)}  # form -> mark, its numbers
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class SamplePictures:
    """The pictures of a sample; `trouble`: the reason if there are none. `placed`: answer or reference is drawn."""

    images: tuple[Image.Image, ...] = ()
    trouble: str = ""
    placed: bool = False


def pictures(row: Mapping[str, Any], task: TaskSummary) -> SamplePictures:
    """Render the images of a row of samples/<task>.jsonl; a failure is reported in `trouble`."""
    root = task.data.get("image_root")
    if not root:
        return SamplePictures(trouble="the run does not record the folder of its images")
    try:
        record = read_record(Path(f"{task.name}.jsonl"), str(row.get("id")), row)
    except DataError as exc:
        return SamplePictures(trouble=f"the record cannot be read: {exc}")
    if not record.images:
        return SamplePictures(trouble="the record has no image")
    try:
        drawn = visual.render(record, Path(str(root)), **_render_options(record, task))
        placed = _draw_answers(drawn[0], row, record)
    except (Ad2Error, TypeError, ValueError) as exc:
        return SamplePictures(trouble=str(exc))
    return SamplePictures(tuple(drawn), placed=placed)


def files(row: Mapping[str, Any], task: TaskSummary) -> list[Path]:
    """The paths of the images of a row, as far as the run records them."""
    record, root = row.get("record"), task.data.get("image_root")
    names = record.get("images") if isinstance(record, Mapping) else None
    return [Path(str(root or ""), str(name)) for name in names] if isinstance(names, list) else []


def _render_options(record: Record, task: TaskSummary) -> dict[str, Any]:
    """Render options as for the model, except that several camera views become one mosaic."""
    variant = task.variant
    options: dict[str, Any] = {"views": variant.get("views", "all")}
    options["mark"] = "none" if variant.get("coords") else variant.get("mark", "native")
    if len(record.views) > 1 and options["views"] == "all":
        options["layout"] = "mosaic"
    return options


def _draw_answers(image: Image.Image, row: Mapping[str, Any], record: Record) -> bool:
    """Draw the reference, then the answer, of a point or box on the only image, in its pixels."""
    if row.get("form") not in _PLACED or len(record.images) != 1:
        return False
    kind, n = _PLACED[row["form"]]
    reference = [float(number) for number in _NUMBER.findall(record.answer.get("en"))]
    answer = row.get("answer")
    found = answer if isinstance(answer, list) and all(map(is_number, answer)) else []
    drawn = [(numbers, colour) for numbers, colour in ((reference, REFERENCE), (found, ANSWER)) if len(numbers) == n]
    for numbers, colour in drawn:
        visual.draw_mark(image, VisualPrompt(kind, (_inside(numbers, image.size),)), colour=colour)
    return bool(drawn)


def _inside(numbers: list[float], size: tuple[int, int]) -> tuple[float, ...]:
    """A point, or the ordered corners of a box, moved to the edge of the image where they lie outside."""
    x, y = ([min(max(0.0, v), side - 1.0) for v in numbers[i::2]] for i, side in enumerate(size))
    return tuple(v for corner in zip(sorted(x), sorted(y), strict=True) for v in corner)
