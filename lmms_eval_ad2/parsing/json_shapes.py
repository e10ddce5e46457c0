"""Points and boxes in JSON: lists of numbers, named coordinates, corners as objects.

The key decides the notation where only one family uses it: Gemini's {"box_2d": [y_min, x_min, y_max, x_max]} and
{"point": [y, x], "label": ...} run from 0 to 1000. "bbox_2d" and "point_2d" do not: they are pixels of the model's
input in Qwen2.5-VL and 0 to 1000 in Qwen3-VL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values
from lmms_eval_ad2.parsing.named_numbers import ORDERS, from_names, in_order
from lmms_eval_ad2.parsing.shapes import NUMBER, CoordinateNotation, WrittenShape, shape_of

GEMINI_BOX = CoordinateNotation(1000, y_first=True, fixed=True)
GEMINI_POINT = CoordinateNotation(1000, y_first=True)

_BRACES = 200  # that are tried: each may cost the length of the text
_NUMBER = re.compile(rf"\s*{NUMBER}\s?%?\s*")
_RUN = re.compile(rf"\s*[\[(<]{{0,2}}\s*{NUMBER}(?:\s*[,;]\s*{NUMBER}|\s+{NUMBER})+\s*[\])>]{{0,2}}\s*")
# Lists that are no answer: the size of the image, colours, scores, frames of a video.
_OTHER = re.compile(r"size|resol|dimen|shape|colou?r|speed|velo|score|conf|prob|range|time|frame|scale|wh$")
_GEOMETRIC = re.compile(r"box|point|coord|rect|region|locat|pos|cent|answer|坐标|位置|框")
_LABELS = ("label", "name", "object", "class", "category", "ref", "description", "text", "标签", "名称", "类别", "物体")
_CORNERS = {
    **dict.fromkeys(("topleft", "upperleft", "lefttop", "左上", "左上角", "左上点"), "tl"),
    **dict.fromkeys(("bottomright", "lowerright", "rightbottom", "右下", "右下角", "右下点"), "br"),
}


def key_notation(key: str, labelled: bool) -> CoordinateNotation | None:
    """The notation of a list of numbers under `key`. `labelled`: whether there is a key "label" beside it."""
    name = _plain(key)
    if name == "box2d":
        return GEMINI_BOX
    return GEMINI_POINT if name == "point" and labelled else None


def json_shapes(text: str) -> list[WrittenShape]:
    """The points and boxes of all objects in the text, in order; their start is that of the outermost object."""
    found: list[tuple[bool, WrittenShape]] = []
    for value, start, _ in json_values(text, _BRACES):
        found += _shapes(value, start)
    named = [shape for geometric, shape in found if geometric]
    return named or [shape for _, shape in found]


def _shapes(value: Any, start: int) -> Iterator[tuple[bool, WrittenShape]]:
    """(whether its key names a box or a point, shape), depth first. Iterative, since the depth is not limited."""
    waiting: list[tuple[str, Any, Mapping[str, str]]] = [("", value, {})]
    while waiting:
        key, node, names = waiting.pop()
        labelled, label = "label" in names, next(iter(names.values()), "")
        if isinstance(node, KeyValuePairs):
            whole = _of_object(node, start)
            if whole:
                yield True, replace(whole, label=next(iter(_names_of(node).values()), ""))
                continue
            own = _names_of(node)
            kept = [(name, inner, own) for name, inner in node if not _OTHER.search(_plain(name))]
            waiting.extend(reversed(kept))
        elif isinstance(node, list):
            shape = _of_list(key, node, start, labelled)
            if shape:
                yield bool(_GEOMETRIC.search(_plain(key))), replace(shape, label=label)
            else:
                waiting.extend((key, inner, names) for inner in reversed(node))
        elif isinstance(node, str) and _RUN.fullmatch(node[:400]):
            shape = shape_of(start, node, key_notation(key, labelled))
            yield bool(_GEOMETRIC.search(_plain(key))), replace(shape, label=label)


def _names_of(node: KeyValuePairs) -> dict[str, str]:
    """The texts in an object that name what its numbers show, by key."""
    return {
        name: value[:200]
        for key, value in node
        if (name := _plain(key)) in _LABELS and isinstance(value, str) and value
    }


def _of_list(key: str, items: list[Any], start: int, labelled: bool) -> WrittenShape | None:
    """A list of numbers, or of two points, as a shape; None for a list of anything else."""
    notation = key_notation(key, labelled)
    if len(items) > 1 and all(map(_is_coordinate, items)):
        shape = shape_of(start, ",".join(map(str, items[:9])), notation)
        order = ORDERS.get(_plain(key).removeprefix("bbox").removeprefix("box"))
        return in_order(order, shape) if order else shape
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2 and all(map(_is_coordinate, item))]
    if len(pairs) == len(items) == 2 and not _plain(key).endswith("points"):
        return shape_of(start, ",".join(str(number) for pair in pairs for number in pair), notation)
    return None


def _of_object(pairs: KeyValuePairs, start: int) -> WrittenShape | None:
    """Named coordinates, or two opposite corners; None if the object has neither."""
    given: dict[str, Any] = {_plain(name): value for name, value in pairs}
    corners = {_CORNERS[name]: _pair(value) for name, value in given.items() if name in _CORNERS}
    if corners.get("tl") and corners.get("br"):
        return shape_of(start, ",".join(map(str, (*corners["tl"], *corners["br"]))))  # type: ignore[misc]
    named = {name: str(value) for name, value in given.items() if _is_coordinate(value)}
    return from_names(named, start)


def _pair(value: Any) -> tuple[Any, Any] | None:
    """The x and y of a corner: [x, y] or {"x": ..., "y": ...}."""
    if isinstance(value, KeyValuePairs):
        inner: Mapping[str, Any] = {_plain(name): item for name, item in value}
        value = [inner.get("x"), inner.get("y")]
    if isinstance(value, list) and len(value) == 2 and all(map(_is_coordinate, value)):
        return value[0], value[1]
    return None


def _is_coordinate(value: Any) -> bool:
    """A number, or a short text that is one."""
    return is_number(value) or (isinstance(value, str) and bool(_NUMBER.fullmatch(value[:40])))


def _plain(key: str) -> str:
    return re.sub(r"[\W_]+", "", key[:60]).lower()
