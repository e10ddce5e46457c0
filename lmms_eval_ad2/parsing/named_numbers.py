"""Coordinates with names: "x1=400, y1=300, ...", "x is 850 and y is 420", "左：400，上：300", x and y with ranges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lmms_eval_ad2.parsing.shapes import ITEM, NUMBER, WrittenShape, shape_of

_NAMES: dict[str, str] = {
    **dict.fromkeys(("xmin", "minx", "x1", "x0", "left", "左", "xleft", "xtl"), "x1"),
    **dict.fromkeys(("ymin", "miny", "y1", "y0", "top", "上", "ytop", "ytl"), "y1"),
    **dict.fromkeys(("xmax", "maxx", "x2", "right", "右", "xright", "xbr"), "x2"),
    **dict.fromkeys(("ymax", "maxy", "y2", "bottom", "下", "ybottom", "ybr"), "y2"),
    **dict.fromkeys(("width", "w", "宽", "宽度"), "w"),
    **dict.fromkeys(("height", "h", "高", "高度"), "h"),
    **dict.fromkeys(("cx", "xc", "xcenter", "centerx", "xcentre", "centrex"), "cx"),
    **dict.fromkeys(("cy", "yc", "ycenter", "centery", "ycentre", "centrey"), "cy"),
    "x": "x",
    "y": "y",
}
_LONG = (  # an axis with its end; x and y alone need a sign or a word before the number
    r"x[_ ]?(?:min|max|left|right|cent(?:er|re)|tl|br|c|[012])|y[_ ]?(?:min|max|top|bottom|cent(?:er|re)|tl|br|c|[012])"
    r"|(?:min|max|cent(?:er|re)|c)[_ ]?[xy]"
)
_AXIS = rf"{_LONG}|[xy]"
_SIDE = r"left|top|right|bottom|width|height|[wh]|宽度?|高度?|[左上右下]"
_END = r"(?![A-Za-z0-9_])[\"']?(?:[- ]?(?:coordinates?|coord|values?|axis|坐标|值|轴))?"
_WORDS = "is|at|from|between|of|about|approximately|around|roughly|ranges|spans|in"
_SIGN = rf"(?:\s?(?:[:=≈]|\b(?:{_WORDS})\b|为|是|从|在|约|大约))"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_])(?:(?P<long>{_LONG}){_END}{_SIGN}{{0,4}}|(?P<axis>[xy]){_END}{_SIGN}{{1,4}}"
    rf"|(?P<side>{_SIDE})(?![A-Za-z0-9_])[\"']?(?: ?(?:edge|side|boundary|border|边界?|侧))?"
    r"(?:(?:\s?(?:[:=]|\b(?:is|at)\b|为|是)){1,3}|(?=\s\d+(?:\.\d+)?\s?%))"
    r"|(?P<extent>width|height)(?:\s?\b(?:of|is)\b)?)"
    rf"\s?[\"']?(?P<value>{ITEM})(?:\s?(?:-|~|to|and|到|至)\s?(?:(?P=axis)\s?[:=]\s?)?(?P<last>{NUMBER}))?",
    re.IGNORECASE,
)
# Written without a sign between name and number: "x 850, y 420", "<x>850</x>", "centre (600, 450)".
_PAIRED = re.compile(rf"(?<![A-Za-z0-9_])x\s(?P<x>{ITEM})\s?[,;]?\s?(?:and\s)?y\s(?P<y>{ITEM})", re.IGNORECASE)
_CENTRED = re.compile(
    rf"(?:\bcent(?:er|re)|中心)[^\d\n\[(<,;.]{{0,20}}[\[(<]\s?(?P<x>{ITEM})\s?,\s?(?P<y>{ITEM})\s?[\])>]", re.IGNORECASE
)
# Names of the two or four numbers in the order in which they are written, and a note.
_FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("x1", "y1", "x2", "y2"), ""),
    (("x", "y", "w", "h"), "from width and height"),
    (("x1", "y1", "w", "h"), "from width and height"),
    (("cx", "cy", "w", "h"), "from centre, width and height"),
    (("x", "y"), ""),
    (("cx", "cy"), ""),
)
_ELEMENT = re.compile(rf"<(?P<name>{_AXIS}|{_SIDE})>\s?(?P<value>{ITEM})\s?</", re.IGNORECASE)
# "850 pixels from the left, 420 from the top", "距左边850像素，距上边420像素"
_FROM_EDGES = re.compile(
    rf"(?P<x>{ITEM})\s?(?:from|to the right of) the left(?: edge| side)?[^\d\n]{{0,12}}"
    rf"(?P<y>{ITEM})\s?(?:from|below) the top"
    rf"|距离?左[^\d\n]{{0,6}}(?P<x2>{ITEM})[^\d\n]{{0,8}}距离?上[^\d\n]{{0,6}}(?P<y2>{ITEM})",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3}){1,3}(?=\s?(?:px|pixels?|像素))")
# "40% of the width and 30% of the height", "宽度的40%，高度的30%"
_SHARES = re.compile(
    r"(?P<x>\d+(?:\.\d+)?\s?(?:%|percent)) of (?:the |its )?(?:image(?:'s)? |picture(?:'s)? )?width[^\d\n]{0,40}"
    r"(?P<y>\d+(?:\.\d+)?\s?(?:%|percent)) of (?:the |its )?(?:image(?:'s)? |picture(?:'s)? )?height"
    r"|宽度?的?(?P<x2>\d+(?:\.\d+)?\s?%)[^\d\n]{0,10}高度?的?(?P<y2>\d+(?:\.\d+)?\s?%)",
    re.IGNORECASE,
)
# "(x1, y1) = (400, 300)"
_CORNER_NAMES = re.compile(
    rf"[\[(]\s?(?P<x>x[a-z0-9_]{{1,5}})\s?,\s?(?P<y>y[a-z0-9_]{{1,5}})\s?[\])]\s?(?:[:=]|is|为|是)\s?"
    rf"[\[(<]\s?(?P<a>{ITEM})\s?,\s?(?P<b>{ITEM})\s?[\])>]",
    re.IGNORECASE,
)
# Names of whole orders, as used for keys and formats.
ORDERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("xyxy", "ltrb"), ("x1", "y1", "x2", "y2")),
    **dict.fromkeys(("yxyx", "tlbr"), ("y1", "x1", "y2", "x2")),
    **dict.fromkeys(("xywh", "ltwh"), ("x", "y", "w", "h")),
    "cxcywh": ("cx", "cy", "w", "h"),
}
_ORDER = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(ORDERS)})(?![A-Za-z])", re.IGNORECASE)
_LEGEND_NAME = rf"(?:{_AXIS}|{_SIDE})(?![A-Za-z0-9_])"
_LEGEND = re.compile(
    rf"[\[(<]\s?({_LEGEND_NAME}(?:\s?,\s?{_LEGEND_NAME}){{1,3}})\s?[\])>]"
    rf"|(?<![A-Za-z0-9_])({_LEGEND_NAME}(?:(?:, ?| ?\| ?){_LEGEND_NAME}){{3}})",
    re.IGNORECASE,
)


def named_shapes(text: str) -> list[WrittenShape]:
    """Groups of named numbers; a repeated name begins the next group. Incomplete groups are left out."""
    found: list[WrittenShape] = []
    group: dict[str, str] = {}
    start = 0
    for match in _NAMED.finditer(_signed(text)):
        name = canonical(next(name for name in match.group("long", "axis", "side", "extent") if name))
        pairs = _range(name, match["value"], match["last"])
        if any(key in group for key in pairs):
            found += [shape] if (shape := from_names(group, start)) else []
            group = {}
        start = match.start() if not group else start
        group |= pairs
    return [*found, *([last] if (last := from_names(group, start)) else [])]


def _signed(text: str) -> str:
    """Write names without a sign as `name=number`. Positions change by a few characters at most for each."""
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
    text = text.replace("横坐标", "x").replace("纵坐标", "y")
    low = text.lower()
    if "</" in low:
        text = _ELEMENT.sub(r"\g<name>=\g<value> ", text)
    if "x" in low and "y" in low:
        text = _PAIRED.sub(r"x=\g<x>, y=\g<y> ", text)
        text = _CORNER_NAMES.sub(r"\g<x>=\g<a>, \g<y>=\g<b> ", text)
    if "the left" in low or "距" in low:
        text = _FROM_EDGES.sub(lambda m: f"x={m['x'] or m['x2']}, y={m['y'] or m['y2']} ", text)
    if "%" in low or "percent" in low:
        text = _SHARES.sub(lambda m: f"x={m['x'] or m['x2']}, y={m['y'] or m['y2']} ", text)
    return _CENTRED.sub(r" cx=\g<x>, cy=\g<y> ", text) if "cent" in low or "中心" in low else text


def _range(name: str, value: str, last: str | None) -> dict[str, str]:
    """A range of x gives x1 and x2."""
    return {name: value} if last is None or name not in ("x", "y") else {f"{name}1": value, f"{name}2": last}


def canonical(name: str) -> str:
    return _NAMES.get(re.sub(r"[_ ]", "", name.lower()), name.lower())


def from_names(given: Mapping[str, str], start: int) -> WrittenShape | None:
    """The shape of named numbers, as text; None if the names are incomplete."""
    values = {canonical(name): value for name, value in given.items()}
    for names, note in _FORMS:
        if all(name in values for name in names):
            return in_order(names, shape_of(start, ",".join(values[name] for name in names)), note)
    return None


def in_order(names: tuple[str, ...], found: WrittenShape, note: str = "") -> WrittenShape:
    """Convert numbers with these names, in their order, to (x, y) or (x_min, y_min, x_max, y_max)."""
    notes = (note,) if note else ()
    if len(found.values) != len(names):
        return found
    by_name = dict(zip(names, found.values, strict=True))
    values = found.values
    if names[2:] == ("w", "h"):
        x, y, width, height = found.values
        left, top = (x - width / 2, y - height / 2) if names[0] == "cx" else (x, y)
        values = (left, top, left + width, top + height)
    elif len(names) == 4:
        values = tuple(by_name[name] for name in ("x1", "y1", "x2", "y2"))
    elif set(names) == {"x", "y"}:
        values = (by_name["x"], by_name["y"])
    return WrittenShape(found.start, values, found.notation, named=True, notes=notes)


def legends(text: str) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """(end, names, note) of each text that tells an order: "[y_min, x_min, y_max, x_max]", "xywh"."""
    known = {frozenset(names): note for names, note in _FORMS}
    for match in _ORDER.finditer(text):
        names = ORDERS[match[0].lower()]
        yield match.end(), names, known[frozenset(names)]
    for match in _LEGEND.finditer(text):
        names = tuple(canonical(name.strip()) for name in re.split(r"[,|]", match[1] or match[2]))
        note = known.get(frozenset(names))
        if note is not None and (not note or names in {form for form, _ in _FORMS}):
            yield match.end(), names, note
