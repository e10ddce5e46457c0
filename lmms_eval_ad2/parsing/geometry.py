"""Parse points and boxes. Results are pixels of the stored image, origin top left, not clipped to the image.

A reply is searched in this order, and the first kind that has a shape decides: between AD2-Bench's output tags, native
marks of model families, JSON, corners in words, lists in brackets, named numbers, bare numbers. Several different
shapes of one kind are Unparsed, unless the text calls the last one final.
"""

from __future__ import annotations

import functools
import html
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from lmms_eval_ad2.core.coordinates import Frame, Size, swapped, to_pixels
from lmms_eval_ad2.core.records import Answer, Form, Unparsed
from lmms_eval_ad2.parsing.clauses import negations
from lmms_eval_ad2.parsing.json_shapes import json_shapes
from lmms_eval_ad2.parsing.named_numbers import named_shapes
from lmms_eval_ad2.parsing.native_forms import native_shapes
from lmms_eval_ad2.parsing.question_words import located_noun
from lmms_eval_ad2.parsing.refusals import no_verdict, without_refusals
from lmms_eval_ad2.parsing.shapes import CoordinateNotation, Numbers, WrittenShape, fault
from lmms_eval_ad2.parsing.written_shapes import bare_shapes, corner_box, listed_shapes, stated_extent, without_sizes

