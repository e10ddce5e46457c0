"""Rankings and sequences of objects: other orders, and steps with a wrong state or action."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lmms_eval_ad2.data.drivelm_text import read_tags
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.actions import ActionMention, mentions, say, wrong_keys
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, replaced
from lmms_eval_ad2.mcq.rules.facts import KeyObject

TAG = re.compile(r"<[^<>]{3,80}>")
_STATES = re.compile(r"(?<=\bis )(going ahead|turning left|turning right|stationary|a traffic sign)\b(?=[,.;])")
_OTHER_STATE = {
    "going ahead": ((SENSOR, "turning left"), (DOMAIN, "parked"), (SENSOR, "turning right")),
    "turning left": ((SENSOR, "turning right"), (DOMAIN, "parked"), (SENSOR, "going ahead")),
    "turning right": ((SENSOR, "turning left"), (DOMAIN, "parked"), (SENSOR, "going ahead")),
    "stationary": ((SENSOR, "going ahead"), (DOMAIN, "backing up"), (SENSOR, "turning left")),
    "a traffic sign": ((DOMAIN, "a road barrier"), (SENSOR, "a parked vehicle"), (DOMAIN, "a pedestrian")),
}


def reordered(text: str, order: Sequence[int]) -> str:
    """`text` with its tags rearranged: the i-th tag becomes the one at position order[i]."""
    tags = TAG.findall(text)
    positions = iter(order)
    return TAG.sub(lambda _: tags[next(positions)], text)


def priority(case: RuleCase) -> Iterator[Distractor]:
    """Other rankings of the same objects."""
    tags = TAG.findall(case.answer)
    if len(tags) < 2 or len(set(tags)) != len(tags):
        return
    for category, order, why in _orders(case, tags):
        if order != list(range(len(tags))):
            yield Distractor(reordered(case.answer, order), category, why)


def _orders(case: RuleCase, tags: list[str]) -> Iterator[tuple[str, list[int], str]]:
    places = list(range(len(tags)))
    objects = [case.facts.objects.get(tag) for tag in tags]
    yield READING, places[::-1], "Ascending order is given where descending order is asked for."
    yield OVERSIGHT, [1, 0, *places[2:]], "The first two are exchanged."
    yield OVERSIGHT, [*places[1:], 0], "The most important object is put last."
    yield OVERSIGHT, [*places[:-2], places[-1], places[-2]], "The last two are exchanged."
    yield LOGIC, sorted(places, key=lambda i: _number(tags[i])), "The numbers in the names are taken for a ranking."
    yield LOGIC, [places[-1], *places[:-1]], "The least important object is put first."
    yield DOMAIN, sorted(places, key=lambda i: _sign(objects[i])), "Vehicles are put before signals by rule."
    yield DOMAIN, sorted(places, key=lambda i: not _sign(objects[i])), "Signals are put before vehicles by rule."
    yield SENSOR, sorted(places, key=lambda i: -_area(objects[i])), "The size in the image is taken for importance."
    yield SENSOR, sorted(places, key=lambda i: _camera_first(tags[i])), "Objects in front are put first."
    yield SENSOR, sorted(places, key=lambda i: _area(objects[i])), "Small objects are taken for near ones."
    yield READING, [*places[-2:][::-1], *places[:-2]], "The order is read from the end."


def _number(tag: str) -> int:
    digits = re.search(r"\d{1,6}", tag)
    return int(digits[0]) if digits else 0


def _sign(key_object: KeyObject | None) -> bool:
    return bool(key_object and key_object.is_sign)


def _area(key_object: KeyObject | None) -> float:
    """Area of the box in square pixels; 0 without a box."""
    if not key_object or not key_object.box:
        return 0.0
    left, top, right, bottom = key_object.box
    return (right - left) * (bottom - top)


def _camera_first(tag: str) -> int:
    found = read_tags(tag)
    return 0 if found and "FRONT" in found[0].camera else 1


def notice(case: RuleCase) -> Iterator[Distractor]:
    """Objects to notice first, second and third: another order, state or action."""
    tags = TAG.findall(case.answer)
    if len(tags) > 1 and len(set(tags)) == len(tags):
        places = list(range(len(tags)))
        yield Distractor(reordered(case.answer, places[::-1]), READING, "The order is read from the end.")
        yield Distractor(reordered(case.answer, [*places[1:], 0]), OVERSIGHT, "The first object is put last.")
        yield Distractor(reordered(case.answer, [1, 0, *places[2:]]), OVERSIGHT, "The first two are exchanged.")
        yield Distractor(reordered(case.answer, [places[-1], *places[:-1]]), READING, "The last object is put first.")
    for found in _STATES.finditer(case.answer):
        for category, state in _OTHER_STATE[found[1]]:
            why = f"The state of this object is annotated as {found[1]}."
            yield Distractor(replaced(case.answer, found, state), category, why)
    for mention in _advised_actions(case.answer):
        for key in wrong_keys(case, mention.key)[:3]:
            why = "The action does not follow from the state of the object."
            yield Distractor(replaced(case.answer, mention.found, say([key])), LOGIC, why)


def _advised_actions(text: str) -> list[ActionMention]:
    """Actions that follow "should"; this excludes "stationary" as a state."""
    return [m for m in mentions(text) if text[: m.found.start()].rstrip().endswith("should")]
