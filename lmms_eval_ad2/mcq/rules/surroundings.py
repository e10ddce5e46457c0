"""Surroundings of the ego car: lists of objects in a direction, descriptions of the scene."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase
from lmms_eval_ad2.mcq.rules.directions import across

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WRONG_NUMBERS = {
    "one": ("two", "three"), "two": ("three", "one"), "three": ("two", "five"), "many": ("two", "one"),
    "several": ("two", "one"), "some": ("two", "one"), "four": ("three", "five"), "five": ("four", "three"),
    "six": ("five", "seven"), "seven": ("six", "eight"), "eight": ("seven", "six"),
}  # fmt: skip
CONFUSED = {  # class -> (similar class, a domain error; class of similar outline, a sensor error)
    "car": ("bus", "trailer"), "truck": ("bus", "trailer"), "bus": ("truck", "trailer"), "trailer": ("truck", "bus"),
    "construction vehicle": ("truck", "bus"), "barrier": ("traffic cone", "trailer"),
    "traffic cone": ("barrier", "pedestrian"), "pedestrian": ("bicycle", "traffic cone"),
    "motorcycle": ("bicycle", "pedestrian"), "bicycle": ("motorcycle", "pedestrian"),
    "obstacle": ("pedestrian", "bus"),
}  # fmt: skip
_LIST = re.compile(
    r"There (?:is|are) (?P<items>.{3,300}?) "
    r"(?P<place>(?:to the|on the|at the|in front of|behind)\b[a-z ]{0,20}(?:ego (?:car|vehicle)|it))\.?",
    re.IGNORECASE,
)
_PART = re.compile(r",? and |, ")
_COUNTED = re.compile(rf"({'|'.join((*NUMBERS, 'many', 'several', 'some'))}) ([a-z ]{{3,40}})", re.IGNORECASE)

Items = list[tuple[str, str]]


def plural(kind: str, number: str) -> str:
    """The class `kind` (singular) in the grammatical number that `number` ("one", "two", "many") requires."""
    if number == "one":
        return kind
    return kind + ("es" if kind.endswith(("s", "x")) else "s")


def singular(kind: str) -> str:
    return (
        kind[:-2] if kind.endswith("buses") else kind[:-1] if kind.endswith("s") and not kind.endswith("bus") else kind
    )


def read_list(text: str) -> tuple[Items, str] | None:
    """Parse "There are two cars and one bus behind the ego car.": pairs ("two", "car"), ... and the place, or None."""
    whole = _LIST.fullmatch(text.strip())
    if not whole:
        return None
    parts = [_COUNTED.fullmatch(part.strip()) for part in _PART.split(whole["items"])]
    if not all(parts):
        return None
    return [(p[1].lower(), singular(p[2].lower())) for p in parts if p], whole["place"]


def write_list(items: Items, place: str) -> str:
    parts = [f"{number} {plural(kind, number)}" for number, kind in items]
    listed = " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    return f"There {'is' if items[0][0] == 'one' else 'are'} {listed} {place}."


def objects(case: RuleCase) -> Iterator[Distractor]:
    """The objects in one direction."""
    read = read_list(case.answer)
    if not read:
        return
    items, place = read
    for turn, (number, kind) in enumerate(items):
        for other in WRONG_NUMBERS.get(number, ()):
            text = write_list([*items[:turn], (other, kind), *items[turn + 1 :]], place)
            yield Distractor(text, OVERSIGHT, f"Miscounted: {number} {plural(kind, number)} annotated.")
        for category, other in zip((DOMAIN, SENSOR), CONFUSED.get(kind, ()), strict=False):
            if other not in {k for _, k in items}:
                text = write_list([*items[:turn], (number, other), *items[turn + 1 :]], place)
                yield Distractor(text, category, f"A {kind} is taken for a {other}.")
    yield from _numbers_exchanged(items, place)
    yield from _elsewhere(case, items, place)
    yield Distractor(
        f"There are no objects {place}.", LOGIC, "From a clear lane it is concluded that nothing is there."
    )
    yield Distractor(
        f"There are no objects {place}, because the road is clear.", LOGIC, "A clear road does not make it empty."
    )
    yield Distractor(
        f"There is nothing {place}, as nothing is coming closer.",
        LOGIC,
        "What does not come closer is there all the same.",
    )
    yield Distractor(f"There are only lane markings {place}.", READING, "Objects are asked for, not the road itself.")


def _numbers_exchanged(items: Items, place: str) -> Iterator[Distractor]:
    for i in range(len(items) - 1):
        (n, a), (m, b) = items[i], items[i + 1]
        if n != m:
            yield Distractor(
                write_list([*items[:i], (m, a), (n, b), *items[i + 2 :]], place), OVERSIGHT, "Two counts are exchanged."
            )


def _elsewhere(case: RuleCase, items: Items, place: str) -> Iterator[Distractor]:
    asked = case.group("direction").lower()
    for direction, text in case.facts.around.items():
        other = read_list(text)
        # A list of classes that all occur in the right one may pass as a careless version of it.
        if other and direction != asked and not {k for _, k in other[0]} <= {k for _, k in items}:
            category = SENSOR if direction == across(asked) else READING
            yield Distractor(
                write_list(other[0], place), category, f"This is what is to the {direction} of the ego car."
            )


_CLAUSE_ITEM = re.compile(
    rf"\b({'|'.join(NUMBERS)}|many) (moving|parked|stopped|standing)? ?"
    r"(cars?|trucks?|bus(?:es)?|trailers?|pedestrians?|barriers?|traffic cones?|motorcycles?|bicycles?"
    r"|construction vehicles?)"
    r"\b",
    re.IGNORECASE,
)


def description(case: RuleCase) -> Iterator[Distractor]:
    """A description of the scene with one count, class or state wrong."""
    answer = case.answer
    items = list(_CLAUSE_ITEM.finditer(answer))
    for item in items:
        number, state, kind = item[1].lower(), (item[2] or "").lower(), singular(item[3].lower())

        def option(n: str, s: str, k: str, item: re.Match[str] = item) -> str:
            text = f"{n} {s + ' ' if s else ''}{plural(k, n)}"
            lead = answer[: item.start()]
            if lead.lower().endswith("there is ") and n != "one":
                lead = lead[:-3] + "are "
            elif lead.lower().endswith("there are ") and n == "one":
                lead = lead[:-4] + "is "
            return lead + text + answer[item.end() :]

        for other in WRONG_NUMBERS.get(number, ()):
            yield Distractor(option(other, state, kind), OVERSIGHT, "One count is wrong.")
        for category, other in zip((DOMAIN, READING), CONFUSED.get(kind, ()), strict=False):
            if other not in {singular(i[3].lower()) for i in items}:
                yield Distractor(option(number, state, other), category, f"A {kind} is taken for a {other}.")
        if state:
            other = "parked" if state == "moving" else "moving"
            if not any((i[2] or "").lower() == other and singular(i[3].lower()) == kind for i in items):
                yield Distractor(option(number, other, kind), SENSOR, f"The {kind} is annotated as {state}.")
    if items:
        where = "around the ego car"
        yield Distractor(
            f"There is nothing but road {where}, because no one is close.", LOGIC, "Objects are annotated."
        )
        yield Distractor(f"There are only standing objects {where}, because it waits.", LOGIC, "Not what is annotated.")
        yield Distractor(f"There are no other road users {where}.", LOGIC, "Road users are annotated.")
