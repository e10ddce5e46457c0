"""Traffic elements of the front view, a list of (class, status, x1, y1, x2, y2): lists with one error.

Boxes are pixels of the front image, x to the right, y down; (x1, y1) is the top left corner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, replaced

_NUMBER = r"(-?\d{1,6}(?:\.\d{1,6})?)"
_ELEMENT = re.compile(rf"\(([a-z ]{{3,30}}), ([a-z ]{{2,30}}), {_NUMBER}, {_NUMBER}, {_NUMBER}, {_NUMBER}\)")
_STATUS = {"green": "red", "red": "green", "yellow": "green", "go straight": "turn left",
           "turn right": "turn left", "turn left": "turn right", "no entry": "no parking"}  # fmt: skip
_COUNT = re.compile(r"\b(is one|are (?:two|three|four|many)) traffic elements?\b")
WIDTH, HEIGHT = 1600.0, 900.0  # pixels of a nuScenes image

Box = tuple[float, float, float, float]
Named = tuple[str, str]  # class and status


def elements(case: RuleCase) -> Iterator[Distractor]:
    """The list with other boxes, other statuses, or other classes."""
    answer = case.answer
    found = list(_ELEMENT.finditer(answer))
    if not found:
        return
    moves: tuple[tuple[str, Callable[[Box], Box], str], ...] = (
        (OVERSIGHT, lambda b: (b[1], b[0], b[3], b[2]), "x and y are exchanged."),
        (OVERSIGHT, lambda b: (b[0] / 2, b[1] / 2, b[2] / 2, b[3] / 2), "Boxes of an image of half the size."),
        (SENSOR, lambda b: (WIDTH - b[2], b[1], WIDTH - b[0], b[3]), "The image is read mirrored."),
        (READING, lambda b: ((b[0] + b[2]) / 2, (b[1] + b[3]) / 2, b[2] - b[0], b[3] - b[1]),
         "Centre, width and height are given where two corners are asked."),
        (READING, lambda b: (b[0], b[1], b[2] - b[0], b[3] - b[1]), "A corner and the size are given."),
        (OVERSIGHT, lambda b: (b[0] + 150, b[1], b[2] + 150, b[3]), "All boxes are shifted by 150 pixels."),
        (SENSOR, lambda b: (b[0], HEIGHT - b[3], b[2], HEIGHT - b[1]), "The image is read upside down."),
        (READING, lambda b: (b[2], b[3], b[0], b[1]), "The two corners are exchanged."),
    )  # fmt: skip
    for category, move, why in moves:
        yield Distractor(_moved(answer, move), category, why)
    names: tuple[tuple[str, Callable[[re.Match[str]], Named], str], ...] = (
        (SENSOR, _status_swapped, "The colours of the lights are misread."),
        (DOMAIN, lambda m: (_other_class(m[1]), m[2]), "Traffic lights and signs are confused."),
        (LOGIC, lambda m: (m[1], found[0][2] if found[0][2] != m[2] else _STATUS.get(m[2], m[2])),
         "What holds for one element is taken to hold for all."),
        (DOMAIN, lambda m: (m[1], "flashing"), "No element is annotated as flashing."),
        (LOGIC, lambda m: (m[1], "switched off"), "From still traffic it is concluded that the signals are off."),
        (DOMAIN, lambda m: ("road barrier", m[2]), "Signals and barriers are confused."),
        (LOGIC, lambda m: (m[1], "broken"), "The ground does not carry the conclusion."),
    )  # fmt: skip
    for category, swap, why in names:
        yield Distractor(_renamed(answer, swap), category, why)
    if count := _COUNT.search(answer):
        other = "are three traffic elements" if len(found) != 3 else "are seven traffic elements"
        text = replaced(answer, count, other).replace("this traffic element is", "these traffic elements is")
        yield Distractor(text, OVERSIGHT, "The number does not fit the list.")


def _status_swapped(found: re.Match[str]) -> tuple[str, str]:
    """Class and the opposite status; an unknown status is kept, since any other may be the true one."""
    return found[1], _STATUS.get(found[2], found[2])


def _other_class(name: str) -> str:
    return "road sign" if name == "traffic light" else "traffic light"


def _box(found: re.Match[str]) -> Box:
    return float(found[3]), float(found[4]), float(found[5]), float(found[6])


def _written(name: str, status: str, box: Box) -> str:
    return f"({name}, {status}, {', '.join(str(round(v, 2)) for v in box)})"


def _renamed(answer: str, name: Callable[[re.Match[str]], Named]) -> str:
    return _ELEMENT.sub(lambda m: _written(*name(m), _box(m)), answer)


def _moved(answer: str, move: Callable[[Box], Box]) -> str:
    return _ELEMENT.sub(lambda m: _written(m[1], m[2], move(_box(m))), answer)
