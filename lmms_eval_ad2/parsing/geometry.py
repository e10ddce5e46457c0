"""Parse points and boxes. Results are pixels of the stored image, origin top left, not clipped to the image."""

from __future__ import annotations

import math
import re
from typing import Literal

from lmms_eval_ad2.parsing.normalise import no_verdict
from lmms_eval_ad2.records import Answer, Form, Unparsed

Frame = Literal["auto", "pixel", "unit", "thousand"]
Numbers = tuple[float, ...]
Size = tuple[int, int] | None

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
_NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)"
_LIST = re.compile(
    rf"(?P<open>[<\[(])\s*(?P<body>(?:{_NUMBER}|{_NOT_FINITE})(?:(?:\s*[,;]\s*|\s+)(?:{_NUMBER}"
    rf"|{_NOT_FINITE}))*)(?:\s*,)?\s*[>\])]",
    re.IGNORECASE,
)
_BARE = re.compile(rf"(?:{_NUMBER})(?:(?:\s*[,;]\s*|\s+)(?:{_NUMBER}))*\.?", re.IGNORECASE)
# Text between two corners that are written as two points, as by Qwen-VL. Adjacent <x,y> are separate points.
_CORNER_GAP = re.compile(r"\s*(?:,|to|至|到|-|->)?\s*", re.IGNORECASE)
_TAG = re.compile(r"<?\s?OUTPUT[ _]?(?P<which>START|END)\s?>?", re.IGNORECASE)
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_])(?P<name>x_?min|min_?x|y_?min|min_?y|x_?max|max_?x|y_?max|max_?y|x_?[12]|y_?[12]"
    rf"|left|top|right|bottom|width|height"
    rf"|[xywh])(?![A-Za-z0-9_])[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?P<value>{_NUMBER})",
    re.IGNORECASE,
)
_NAMES: dict[str, str] = {
    **dict.fromkeys(("xmin", "minx", "x1", "left"), "x1"),
    **dict.fromkeys(("ymin", "miny", "y1", "top"), "y1"),
    **dict.fromkeys(("xmax", "maxx", "x2", "right"), "x2"),
    **dict.fromkeys(("ymax", "maxy", "y2", "bottom"), "y2"),
    **dict.fromkeys(("width", "w"), "w"),
    **dict.fromkeys(("height", "h"), "h"),
    "x": "x",
    "y": "y",
}
_FINAL = re.compile(
    r"(?:final|answer|therefore|thus|hence|in conclusion|correct(?:ed)?|最终|答案|因此|所以)[^\n\])>]{0,80}\Z",
    re.IGNORECASE,
)


def read_point(text: str, size: Size, frame: Frame) -> Answer | Unparsed:
    """A point (x, y). A box is converted to its centre (AD2-Bench A.4), with a note."""
    found = _find(text, "point")
    if isinstance(found, Unparsed):
        return found
    values, notes = found
    if len(values) == 4:
        values = ((values[0] + values[2]) / 2, (values[1] + values[3]) / 2)
        notes = [*notes, "centre of a box"]
    return _placed("point", values, found[0], notes, size, frame)


def read_box(text: str, size: Size, frame: Frame) -> Answer | Unparsed:
    """A box (x_min, y_min, x_max, y_max). Corners in another order are reordered, with a note."""
    found = _find(text, "box")
    if isinstance(found, Unparsed):
        return found
    values, notes = found
    if len(values) == 2:
        return Unparsed("box", "point_for_box", text[-200:])
    x1, y1, x2, y2 = values
    ordered = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
    if ordered != values:
        notes = [*notes, "corners reordered"]
    if ordered[0] == ordered[2] or ordered[1] == ordered[3]:
        notes = [*notes, "no area"]
    return _placed("box", ordered, values, notes, size, frame)


def _find(text: str, form: Form) -> tuple[Numbers, list[str]] | Unparsed:
    """The two or four numbers of the answer, as written, and notes on how they were read."""
    inside = _between_tags(text)
    where = text if inside is None else inside
    shapes = _listed(where)
    if not shapes:
        named = _named(where)
        if named:
            return named
        bare = _BARE.fullmatch(where.strip())
        shapes = [(0, _floats(where))] if bare else []
    if not shapes:
        reason = "malformed" if inside is not None or re.search(r"[<\[(]\s?\d", where) else no_verdict(text)
        return Unparsed(form, reason, text[-200:])
    return _chosen(where, shapes, form)


