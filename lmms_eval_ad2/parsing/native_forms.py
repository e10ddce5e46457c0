"""Points and boxes in the notations of model families (docs/models.md has the table with the sources).

    Molmo           <point x="45.0" y="60.2" alt="car">car</point>, <points x1=".." y1=".." x2=".." y2="..">
    Molmo2          <points coords="1 1 450 602">: image, then object, x, y
    Qwen-VL         <ref>car</ref><box>(400,300),(800,600)</box>
    Qwen2-VL        <|object_ref_start|>car<|object_ref_end|><|box_start|>(400,300),(800,600)<|box_end|>
    MiniCPM-V       <ref>car</ref><box>400 300 800 600</box>, <point>600 450</point>, <quad>8 numbers</quad>
    InternVL        <ref>car</ref><box>[[400, 300, 800, 600]]</box>
    DeepSeek-VL2    <|ref|>car<|/ref|><|det|>[[400, 300, 800, 600]]<|/det|>, 0..999
    PaliGemma       <loc0123><loc0456><loc0789><loc1023>: y_min, x_min, y_max, x_max, 0..1023
    Florence-2      <loc_400><loc_300><loc_800><loc_600>
    Qwen2.5-VL      <p data-bbox="400 300 800 600">car</p>, see with_html_boxes

JSON keys (Gemini's box_2d) are read in json_shapes.py, CogVLM's padded numbers in written_shapes.py. Time is linear in
the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lmms_eval_ad2.parsing.shapes import (
    PERCENT,
    RUN,
    THOUSAND,
    CoordinateNotation,
    WrittenShape,
    hull,
    numbers,
    shape_of,
)

_DETECTED = CoordinateNotation(999, fixed=True)  # DeepSeek-VL2 divides by 999
_POINTED = CoordinateNotation(1000, fixed=True)  # Molmo2
_PALIGEMMA = CoordinateNotation(1024, y_first=True, fixed=True)
_FLORENCE = CoordinateNotation(1000, fixed=True)

_LABEL = re.compile(r"<\|?(?P<name>object_ref_start|ref|p)\|?>", re.IGNORECASE)
_LABEL_LIMIT = 400  # characters of a label
_REGION = re.compile(
    r"<\s?\|?\s?(?P<name>b?box|point|pt|quad|det|rect)(?:_start|_begin)?\s?\|?\s?>(?P<body>[^A-Za-z<]{0,2000})",
    re.IGNORECASE,
)
_ANGLED = re.compile(rf"\s?<\s?{RUN}\s?>", re.IGNORECASE)
_TAG = re.compile(r"<\s?(?P<name>points?|tracks|b?box|rect|bounding_?box)\s(?P<body>[^<>]{0,20000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"(?<![\w-])(?P<name>[A-Za-z_]{1,12}\d{0,3})\s?=\s?[\"']?(?P<value>[-+.\d,:;%\s]{1,400})")
_LOCATIONS = re.compile(r"(?:<loc_?\d{1,4}>\s?){2,}", re.IGNORECASE)
_HTML_BOX = re.compile(r"<[a-z]\w{0,9}\s[^<>]{0,200}?\b(?:data-)?bbox=[\"'](?P<box>[-\d.,\s]{5,80})[\"'][^<>]{0,200}>")
_INNER = re.compile(r"[\[(<]([^\[\]()<>]{3,200})[\])>]")


def with_html_boxes(text: str) -> str:
    """HTML with the boxes of its elements, data-bbox="x1 y1 x2 y2" in pixels, as lists before their content."""
    if "bbox" not in text:
        return text
    return _HTML_BOX.sub(lambda tag: f"{tag[0]} [{', '.join(tag['box'].replace(',', ' ').split())}] ", text)


def native_shapes(text: str) -> list[WrittenShape]:
    """All shapes in native notations, in order of the text; malformed ones are included."""
    text = _without_labels(text)
    found = [*_regions(text), *_tags(text), *_locations(text)]
    return sorted(found, key=lambda shape: shape.start)


def _without_labels(text: str) -> str:
    """Blank the names of objects, which may contain numbers; positions stay."""
    parts, position = [], 0
    for mark in _LABEL.finditer(text):
        if mark.start() < position:
            continue
        name = mark["name"].lower()
        closes = {"object_ref_start": ("<|object_ref_end|>",), "ref": ("</ref>", "<|/ref|>")}.get(name, ("</p>",))
        ends = [end for close in closes if (end := text.find(close, mark.end(), mark.end() + _LABEL_LIMIT)) >= 0]
        if ends:
            parts += [text[position : mark.end()], " " * (min(ends) - mark.end())]
            position = min(ends)
    return "".join([*parts, text[position:]])


def _regions(text: str) -> Iterator[WrittenShape]:
    """Numbers between an opening and a closing mark; the closing one may be missing."""
    for mark in _REGION.finditer(text):
        name, body = mark["name"].lower(), mark["body"]
        if not re.search(r"\d", body):
            angled = _ANGLED.match(text, mark.start("body"))
            body = angled[0] if angled else ""
        if not body:
            continue
        notation = {"det": _DETECTED, "rect": None}.get(name, THOUSAND)
        values, _ = numbers(body)
        if len(values) < 2:  # a mark around something else
            continue
        if name == "quad" and len(values) == 8:
            box = hull([values[i : i + 2] for i in range(0, 8, 2)], aligned=False)
            yield WrittenShape(mark.start(), box or values, notation, named=True, notes=("box around a quadrilateral",))
            continue
        for part in _parts(body):
            yield _x_first(shape_of(mark.start(), part, notation))


def _parts(body: str) -> list[str]:
    """One text per shape: InternVL and DeepSeek-VL2 list boxes as [[...], [...]], Qwen-VL writes one as two points."""
    inner = [match[1] for match in _INNER.finditer(body)]
    if len(inner) == 2 and all(len(numbers(part)[0]) == 2 for part in inner):
        return [",".join(inner)]
    return inner or [body]


def _tags(text: str) -> Iterator[WrittenShape]:
    """Coordinates in attributes. Molmo's <points> holds points, never the corners of a box."""
    for tag in _TAG.finditer(text):
        given = {a["name"].lower().replace("_", ""): a["value"] for a in _ATTRIBUTE.finditer(tag["body"])}
        if tag["name"].lower() in ("point", "points", "tracks"):
            yield from _pointed(tag.start(), given)
            continue
        for names in (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom")):
            if all(name in given for name in names):
                yield _attributed(tag.start(), [given[name] for name in names], None)
                break


def _pointed(start: int, given: dict[str, str]) -> Iterator[WrittenShape]:
    if "coords" in given:
        values, _ = numbers(given["coords"])
        pairs = [values[i + 1 : i + 3] for i in range(1, len(values) - 2, 3)] if len(values) % 3 == 1 else [values]
        for pair in pairs:
            yield WrittenShape(start, pair, _POINTED, named=True)
        return
    for name, value in given.items():
        if name.startswith("x") and (other := given.get(f"y{name[1:]}")) is not None:
            yield _attributed(start, [value, other], PERCENT)


def _attributed(start: int, given: list[str], notation: CoordinateNotation | None) -> WrittenShape:
    return _x_first(shape_of(start, ",".join(given), notation))


def _x_first(shape: WrittenShape) -> WrittenShape:
    """All families that use these marks write x first, whatever the order of bare numbers is."""
    return replace(shape, named=True)


def _locations(text: str) -> Iterator[WrittenShape]:
    """Location tokens: four make a box, two a point; more are several boxes."""
    for match in _LOCATIONS.finditer(text):
        values = tuple(map(float, re.findall(r"\d+", match[0])))
        notation = _FLORENCE if "_" in match[0] else _PALIGEMMA
        width = 4 if len(values) % 4 == 0 else len(values)
        for at in range(0, len(values), width):
            yield WrittenShape(match.start(), values[at : at + width], notation)
