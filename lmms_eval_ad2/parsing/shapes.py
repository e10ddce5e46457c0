"""Points and boxes as they are written in a reply, before they are converted to pixels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

Numbers = tuple[float, ...]

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
_NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)\b"
_UNIT = r"(?:\s?(?:%|percent\b|px\b|pixels?\b|像素))?"
ITEM = rf"(?:{NUMBER}|{_NOT_FINITE}){_UNIT}"
SEPARATOR = r"(?:\s*[,;、|]\s*|\s+)"  # a bar: the cells of a table
RUN = rf"{ITEM}(?:{SEPARATOR}{ITEM})*"
_ITEM = re.compile(rf"(?P<value>{NUMBER}|{_NOT_FINITE})\s?(?P<unit>%|percent\b|px\b|pixels?\b|像素)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CoordinateNotation:
    """What a notation says about its numbers: they run from 0 to `extent` along both sides of the image.

    y_first: the numbers are (y, x) or (y_min, x_min, y_max, x_max). fixed: only one meaning is possible, so that it
    holds against a frame that the user named; a notation that several families use with different units is not fixed.
    """

    extent: float
    y_first: bool = False
    fixed: bool = False


PERCENT = CoordinateNotation(100, fixed=True)
THOUSAND = CoordinateNotation(1000)


@dataclass(frozen=True, slots=True)
class WrittenShape:
    """A point (2 numbers), a box (4) or a malformed list of numbers. `start`: its position in the text.

    values: in the order of the text, unless `named`: then x first, since the text names the axes. notation: None for
    bare numbers, which do not tell their frame.
    """

    start: int
    values: Numbers
    notation: CoordinateNotation | None = None
    named: bool = False
    notes: tuple[str, ...] = ()
    label: str = ""  # of the object, if the text gives one


def fault(values: Numbers) -> str | None:
    """The reason code of a list that is neither a point nor a box."""
    if not all(math.isfinite(value) for value in values):
        return "malformed"
    if len(values) > 4:
        return "too_many_numbers"
    return None if len(values) in (2, 4) else "malformed"


def numbers(body: str) -> tuple[Numbers, bool | None]:
    """The numbers of a list, and whether all have a percent sign; None if only some have one.

    Values that are not finite are kept, and refused later.
    """
    items = _ITEM.findall(body)
    shares = {unit.lower() in ("%", "percent") for _, unit in items}
    return tuple([float(value) for value, _ in items]), shares.pop() if len(shares) == 1 else None


def shape_of(start: int, body: str, notation: CoordinateNotation | None = None) -> WrittenShape:
    """The shape of a list of numbers; percent signs decide its notation, a mixture makes it malformed."""
    values, percent = numbers(body)
    if percent is None:
        return WrittenShape(start, (math.nan,))
    return WrittenShape(start, values, PERCENT if percent else notation)


def hull(points: Sequence[Numbers], *, aligned: bool) -> Numbers | None:
    """The box around a quadrilateral; with `aligned` only if its corners are those of an upright rectangle."""
    if len(points) != 4:
        return None
    xs, ys = {x for x, _ in points}, {y for _, y in points}
    if aligned and not (len(xs) == len(ys) == 2 and len(set(points)) == 4):
        return None
    return min(xs), min(ys), max(xs), max(ys)