_TAG = re.compile(r"<?\s?OUTPUT[ _]?(?P<which>START|END)\s?>?", re.IGNORECASE)
_FINAL = re.compile(
    r"(?:final|answer|therefore|thus|hence|in conclusion|correct(?:ed|ion)?|actually|wait|instead"
    r"|asked (?:about|for)|最终|答案|因此|所以|更正|不对|应为|应该是)[^\n\])>]{0,80}\Z",
    re.IGNORECASE,
)
# Marks and keys may be escaped as in Markdown (\\<box\\>, box\\_2d), or as JSON within JSON.
_ESCAPED_MARK = re.compile(r"\\(?=[<>|_\[\](){}])")
_ESCAPED_QUOTE = re.compile(r"\\{1,4}(?=[\"'])")
_JOINER = re.compile(r"\b(?:and|or|the|one|two|another|other|also|then|at|is)\b|以及|还有|另一[个辆名]")
_CONTENT = re.compile(r"[a-z]{3,}|[\u4e00-\u9fff]{2,}")
# "(510, 600)? No, that is a bag." and "[…] would be the scooter."
_TAKEN_BACK = re.compile(
    r"[\[(<{][^\[\]()<>{}]{3,100}[\])>}]+\W{0,6}(?:no\b|not\b|wrong\b|sorry\b|(?:would be|is|belongs to) (?:the|an?)\b"
    r"|不对|不是)",
    re.IGNORECASE,
)
# "For example [1, 2, 3, 4]", "If it were there, it would be at (1, 2)"
_SUPPOSED = re.compile(
    r"(?:\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|例如|比如|\bif\b[^.\n]{0,60}\bwould\b[^.\n\d]{0,30}"
    r"|(?:如果|假如|要是)[^.\n]{0,30})[\s,:]*(?:at |is )?\Z",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(r"[\[(<{][^\[\](){}<>]*\d\s*\Z")  # the last number of "[100, 200, 300, 4" may go on
_FEW = 12  # shapes that are told apart by the words before them
_NOTES: dict[Frame, str] = {
    "unit": "proportional", "percent": "percent", "thousand": "per thousand", "thousand_yx": "per thousand, y first",
    "model_input": "pixels of the model's input",
}  # fmt: skip


def read_point(
    text: str, size: Size | None, frame: Frame, model_input: Size | None = None, question: str = ""
) -> Answer | Unparsed:
    """A point (x, y). A box is converted to its centre (AD2-Bench A.4), with a note.

    size: (width, height) of the stored image; model_input: of the image as the model sees it. `question` says which of
    several labelled shapes is asked for.
    """
    found = find_shape(text, "point", question)
    return found if isinstance(found, Unparsed) else place(found, "point", size, frame, model_input)


def read_box(
    text: str, size: Size | None, frame: Frame, model_input: Size | None = None, question: str = ""
) -> Answer | Unparsed:
    """A box (x_min, y_min, x_max, y_max). Corners in another order are reordered, with a note. Sizes: `read_point`."""
    found = find_shape(text, "box", question)
    return found if isinstance(found, Unparsed) else place(found, "box", size, frame, model_input)


@functools.lru_cache(maxsize=8)  # a reply is read in all frames in turn (scoring/pipeline.py)
def find_shape(text: str, form: Form, question: str = "") -> WrittenShape | Unparsed:
    """The numbers of the answer as written, for text from normalise.plain."""
    if "&" in text:
        text = html.unescape(text)
    if "\\" in text:
        text = _ESCAPED_MARK.sub("", text)
        if not re.search(r"[{,]\s?\"", text):  # in valid JSON a quote may have to be escaped
            text = _ESCAPED_QUOTE.sub("", text)
    inside = _between_tags(text)
    where = _CUT_OFF.sub("", without_sizes(text if inside is None else inside))
    for found in _kinds(where, form):
        shapes = [shape for shape in found if not _SUPPOSED.search(where[max(0, shape.start - 120) : shape.start])]
        if found and not shapes:
            return Unparsed(form, "hedged", text[-200:])
        if shapes:
            chosen = _chosen(where, _asked_for(where, _standing(where, shapes), question), form)
            if isinstance(chosen, WrittenShape) and not any(chosen.values) and _declines(where.lower()):
                return Unparsed(form, "refusal", text[-200:])
            return chosen
    attempted = inside is not None or re.search(r"[<\[(]\s?\d", text)
    return Unparsed(form, "malformed" if attempted else no_verdict(text), text[-200:])


def _declines(low: str) -> bool:
    """Whether lower-case text says that nothing was found, so that zeros stand for no answer."""
    return without_refusals(low)[1] or bool(negations(low)) or "unable" in low


def _kinds(text: str, form: Form) -> Iterator[list[WrittenShape]]:
    """The shapes of each kind, the most explicit kind first; a kind is read only if those before have none."""
    box = form == "box"
    yield native_shapes(text)
    yield json_shapes(text)
    corners = corner_box(text)
    yield [corners] if corners else []
    listed = listed_shapes(text, box=box)
    wanted = 4 if box else 2
    # A list of another length may be a distance, a size or a number of a step beside the coordinates.
    if any(len(shape.values) == wanted for shape in listed):
        yield _stated(text, listed)
    yield _stated(text, named_shapes(text))
    if not any(len(shape.values) > 1 for shape in listed):
        yield _stated(text, bare_shapes(text, box=box))
    yield _stated(text, listed)


def _stated(text: str, shapes: list[WrittenShape]) -> list[WrittenShape]:
    """Give bare numbers the range that the text states, such as "normalised to 0-1000"."""
    notation = stated_extent(text) if shapes else None
    if notation is None:
        return shapes
    return [replace(shape, notation=notation) if shape.notation is None else shape for shape in shapes]


def _standing(text: str, shapes: list[WrittenShape]) -> list[WrittenShape]:
    """The shapes that the text does not take back or give to another object directly after them; all if none stands."""
    if not 1 < len(shapes) <= _FEW:
        return shapes
    kept = [shape for shape in shapes if not _TAKEN_BACK.match(text[shape.start : shape.start + 160])]
    return kept or shapes


def _named_beside(text: str, shapes: list[WrittenShape], noun: str) -> list[WrittenShape]:
    """The only shape whose words before it, since the shape before, name `noun`; else all."""
    if not noun or len(shapes) > _FEW:
        return shapes
    starts = [0, *(shape.start + 1 for shape in shapes)]
    before = [text[start : shape.start].lower() for start, shape in zip(starts, shapes, strict=False)]
    if not all(_CONTENT.search(_JOINER.sub(" ", words)) for words in before):
        return shapes
    for name in (noun, noun.split()[-1]):  # "red car", "car"
        pattern = re.compile(rf"(?<![a-z]){re.escape(name.rstrip('s'))}" + ("" if name.endswith("s") else r"(?!s\b)"))
        named = [
            shape
            for shape, words in zip(shapes, before, strict=True)
            if pattern.search(words) and not negations(re.split(r"[.;,]", words.strip(" .;,"))[-1])
        ]
        if len({shape.values for shape in named}) == 1:
            return named
    return shapes


def _asked_for(text: str, shapes: list[WrittenShape], question: str) -> list[WrittenShape]:
    """Of several shapes, the only one whose label the question names, or whose clause names what it locates."""
    if len({shape.values for shape in shapes}) < 2 or _FINAL.search(
        text[max(0, shapes[-1].start - 100) : shapes[-1].start]
    ):
        return shapes
    low = question.lower()
    if not all(shape.label for shape in shapes):
        return _named_beside(text, shapes, located_noun(question))
    named = [shape for shape in shapes if re.search(rf"(?<![a-z]){re.escape(shape.label.lower().rstrip('s'))}", low)]
    return named if len({shape.values for shape in named}) == 1 else shapes


def _chosen(text: str, shapes: list[WrittenShape], form: Form) -> WrittenShape | Unparsed:
    """The only shape, or the last one if the text calls it final; several shapes without such a word are Unparsed."""
    of_form = [shape for shape in shapes if len(shape.values) == (4 if form == "box" else 2)]
    chosen = (of_form or shapes)[-1]
    reason = fault(chosen.values)
    if reason:
        return Unparsed(form, reason, text[-200:])
    distinct = {shape.values for shape in shapes if len(shape.values) == len(chosen.values)}
    repeats = chosen.values in [shape.values for shape in shapes[:-1]] and chosen is shapes[-1]  # selects one again
    if len(distinct) > 1 and not repeats and not _FINAL.search(text[max(0, chosen.start - 100) : chosen.start]):
        return Unparsed(form, "several_boxes" if len(chosen.values) == 4 else "several_points", text[-200:])
    if form == "box" and len(chosen.values) == 2:
        return Unparsed(form, "point_for_box", text[-200:])
    return chosen


def _between_tags(text: str) -> str | None:
    """The text after the last start tag, up to its end tag or the end; None without a start tag."""
    tags = list(_TAG.finditer(text))
    for index in range(len(tags) - 1, -1, -1):
        if tags[index]["which"].upper() == "START":
            stop = tags[index + 1].start() if index + 1 < len(tags) else len(text)
            return text[tags[index].end() : stop]
    return None


def place(
    shape: WrittenShape, form: Form, size: Size | None, frame: Frame, model_input: Size | None = None
) -> Answer | Unparsed:
    """Convert a shape to pixels of the stored image, under `frame`.

    "auto" takes the frame that the notation or the text names, else 0..1 if all numbers are in that range and one is
    fractional, else pixels. A frame that the user named holds, except against a notation that has only one meaning
    (`CoordinateNotation.fixed`). Numbers beyond the range of a notation are not in it: they are read as bare numbers.
    """
    notation = _fitting(shape)
    if notation is None and shape.notation and shape.notation.fixed and shape.notation.y_first:
        return Unparsed(form, "malformed", str(shape.values))  # neither its range nor its order can be relied on
    if notation and (frame == "auto" or notation.fixed):
        values = _scaled(shape, notation, size)
        note = _name(notation)
    else:
        used = _inferred(shape.values) if frame == "auto" else frame
        if used == "model_input" and model_input is None:
            return Unparsed(form, "no_model_input_size", str(shape.values))
        written = swapped(shape.values) if used == "thousand_yx" and shape.named else shape.values
        values = to_pixels(written, used, size, model_input)
        note = _NOTES.get(used, "")
    if values is None:
        return Unparsed(form, "no_image_size", str(shape.values))
    values, notes = _formed(values, form)
    if not all(math.isfinite(value) for value in values):
        return Unparsed(form, "malformed", str(shape.values))
    outside = size is not None and any(not 0 <= value <= size[axis % 2] for axis, value in enumerate(values))
    notes = [*shape.notes, *notes, note, "outside the image" if outside else ""]
    return Answer(form, values, "; ".join(filter(None, notes)))


def _fitting(shape: WrittenShape) -> CoordinateNotation | None:
    """The shape's notation if its numbers can be in it; None if not.

    Fractions of 1 are not per thousand: they are proportions, in the order of the notation if it is fixed.
    """
    notation = shape.notation
    if notation is None or not all(0 <= value <= notation.extent for value in shape.values):
        return None
    if notation.extent > 100 and _inferred(shape.values) == "unit":
        return replace(notation, extent=1) if notation.fixed else None
    return notation


def _inferred(values: Numbers) -> Frame:
    """The frame of bare numbers."""
    return "unit" if all(0 <= v <= 1 for v in values) and any(v % 1 for v in values) else "pixel"


def _scaled(shape: WrittenShape, notation: CoordinateNotation, size: Size | None) -> Numbers | None:
    if size is None:
        return None
    ordered = swapped(shape.values) if notation.y_first and not shape.named else shape.values
    return tuple(value / notation.extent * size[axis % 2] for axis, value in enumerate(ordered))


def _name(notation: CoordinateNotation) -> str:
    names = {1: "proportional", 100: "percent", 1000: "per thousand"}
    return names.get(int(notation.extent), f"0 to {notation.extent:g}") + (", y first" if notation.y_first else "")


def _formed(values: Numbers, form: Form) -> tuple[Numbers, list[str]]:
    """The values in the requested form, and notes."""
    if len(values) == 2:
        return values, []
    if form == "point":
        return ((values[0] + values[2]) / 2, (values[1] + values[3]) / 2), ["centre of a box"]
    x1, y1, x2, y2 = values
    ordered = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
    notes = ["corners reordered"] if ordered != values else []
    return ordered, [*notes, *(["no area"] if ordered[0] == ordered[2] or ordered[1] == ordered[3] else [])]
