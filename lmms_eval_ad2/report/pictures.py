"""The images of a sample as small JPEGs for the page, with the mark that the model was shown."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.prompts import visual
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.report.runs import Task

WIDTH = 480  # pixels, of all images of a sample together
MOST = 6  # images of one sample
QUALITY = 78


@dataclass(frozen=True, slots=True)
class Pictures:
    """`images` are data: addresses; `trouble` says why there are none."""

    images: tuple[str, ...] = ()
    trouble: str = ""


def pictures(row: Mapping[str, Any], task: Task) -> Pictures:
    """Draw the images of a row of samples/<task>.jsonl. An absent or broken image is said, and never an error."""
    root = task.data.get("image_root")
    if not root:
        return Pictures(trouble="the run does not say where its images are")
    try:
        record = Record.from_dict(row["record"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        return Pictures(trouble=f"the record cannot be read ({type(exc).__name__}: {exc})")
    if not all(_inside(image) for image in record.images):
        return Pictures(trouble="an image lies outside the data set's folder; not shown")
    try:
        drawn = visual.render(record, Path(str(root)), **_render_options(record, task))
    except (Ad2Error, TypeError, ValueError) as exc:
        return Pictures(trouble=str(exc))
    width = WIDTH if len(drawn) == 1 else WIDTH // 2
    return Pictures(tuple(_jpeg(image, width) for image in drawn[:MOST]))


def _render_options(record: Record, task: Task) -> dict[str, Any]:
    """As the model was shown it; several camera views become one picture, which is easier to look at."""
    variant = task.variant
    options: dict[str, Any] = {"views": variant.get("views", "all")}
    options["mark"] = "none" if variant.get("coords") else variant.get("mark", "native")
    if len(record.views) > 1 and options["views"] == "all":
        options["layout"] = "mosaic"
    return options


def _inside(image: str) -> bool:
    """Sample files may come from elsewhere: a page must not show a file that a row merely names."""
    return not Path(image).is_absolute() and ".." not in Path(image).parts


def _jpeg(image: Any, width: int) -> str:
    small = image.convert("RGB")
    small.thumbnail((width, 2 * width))
    buffer = io.BytesIO()
    # Full colour resolution: thin red outlines would wash out.
    small.save(buffer, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
