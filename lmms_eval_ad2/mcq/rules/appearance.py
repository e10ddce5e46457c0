"""Appearance and importance of objects: other colours, classes, directions, descriptions of other objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form, replaced
from lmms_eval_ad2.mcq.rules.directions import across, along
from lmms_eval_ad2.mcq.rules.rankings import TAG

# Colours that cannot be confused, so that the wrong one is certainly wrong.
FAR = {
    "white": ("black", "red", "blue"), "black": ("white", "yellow", "red"), "gray": ("red", "yellow", "green"),
    "grey": ("red", "yellow", "green"), "silver": ("red", "green", "yellow"), "red": ("blue", "white", "green"),
    "blue": ("red", "white", "yellow"), "green": ("red", "white", "blue"), "yellow": ("blue", "black", "green"),
    "brown": ("white", "blue", "green"), "golden": ("blue", "black", "green"), "orange": ("blue", "white", "black"),
    "champagne-colored": ("black", "blue", "green"), "purple": ("white", "yellow", "green"),
}  # fmt: skip
LIGHT = {"red": ("green", "yellow"), "green": ("red", "yellow"), "yellow": ("green", "red")}
OTHER_CLASS = {
    "sedan": ("truck", "bus", "van"), "suv": ("truck", "bus", "motorcycle"), "car": ("truck", "bus", "motorcycle"),
    "truck": ("bus", "sedan", "trailer"), "van": ("bus", "sedan", "trailer"), "bus": ("truck", "sedan", "trailer"),
    "motorcycle": ("bicycle", "sedan", "scooter"), "bicycle": ("motorcycle", "scooter", "car"),
    "trailer": ("bus", "sedan", "truck"), "child": ("cyclist", "dog", "traffic cone"),
    "road worker": ("cyclist", "traffic cone", "motorcyclist"),
    "pedestrian": ("cyclist", "traffic cone", "motorcyclist"),
    "cyclist": ("pedestrian", "motorcyclist", "car"),
}  # fmt: skip
SIGNS = ("red light", "green light", "yellow light", "stop sign", "no entry", "speed limit sign")
_COLOR = re.compile(rf"\b({'|'.join(FAR)})\b(?! light)", re.IGNORECASE)
_LIGHT = re.compile(r"\b(red|green|yellow)(?= light\b)", re.IGNORECASE)
_CLASS = re.compile(rf"\b({'|'.join(OTHER_CLASS)})\b", re.IGNORECASE)
_ITEM = re.compile(r"\b(an?) ((?:[\w-]+ ){0,3}[\w-]+) (to the [a-z ]{4,11} of the ego (?:vehicle|car))", re.IGNORECASE)


def appearance(case: RuleCase) -> Iterator[Distractor]:
    """The visual description of one object."""
    answer = case.answer
    for key_object in case.facts.others(case.question.text):
        text = key_object.appearance
        if text and text.lower().rstrip(".") != answer.lower().rstrip(".") and _exclusive(text, answer):
            yield Distractor(in_form(text, answer), READING, f"This is what {key_object.text} looks like.")
    if answer.lower().rstrip(".") in SIGNS:
        yield from _sign(answer)
        return
    for new, why, category in _recolored(answer):
        yield Distractor(new, category, why)
    kind = _CLASS.search(answer)
    for turn, other in enumerate(OTHER_CLASS[kind[1].lower()] if kind else ()):
        text = _without_doubled(replaced(answer, kind, other))  # type: ignore[arg-type]
        yield Distractor(text, DOMAIN, f"Annotated is: {answer} The classes are confused.")
        yield Distractor(text, (LOGIC, OVERSIGHT, READING)[turn % 3], f"The class is inferred, not seen: {answer}")
        for category, ground, why in _GROUNDS:
            yield Distractor(in_form(text.rstrip(". ") + ground, answer), category, why)


_GROUNDS = (
    (LOGIC, ", since it is in traffic", "Being in traffic does not tell the class."),
    (OVERSIGHT, ", at twice the distance", "The distance is computed wrongly, and the class is wrong."),
    (READING, ", the one behind it", "Another object is described."),
    (SENSOR, ", seen from the side", "The view is misread, and the class is wrong."),
)


def _exclusive(description: str, answer: str) -> bool:
    """Whether two descriptions exclude each other: a clearly different colour or class, or another sign."""
    mine, other = description.lower().rstrip("."), answer.lower().rstrip(".")
    if (mine in SIGNS) or (other in SIGNS):
        return mine != other
    colors, classes = (_COLOR.findall(mine), _COLOR.findall(other)), (_CLASS.findall(mine), _CLASS.findall(other))
    far = bool(colors[0] and colors[1]) and colors[0][0] in FAR.get(colors[1][0], ())
    return far or (bool(classes[0] and classes[1]) and classes[0][0] in OTHER_CLASS.get(classes[1][0], ()))


def _recolored(answer: str) -> Iterator[tuple[str, str, str]]:
    found = _COLOR.search(answer)
    for turn, color in enumerate(FAR[found[1].lower()] if found else ()):
        why = f"The colour is misread; annotated is: {answer}"
        yield replaced(answer, found, color), why, (SENSOR, SENSOR, LOGIC)[turn]  # type: ignore[arg-type]


def _without_doubled(text: str) -> str:
    """Remove a second class word: "black truck car" -> "black truck"."""
    return re.sub(rf"({_CLASS.pattern}) (?:{'|'.join(OTHER_CLASS)})\b", r"\1", text, flags=re.IGNORECASE)


def _sign(answer: str) -> Iterator[Distractor]:
    rows = (
        (SENSOR, ("red light", "green light", "yellow light", "no entry"), "The colour is misread."),
        (
            DOMAIN,
            ("no entry", "stop sign", "yellow light", "speed limit sign"),
            "Signals that look alike are confused.",
        ),
        (LOGIC, ("yellow light", "green light", "red light", "stop sign"), "Inferred from the traffic, not seen."),
        (OVERSIGHT, ("speed limit sign", "yellow light", "stop sign"), "The size is computed wrongly."),
        (READING, ("green light", "red light", "speed limit sign", "stop sign"), "A signal beside it is described."),
    )
    for category, texts, why in rows:
        for text in texts:
            if text != answer.lower().rstrip("."):
                yield Distractor(in_form(text, answer), category, f"{why} Annotated is: {answer}")


def important(case: RuleCase) -> Iterator[Distractor]:
    """The list of key objects with one error."""
    answer = case.answer
    items = list(_ITEM.finditer(answer))
    for number, item in enumerate(items):
        for place in filter(None, (across(item[3]), along(item[3]))):
            text = answer[: item.start(3)] + place + answer[item.end(3) :]
            yield Distractor(text, SENSOR, "One object is placed in a direction that its camera does not show.")
        yield from _repainted(answer, item)
        tags = TAG.findall(answer)
        if len(items) == len(tags) > 1:
            text = f"The only important object is {item[0][:1].lower()}{item[0][1:]}. Its ID is {tags[number]}."
            yield Distractor(text, LOGIC, "The others are annotated as important too.")
    for new in (along(answer), across(along(answer) or answer)):
        if new:
            yield Distractor(new, READING, "Directions are given as an oncoming driver sees them.")
    yield from _exchanged(answer, items)


def _repainted(answer: str, item: re.Match[str]) -> Iterator[Distractor]:
    def option(words: str) -> str:
        article = "an" if words[0].lower() in "aeiou" else "a"
        return f"{answer[: item.start(1)]}{article} {words}{answer[item.end(2) :]}"

    words = item[2]
    if light := _LIGHT.search(words):
        for color in LIGHT[light[1].lower()]:
            yield Distractor(option(replaced(words, light, color)), SENSOR, "The colour of the light is misread.")
    elif paint := _COLOR.search(words):
        text = option(replaced(words, paint, FAR[paint[1].lower()][0]))
        yield Distractor(text, SENSOR, f"The object is annotated as: {words}.")
    if kind := _CLASS.search(words):
        for other in OTHER_CLASS[kind[1].lower()][:2]:
            text = option(_without_doubled(replaced(words, kind, other)))
            yield Distractor(text, DOMAIN, f"The classes are confused; annotated is: {words}.")
        plural = f"three {words}s" if not words.endswith("s") else f"three {words}es"
        text = f"{answer[: item.start(1)]}{plural}{answer[item.end(2) :]}"
        yield Distractor(
            text.replace("There is three", "There are three"), OVERSIGHT, "One object is counted as three."
        )


def _exchanged(answer: str, items: list[re.Match[str]]) -> Iterator[Distractor]:
    for first, second in pairwise(items):
        if first[2] != second[2] and first[3] != second[3]:
            text = (
                answer[: first.start(3)] + second[3] + answer[first.end(3) : second.start(3)] + first[3]
                + answer[second.end(3) :]
            )  # fmt: skip
            yield Distractor(text, OVERSIGHT, "The directions of two objects are exchanged.")
