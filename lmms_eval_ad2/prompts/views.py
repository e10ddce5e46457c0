"""Which images of a record are shown, and in which order: text and picture take it from here."""

from __future__ import annotations

import re
from typing import Literal

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import Record

Layout = Literal["list", "mosaic"]
Views = Literal["all", "front", "asked"]

# Two rows of a mosaic, as one looks around: the three cameras ahead, then the three behind.
GRID: tuple[tuple[str, str, str], tuple[str, str, str]] = (
    ("front_left", "front", "front_right"),
    ("back_left", "back", "back_right"),
)
CAMERAS = frozenset(GRID[0] + GRID[1])
# A camera in an object tag, or a direction in words ("to the back left of the ego car", "behind").
_NAMED = re.compile(
    r"\bCAM_((?:FRONT|BACK)(?:_LEFT|_RIGHT)?)\b"
    r"|\b(?:to|in|at|on|from|of) (?:the )?(front|back|rear)(?:[ -](left|right))?\b|\b(behind)\b",
    re.IGNORECASE,
)


def camera(view: str) -> str:
    """nuScenes' "CAM_FRONT_LEFT", or "Front Left", as "front_left"; other names stay as they are."""
    name = view.strip().lower().replace(" ", "_").replace("-", "_").removeprefix("cam_")
    return name if name in CAMERAS else view


def shown(record: Record, views: Views = "all") -> list[tuple[str, str]]:
    """(view, image path) of every image that the model is given; view is "" where it has no name.

    "front" keeps the front camera's image of a multi-view record, the last of one camera's frames (LingoQA), and the
    only image of any other. "asked" keeps the cameras that the question names, the front one where it names none.
    """
    if record.views and len(record.views) != len(record.images):
        raise DataError(record.benchmark, record.id, "views", f"{len(record.images)} names, one an image", record.views)
    names = [camera(v) for v in record.views] or [""] * len(record.images)
    pairs = list(zip(names, record.images, strict=True))
    if views == "all" or len(pairs) == 1:
        return pairs
    if all(names) and CAMERAS.isdisjoint(names):
        return pairs[-1:]
    named = cameras_of(record.question.get("en")) if views == "asked" else frozenset[str]()
    kept = [p for p in pairs if p[0] in (named or {"front"})]
    if not kept or (not named and len(kept) != 1):
        raise Ad2Error(
            f"{record.id}: views '{views}' needs exactly one image named CAM_FRONT; its views: {record.views}"
        )
    return kept


def cameras_of(question: str) -> frozenset[str]:
    """The cameras that a question names, in an object tag or by a direction."""
    found = set()
    for tag, along, across, behind in _NAMED.findall(question):
        plain = "back" if behind or along.lower() in ("back", "rear") else "front"
        found.add(tag.lower() or (f"{plain}_{across.lower()}" if across else plain))
    return frozenset(found)


def is_mosaic(pairs: list[tuple[str, str]], layout: Layout) -> bool:
    """Whether these images are laid out as one grid: several images, each of another of the six cameras."""
    if layout == "list" or len(pairs) < 2:
        return False
    names = [v for v, _ in pairs]
    if len(set(names)) < len(names) or not CAMERAS.issuperset(names):
        raise Ad2Error(f"layout 'mosaic' needs images of different cameras out of {sorted(CAMERAS)}; found {names}")
    return True