def _chosen(text: str, shapes: list[tuple[int, Numbers]], form: Form) -> tuple[Numbers, list[str]] | Unparsed:
    """The only shape, or the last one if the text calls it final; several shapes without such a word are Unparsed."""
    of_form = [shape for shape in shapes if len(shape[1]) == (4 if form == "box" else 2)]
    start, values = (of_form or shapes)[-1]
    fault = _fault(values)
    if fault:
        return Unparsed(form, fault, text[-200:])
    distinct = {shape for _, shape in shapes if len(shape) == len(values)}
    if len(distinct) > 1 and not _FINAL.search(text[max(0, start - 100) : start]):
        return Unparsed(form, "several_boxes" if len(values) == 4 else "several_points", text[-200:])
    return values, []


def _fault(values: Numbers) -> str | None:
    if not all(math.isfinite(value) for value in values):
        return "malformed"
    if len(values) > 4:
        return "too_many_numbers"
    return None if len(values) in (2, 4) else "malformed"


def _between_tags(text: str) -> str | None:
    """The text after the last start tag, up to its end tag or the end; None without a start tag."""
    tags = list(_TAG.finditer(text))
    for index in range(len(tags) - 1, -1, -1):
        if tags[index]["which"].upper() == "START":
            stop = tags[index + 1].start() if index + 1 < len(tags) else len(text)
            return text[tags[index].end() : stop]
    return None


def _listed(text: str) -> list[tuple[int, Numbers]]:
    """Every bracketed list of numbers with its position; two adjacent points, unless in <>, are joined to a box."""
    shapes: list[tuple[int, Numbers]] = []
    last_end, pairable = 0, False
    for match in _LIST.finditer(text):
        values = _floats(match["body"])
        pair = len(values) == 2 and match["open"] != "<"
        if pair and pairable and _CORNER_GAP.fullmatch(text[last_end : match.start()][:12]):
            shapes[-1] = (shapes[-1][0], shapes[-1][1] + values)
            pair = False
        else:
            shapes.append((match.start(), values))
        last_end, pairable = match.end(), pair
    return shapes


def _floats(body: str) -> Numbers:
    """The numbers of a list; values that are not finite are kept and refused later."""
    parts = [part for part in re.split(r"[\s,;]+", body.strip().rstrip(".")) if part]
    return tuple(float(part) for part in parts)


def _named(text: str) -> tuple[Numbers, list[str]] | None:
    """Named numbers: x1, min_x, left and similar; x, y, width, height; x and y alone. The last of each name is used."""
    values = {_NAMES[m["name"].lower().replace("_", "")]: float(m["value"]) for m in _NAMED.finditer(text)}
    if not all(math.isfinite(value) for value in values.values()):
        return None
    for names, note in (
        (("x1", "y1", "x2", "y2"), ""),
        (("x", "y", "w", "h"), "from width and height"),
        (("x", "y"), ""),
    ):
        if all(name in values for name in names):
            picked = tuple(values[name] for name in names)
            if note:
                x, y, width, height = picked
                return (x, y, x + width, y + height), [note]
            return picked, []
    return None


def _placed(
    form: Form, values: Numbers, written: Numbers, notes: list[str], size: Size, frame: Frame
) -> Answer | Unparsed:
    """Convert `values` to pixels. "auto" decides by the numbers as `written`, since a centre can be fractional."""
    if frame == "auto":
        frame = "unit" if all(0 <= v <= 1 for v in written) and any(v % 1 for v in written) else "pixel"
        notes = [*notes, "proportional"] if frame == "unit" else notes
    elif frame != "pixel":
        notes = [*notes, "proportional" if frame == "unit" else "per thousand"]
    if frame != "pixel":
        if size is None:
            return Unparsed(form, "no_image_size", str(written))
        scale = 1.0 if frame == "unit" else 1000.0
        values = tuple(value / scale * size[axis % 2] for axis, value in enumerate(values))
    if not all(math.isfinite(value) for value in values):
        return Unparsed(form, "malformed", str(written))
    if size is not None and any(not 0 <= value <= size[axis % 2] for axis, value in enumerate(values)):
        notes = [*notes, "outside the image"]
    return Answer(form, values, "; ".join(notes))
