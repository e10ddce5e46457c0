"""The visual prompt with which a record is asked; prompt text and image both use it, so that they agree."""

from __future__ import annotations

import math
from typing import Literal

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record, VisualPrompt

MarkChoice = Literal["native", "none", "coords", "reference", "point", "box"]


def own_mark(record: Record, step: int | None = None) -> VisualPrompt:
    """The mark of step `step` (from 0) of a chain that is asked in rounds, else the record's (AD2-Bench Fig. 4)."""
    own = record.steps[step].mark if step is not None else None
    return record.mark if own is None else own


def effective_mark(record: Record, mark: MarkChoice = "native", step: int | None = None) -> VisualPrompt:
    """The mark of the record, or of a step (`own_mark`), converted to `mark`.

    "native" keeps it. "none" removes it. "coords" gives points and boxes as numbers in the text. "reference" refers to
    the target by the mark's text only (the text-level prompt of AD2-Bench section 3.1); a mark without text becomes
    none. "point" replaces boxes by their centres. A record without a mark, or with a text mark without coordinates, is
    unchanged by the others: there is nothing to draw or to state. Raises Ad2Error for "box" if the mark is a point,
    DataError for invalid coordinates.
    """
    own = own_mark(record, step)
    if mark == "none":
        return VisualPrompt()
    _check(record, own, "mark" if own is record.mark else f"steps[{step}].mark")
    if mark in ("native", own.kind) or own.kind == "none":
        return own
    if mark == "reference":
        return VisualPrompt("text", (), own.text) if own.text else VisualPrompt()
    if not own.coords:
        return own
    if mark == "coords":
        return VisualPrompt("text", own.coords)
    sizes = {len(c) for c in own.coords}
    if mark == "point":
        return VisualPrompt("point", tuple(_centre(c) for c in own.coords), own.text)
    if sizes != {4}:
        raise Ad2Error(
            f"{record.id}: its mark is a point, and a box cannot be made from it; ask for 'native' or 'point'"
        )
    return VisualPrompt("box", own.coords, own.text)


def _centre(coords: tuple[float, ...]) -> tuple[float, ...]:
    if len(coords) == 2:
        return coords
    x1, y1, x2, y2 = coords
    return ((x1 + x2) / 2, (y1 + y2) / 2)


def _check(record: Record, own: VisualPrompt, field: str) -> None:
    if own.kind in ("point", "box") and not own.coords:
        raise DataError(record.benchmark, record.id, f"{field}.coords", f"the coordinates of a {own.kind}", own.coords)
    length = {"point": (2,), "box": (4,), "text": (2, 4), "none": ()}[own.kind]
    for c in own.coords if own.kind != "none" else ():
        if len(c) not in length or not all(math.isfinite(v) for v in c):
            expected = " or ".join({2: "(x, y)", 4: "(x_min, y_min, x_max, y_max)"}[n] for n in length)
            raise DataError(record.benchmark, record.id, f"{field}.coords", f"finite {expected} in pixels", c)
        if len(c) == 4 and (c[2] < c[0] or c[3] < c[1]):
            raise DataError(record.benchmark, record.id, f"{field}.coords", "x_min <= x_max and y_min <= y_max", c)


def unit_coords(record: Record, mark: VisualPrompt) -> list[tuple[float, ...]]:
    """The mark's coordinates as fractions of the image size, clipped to 0..1; DataError if the size is unknown."""
    if record.image_size is None:
        raise DataError(
            record.benchmark, record.id, "image_size", "[width, height], to give coordinates as fractions", None,
            "Draw the mark instead (mark: native).",
        )  # fmt: skip
    width, height = record.image_size
    return [tuple(min(1.0, max(0.0, v / (height if i % 2 else width))) for i, v in enumerate(c)) for c in mark.coords]
