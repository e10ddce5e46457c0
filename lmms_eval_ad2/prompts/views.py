"""Selection and order of the images that a model is shown; prompt text and rendered images both use it."""

from __future__ import annotations

import re
from typing import Literal

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import Record

Layout = Literal["list", "mosaic"]
Views = Literal["all", "front", "asked"]

# Rows of a mosaic: the three front cameras above the three rear cameras.
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
    """nuScenes' "CAM_FRONT_LEFT", or "Front Left", as "front_left"; other names are unchanged."""
    name = view.strip().lower().replace(" ", "_").replace("-", "_").removeprefix("cam_")
    return name if name in CAMERAS else view


def shown(record: Record, views: Views = "all") -> list[tuple[str, str]]:
    """(view, image path) of every image that the model is shown; view is "" for an unnamed one.

    "front" keeps the front camera of a multi-view record, the last frame of a single camera (LingoQA), or the only
    image. "asked" keeps the cameras that the question mentions, or the front camera if it mentions none.
    """
    if record.views and len(record.views) != len(record.images):
        expected = f"{len(record.images)} names, one per image"
        raise DataError(record.benchmark, record.id, "views", expected, record.views)
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
    """The cameras that a question mentions, by an object tag or a direction."""
    found = set()
    for tag, lengthwise, sideways, behind in _NAMED.findall(question):
        end = "back" if behind or lengthwise.lower() in ("back", "rear") else "front"
        found.add(tag.lower() or (f"{end}_{sideways.lower()}" if sideways else end))
    return frozenset(found)


def is_mosaic(pairs: list[tuple[str, str]], layout: Layout) -> bool:
    """Whether these images form one grid: several images of different cameras out of the six. Raises Ad2Error if not
    possible."""
    if layout == "list" or len(pairs) < 2:
        return False
    names = [v for v, _ in pairs]
    if len(set(names)) < len(names) or not CAMERAS.issuperset(names):
        raise Ad2Error(f"layout 'mosaic' needs images of different cameras out of {sorted(CAMERAS)}; found {names}")
    return True
