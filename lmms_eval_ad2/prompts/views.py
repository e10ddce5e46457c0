"""Selection and order of the images that a model is shown; prompt text and rendered images both use it."""

from __future__ import annotations

import re
from typing import Literal

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record

Layout = Literal["list", "mosaic"]
Views = Literal["all", "front", "asked"]

# Rows of a mosaic: the three front cameras above the three rear cameras.
GRID: tuple[tuple[str, str, str], tuple[str, str, str]] = (
    ("front_left", "front", "front_right"),
    ("back_left", "back", "back_right"),
)
CAMERAS = frozenset(GRID[0] + GRID[1])
# A camera in an object tag, or a direction in words ("to the back left of the ego car", "behind us").
_NAMED = re.compile(
    r"\bCAM_((?:FRONT|BACK)(?:_LEFT|_RIGHT)?)\b"
    r"|\b(?:to|in|at|on|from|of) (?:the )?(front|back|rear)(?:[ -](left|right))?\b(?: side\b)?"
    r"|\b(behind)\b",
    re.IGNORECASE,
)
# The object to which a direction refers. Cameras are named by directions from the ego vehicle only.
_OF = re.compile(
    r"\s+(?:of\s+)?(<|(?:the|a|an|my|our|your|this|that|each|any|it|him|her|them)\b)(?:\s+([\w-]+))?", re.I
)
_EGO = re.compile(r"ego\b|(?:my|our)\b", re.IGNORECASE)
# Questions that search for another object than the one that they name: it may be seen by any camera.
_SEARCH = re.compile(r"\bwhat object\b|\b(?:an)?other\b|\bsame \w+ (?:as|of)\b", re.IGNORECASE)


def camera(view: str) -> str:
    """nuScenes' "CAM_FRONT_LEFT", or "Front Left", as "front_left"; other names are unchanged."""
    name = view.strip().lower().replace(" ", "_").replace("-", "_").removeprefix("cam_")
    return name if name in CAMERAS else view


def shown(record: Record, views: Views = "all") -> list[tuple[str, str]]:
    """(view, image path) of every image that the model is shown; view is "" for an unnamed one.

    "front" keeps the front camera of a multi-view record, the last frame of a single camera (LingoQA), or the only
    image. "asked" keeps the cameras that the question asks for (`cameras_of`), or all images if it does not name them:
    the frames of a single camera, and questions about the whole scene. Never depends on the answer or the options.
    """
    if record.views and len(record.views) != len(record.images):
        expected = f"{len(record.images)} names, one per image"
        raise DataError(record.benchmark, record.id, "views", expected, record.views)
    names = [camera(v) for v in record.views] or [""] * len(record.images)
    pairs = list(zip(names, record.images, strict=True))
    if views == "all" or len(pairs) == 1:
        return pairs
    if views == "asked":
        named = cameras_of(record.question.get("en"))
        return [p for p in pairs if p[0] in named] or pairs
    if all(names) and CAMERAS.isdisjoint(names):
        return pairs[-1:]
    kept = [p for p in pairs if p[0] == "front"]
    if len(kept) != 1:
        raise Ad2Error(f"{record.id}: views 'front' needs exactly one image named CAM_FRONT; its views: {record.views}")
    return kept


def cameras_of(question: str) -> frozenset[str]:
    """The cameras that a question asks for: those of its object tags and of its directions from the ego vehicle.

    Empty if it names none, or if it searches for another object ("What object would consider <c1,CAM_BACK,...> ...?",
    "Is there another car with the same status as ...?"), whose camera is not known from the question.
    """
    return frozenset() if _SEARCH.search(question) else named_cameras(question)


def named_cameras(text: str) -> frozenset[str]:
    """All cameras that a text names, by an object tag or a direction from the ego vehicle."""
    found = set()
    for match in _NAMED.finditer(text):
        tag, lengthwise, sideways, behind = match.groups()
        if tag:
            found.add(tag.lower())
        elif not _from_another_object(text, match.end()):
            end = "back" if behind or lengthwise.lower() in ("back", "rear") else "front"
            found.add(f"{end}_{sideways.lower()}" if sideways else end)
    return frozenset(found)


def _from_another_object(text: str, end: int) -> bool:
    """Whether the direction that ends at `end` starts at another object: "to the back left of the bus"."""
    of = _OF.match(text, end)
    return of is not None and not (_EGO.match(of[1]) or _EGO.match(of[2] or ""))


def is_mosaic(pairs: list[tuple[str, str]], layout: Layout) -> bool:
    """Whether these images form one grid: several images of different cameras out of the six. Raises Ad2Error if not
    possible."""
    if layout == "list" or len(pairs) < 2:
        return False
    names = [v for v, _ in pairs]
    if len(set(names)) < len(names) or not CAMERAS.issuperset(names):
        raise Ad2Error(f"layout 'mosaic' needs images of different cameras out of {sorted(CAMERAS)}; found {names}")
    return True
