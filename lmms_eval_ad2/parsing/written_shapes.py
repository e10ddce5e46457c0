"""Points and boxes in plain text: lists in brackets, corners in words, bare numbers after a cue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmms_eval_ad2.parsing.json_shapes import key_notation
from lmms_eval_ad2.parsing.named_numbers import in_order, legends
from lmms_eval_ad2.parsing.shapes import ITEM, RUN, CoordinateNotation, Numbers, WrittenShape, hull, numbers, shape_of

_LIST = re.compile(rf"(?P<open>[<\[({{])\s*(?P<body>{RUN})(?:\s*,)?\s*(?P<close>[>\])}}])", re.IGNORECASE)
# Text between two corners that are written as two points. Adjacent <x,y> are separate points.
_GAP = re.compile(r"\s*(?P<word>,|;|to|至|到|-|->|,?\s?and|和|与)?\s*", re.IGNORECASE)
_TO = ("to", "至", "到", "-", "->")
_AND = ("and", ", and", ",and", "和", "与")
_DIAGONAL = re.compile(
    r"(?:corners?|vertices|diagonal|opposite|between|对角|角点|顶点)[^\d\[(<]{0,30}\Z", re.IGNORECASE
)
_PIXEL_SIZE = re.compile(r"(?<![\d.])\d{2,5}\s?[x×*]\s?\d{2,5}(?![\d.])")
_KEY = re.compile(r"(?P<key>[A-Za-z_]\w{0,30})[\"']?\s?[:=]\s?[\[\s]{0,3}\Z")
_LABEL_KEY = re.compile(r"[\"']label[\"']\s?:")
# Before a pair that is no answer: the image's size, the range of the numbers.
_OTHER = re.compile(
    r"(?:\b(?:size|resolution|dimensions?|width and height|range|scale)\b|\b(?:image|picture|frame) (?:is|of|has)\b"
    r"|\bnormali[sz]ed (?:to|in)\b|尺寸|分辨率|大小|宽高|范围|归一化到)[^.\n\])>]{0,20}\Z",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"(?:normali[sz]|relative|scale|range|between|from|归一|相对|范围|比例)[^\n.]{0,30}?(?<![\d.])0(?:\.0)?\s?"
    r"(?:-|~|,|to|and|到|至)\s?(?P<extent>1000|999|100|1(?:\.0)?)(?![.\d])",
    re.IGNORECASE,
)
_PADDED = re.compile(r"\s*\d{3}(?:\s*[,;]\s*\d{3})+\s*")
_LEADING_ZERO = re.compile(r"(?<!\d)0\d\d")

_CORNER = re.compile(
    r"(?P<tl>\b(?:top|upper)[-_ ]?left|\bleft[-_ ]?(?:top|upper)|左上|上左)"
    r"|(?P<br>\b(?:bottom|lower)[-_ ]?right|\bright[-_ ]?(?:bottom|lower)|右下|下右)"
    r"|(?P<tr>\b(?:top|upper)[-_ ]?right|\bright[-_ ]?(?:top|upper)|右上|上右)"
    r"|(?P<bl>\b(?:bottom|lower)[-_ ]?left|\bleft[-_ ]?(?:bottom|lower)|左下|下左)",
    re.IGNORECASE,
)
_CORNER_WORDS = r"(?:(?!\band\b|\b[xy]\b)[^\d()\[\]<>{},;.\n和与]){0,40}"
_PAIR = (
    rf"(?:[\[(<{{]\s?{RUN}\s?[\])>}}]|{ITEM}\s?,\s?{ITEM}"
    rf"|x(?=[\s:=坐-])[^\d\n(]{{0,12}}{ITEM}\s?[,;]?\s?(?:and\s)?[^\d\n(]{{0,6}}y(?=[\s:=坐-])[^\d\n(]{{0,12}}{ITEM})"
)
_PAIR_AFTER = re.compile(rf"{_CORNER_WORDS}(?P<pair>{_PAIR})", re.IGNORECASE)
_PAIR_BEFORE = re.compile(rf"(?P<pair>{_PAIR}){_CORNER_WORDS}\(?\Z", re.IGNORECASE)
_WINDOW = 80  # characters around the name of a corner

_BARE = re.compile(RUN, re.IGNORECASE)
_CUE = re.compile(
    r"(?:\b(?:box|bbox|points?|position|coordinates?|location|located|centre|center|answer|at|is|are)"
    r"|坐标|位置|点|答案|框|在|为|是)"
    r"[\s:=\"'*]{0,6}\Z|[:=]\s?\Z",
    re.IGNORECASE,
)


def without_sizes(text: str) -> str:
    """Blank the size of an image, such as 1600x900; positions stay."""
    return _PIXEL_SIZE.sub(lambda match: " " * len(match[0]), text)


def stated_extent(text: str) -> CoordinateNotation | None:
    """The range of the numbers if the text names it, such as "normalised to 0-1000"; None if it names several."""
    extents = {float(match["extent"]) for match in _STATED.finditer(text)}
    return CoordinateNotation(extents.pop()) if len(extents) == 1 else None


def corner_box(text: str) -> WrittenShape | None:
    """A box from two opposite corners in words; None without them, or if a corner has several values."""
    low = text.lower()
    if not (("left" in low and "right" in low) or ("左" in low and "右" in low)):
        return None
    marks = list(_CORNER.finditer(text))
    for pattern, before in ((_PAIR_AFTER, False), (_PAIR_BEFORE, True)):
        found: dict[str, set[str]] = {}
        for mark in marks:
            where = text[max(0, mark.start() - _WINDOW) : mark.start()] if before else ""
            match = pattern.search(where) if before else pattern.match(text, mark.end(), mark.end() + _WINDOW)
            if match:
                found.setdefault(str(mark.lastgroup), set()).add(match["pair"].strip("[](){}<>"))
        for one, other in (("tl", "br"), ("bl", "tr")):
            if len(found.get(one, ())) == len(found.get(other, ())) == 1:
                shape = shape_of(marks[0].start(), f"{found[one].pop()},{found[other].pop()}")
                return shape if len(shape.values) == 4 else None
    return None


@dataclass(frozen=True, slots=True)
class NumberList:
    """A bracketed list: its text inside the brackets, and where it stands with them."""

    start: int
    end: int
    bracket: str
    body: str
    values: Numbers


def listed_shapes(text: str, *, box: bool) -> list[WrittenShape]:
    """Every bracketed list of numbers; points in a row are joined to a box if `box` is wanted or the text says so.

    For a point, lists in the requested form <x,y> leave out all others.
    """
    shapes: list[WrittenShape] = []
    run: list[NumberList] = []
    matches = list(_LIST.finditer(text))
    asked = [] if box else [match for match in matches if match["open"] == "<"]
    for match in asked or matches:
        found = NumberList(match.start(), match.end(), match["open"], match["body"], numbers(match["body"])[0])
        if run and not _follows(text, run[-1], found):
            shapes += _joined(text, run, box=box)
            run = []
        run.append(found)
    shapes += _joined(text, run, box=box) if run else []
    names = list(legends(text)) if shapes else []
    return [_ordered(shape, names) for shape in shapes]


def _follows(text: str, last: NumberList, found: NumberList) -> bool:
    """Whether two lists are points of one shape."""
    if "<" in (last.bracket, found.bracket) or not len(last.values) == len(found.values) == 2:
        return False
    return found.start - last.end <= 12 and bool(_GAP.fullmatch(text, last.end, found.start))


def _joined(text: str, run: Sequence[NumberList], *, box: bool) -> list[WrittenShape]:
    """One shape for a row of points: two are corners, four may be those of a rectangle; else one shape per list."""
    if len(run) == 1:
        return _single(text, run[0])
    first, last = run[0], run[-1]
    outside = text[max(0, first.start - 4) : first.start].rstrip(), text[last.end : last.end + 4].lstrip()
    nested = outside[0].endswith("[") and outside[1].startswith("]")
    word = text[first.end : run[1].start].strip().lower()
    diagonal = word in _AND and _DIAGONAL.search(text[max(0, first.start - 60) : first.start])
    if len(run) == 2 and (nested or diagonal or word in _TO or (box and word not in _AND)):
        return [shape_of(first.start, f"{first.body},{last.body}")]
    upright = hull([one.values for one in run], aligned=True)
    if upright:
        return [WrittenShape(first.start, upright, notes=("box around a quadrilateral",))]
    return [shape for one in run for shape in _single(text, one)]


def _single(text: str, found: NumberList) -> list[WrittenShape]:
    """The shapes of one list: CogVLM separates boxes by semicolons. None for the size of the image."""
    before = text[max(0, found.start - 60) : found.start]
    if len(found.values) == 2 and _OTHER.search(before):
        return []
    notation = _padded(found.body) or _keyed(text, found.start, before)
    parts = found.body.split(";")
    if len(parts) > 1 and all(len(numbers(part)[0]) == 4 for part in parts):
        return [shape_of(found.start, part, notation) for part in parts]
    shape = shape_of(found.start, found.body, notation)
    if len(shape.values) == 8:
        upright = hull([shape.values[i : i + 2] for i in range(0, 8, 2)], aligned=True)
        return [replace(shape, values=upright, notes=("box around a quadrilateral",))] if upright else [shape]
    return [shape]


def _padded(body: str) -> CoordinateNotation | None:
    """CogVLM and CogAgent write every number with three digits, 000 to 999; only a leading zero tells them apart."""
    if "0" not in body or not _PADDED.fullmatch(body):
        return None
    return CoordinateNotation(1000, fixed=True) if _LEADING_ZERO.search(body) else None


def _keyed(text: str, start: int, before: str) -> CoordinateNotation | None:
    """The notation of a list after a JSON key, for JSON that is cut off or not valid."""
    key = _KEY.search(before) if before.rstrip(" [\n")[-1:] in (":", "=") else None
    return key_notation(key["key"], bool(_LABEL_KEY.search(text[max(0, start - 200) : start + 200]))) if key else None


def _ordered(shape: WrittenShape, names: Sequence[tuple[int, tuple[str, ...], str]]) -> WrittenShape:
    """Apply the last list of names before the shape, else the first after it, with as many names as numbers."""
    fitting = [legend for legend in names if len(legend[1]) == len(shape.values)]
    if shape.notation is not None or not fitting:
        return shape
    _, order, note = next((legend for legend in reversed(fitting) if legend[0] <= shape.start), fitting[0])
    return in_order(order, shape, note)


def bare_shapes(text: str, *, box: bool) -> list[WrittenShape]:
    """Numbers without brackets: the whole text, four numbers with commas, cells of a table, or after a cue ("box:")."""
    whole = text.strip().rstrip(".")
    if _BARE.fullmatch(whole):
        return [shape_of(0, whole)]
    shapes = []
    for match in _BARE.finditer(text):
        if len(numbers(match[0][:400])[0]) != (4 if box else 2):
            continue
        cued = _CUE.search(text[max(0, match.start() - 40) : match.start()])
        if cued or match[0].count("|") == (3 if box else 1) or (box and match[0].count(",") == 3):
            shapes.append(shape_of(match.start(), match[0]))
    names = list(legends(text)) if shapes else []
    return [_ordered(shape, names) for shape in shapes]
