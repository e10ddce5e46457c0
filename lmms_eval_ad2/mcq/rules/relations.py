"""Answers made of object tags: relevance of objects to each other, occlusion, relative positions, lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form
from lmms_eval_ad2.mcq.rules.directions import across, along
from lmms_eval_ad2.mcq.rules.facts import bare
from lmms_eval_ad2.mcq.rules.rankings import TAG

_EXCEPT = re.compile(r"^Except for the ego vehicle, ", re.IGNORECASE)
_EGO = "The ego vehicle"
# Answers without a tag, wrong whatever tag is annotated. Rows of (category, text, reason).
_STOCK = (
    (OVERSIGHT, "All of them", "From one object to all: more are counted than considered."),
    (OVERSIGHT, "Two pedestrians", "Miscounted: annotated is another answer."),
    (OVERSIGHT, "Three cyclists", "Miscounted: annotated is another answer."),
    (DOMAIN, "A traffic sign", "A traffic element decides nothing."),
    (DOMAIN, "Only pedestrians", "Traffic elements and vehicles matter to drivers."),
    (LOGIC, "Whatever is nearest", "Being near is not being concerned; annotated is another answer."),
    (LOGIC, "A parked car", "What nobody drives decides nothing."),
    (SENSOR, "A pedestrian", "A shadow is taken for a pedestrian; annotated is another answer."),
    (SENSOR, "A cyclist", "An outline is misread; annotated is another answer."),
    (READING, "The driver of a train", "Another road is looked at."),
)
# If "None" is annotated, any object is wrong; short texts, as the answer is short.
_STOCK_FOR_NONE = (
    (OVERSIGHT, "All", "From none to all: more are counted than there are."),
    (OVERSIGHT, "Both", "Miscounted: there is none."),
    (OVERSIGHT, "Two", "Miscounted: there is none."),
    (DOMAIN, "A sign", "A traffic element decides nothing."),
    (DOMAIN, "Buses", "No class of vehicle has a special duty here."),
    (LOGIC, "All cars", "That cars might does not mean that any does."),
    (LOGIC, "Any", "That any might does not mean that one does."),
    (SENSOR, "A bus", "An outline is misread."),
    (SENSOR, "A cyclist", "A shadow is taken for a cyclist."),
    (READING, "Itself", "No object is relevant to its own decision."),
)


def relevance(case: RuleCase) -> Iterator[Distractor]:
    """Which object considers another: only objects that are not annotated for it in any record of the frame."""
    asked = TAG.findall(case.question.text)
    given = _given(case)
    excepted = bool(_EXCEPT.match(case.question.text))

    def not_annotated(text: str) -> bool:
        return bare(text) not in given

    rows: list[tuple[str, str, str]] = []
    if not_annotated("None"):
        rows.append((LOGIC, "None", "That no one reacted yet does not mean that no one considers it."))
        rows.append((SENSOR, "None", "The object that does is overlooked."))
    if excepted:
        rows.append((READING, _EGO, "The question leaves the ego vehicle out."))
    elif not_annotated(_EGO):
        rows.append((DOMAIN, _EGO, "Not every object matters most to the ego vehicle; annotated is another answer."))
        rows.append((READING, _EGO, "The question is read as one about the ego vehicle."))
    for tag in asked:
        rows.append((LOGIC, tag, "No object is relevant to its own decision."))
        rows.append((READING, tag, "The object in question is named instead of the one that considers it."))
    for other in case.facts.others(case.question.text):
        if other.is_sign:
            rows.append((DOMAIN, other.text, "A traffic element decides nothing."))
        elif not_annotated(other.text):
            rows.append((SENSOR, other.text, "Another object is taken for the one that is annotated."))
            rows.append((OVERSIGHT, other.text, "The distances between the objects are computed wrongly."))
    rows += _STOCK_FOR_NONE if bare(case.answer) == "none" else _STOCK
    for category, text, why in rows:
        yield Distractor(in_form(text, case.answer), category, f"{why} Annotated: {case.answer}")


def _given(case: RuleCase) -> set[str]:
    """The answers to this question with and without "Except for the ego vehicle": all of them may be right."""
    plain = _EXCEPT.sub("", case.question.text)
    found: set[str] = set()
    for record in case.question.scene:
        if bare(_EXCEPT.sub("", record.question.get("en"))) == bare(plain):
            found.add(bare(record.answer.get("en")))
    return found | {bare(case.answer)}


_NOTHING_HIDDEN = (
    (LOGIC, "None, yes, none", "What is not there is concluded to have an effect."),
    (LOGIC, "All, no, none", "From one object in the way to a blocked view of all."),
    (SENSOR, "A bus, no, none", "A shadow is taken for a hidden bus."),
    (SENSOR, "Car, no, none", "A shadow is taken for a hidden car."),
    (OVERSIGHT, "Van, no, none", "The line of sight is computed wrongly: no hidden van is annotated."),
    (OVERSIGHT, "A car, no, none", "The line of sight is computed wrongly: no hidden car is annotated."),
    (READING, "Ego, no, none", "The ego vehicle is named, which sees the scene."),
    (READING, "Itself, no, none", "The object that hides is named, where the hidden one is asked."),
    (DOMAIN, "Signs, no, none", "Signs are taken for hidden because they need not be heeded here."),
    (DOMAIN, "Bus, no, none", "A bus is taken to be there, as on any road."),
)


def occlusion(case: RuleCase) -> Iterator[Distractor]:
    """Answers such as "None, no, none": occluded object, whether it affects the ego vehicle, dangerous action."""
    asked = TAG.findall(case.question.text)
    truth = set(TAG.findall(case.answer))
    others = [other.text for other in case.facts.others(case.question.text) if other.text not in truth]
    dangers = ("turn left", "accelerate", "back up", "turn right")
    rows: list[tuple[str, str, str]] = []
    if not truth:
        rows += _NOTHING_HIDDEN
    for turn, tag in enumerate(others):
        rows.append((SENSOR, f"{tag}, no, none", "An object that is in plain sight is taken for hidden."))
        rows.append((OVERSIGHT, f"{tag}, yes, {dangers[turn % 4]}", "The line of sight is computed wrongly."))
        rows.append((DOMAIN, f"{tag}, yes, {dangers[(turn + 1) % 4]}", "A standing rule is taken for a danger."))
    for tag in asked:
        rows.append((READING, f"{tag}, no, none", "The object that hides is named, where the hidden one is asked."))
        rows.append((READING, f"{tag}, yes, {dangers[2]}", "The object that hides is named."))
    head = next(iter(truth), "None")
    for action in dangers[:3]:
        rows.append((LOGIC, f"{head}, yes, {action}", "That it affects the ego vehicle contradicts the annotation."))
    rows.append((SENSOR, "A pedestrian, yes, turn right", "A shadow is taken for a hidden pedestrian."))
    rows.append((OVERSIGHT, "A pedestrian, yes, back up", "The line of sight is computed wrongly."))
    if truth:
        rows.append((SENSOR, "None, no, none", "The hidden object is missed."))
    for category, text, why in rows:
        yield Distractor(in_form(text, case.answer), category, f"{why} Annotated: {case.answer}")


_GROUNDS = (
    (LOGIC, ", because all of them move", "Motion does not tell positions, and the positions are wrong."),
    (LOGIC, ", as the ego vehicle is nearest", "The ground does not carry the conclusion."),
    (DOMAIN, ", as vehicles must keep right", "The rule does not tell positions, and the positions are wrong."),
    (SENSOR, ", judging by their size", "Size is misread, and the positions are wrong."),
    (OVERSIGHT, ", at 50 m distance", "The distance is computed wrongly, and the positions too."),
    (READING, ", seen from the other lane", "Another point of view is taken, and the positions are wrong."),
)


def positions(case: RuleCase) -> Iterator[Distractor]:
    """Relative positions of key objects: mirrored, reversed, or with the two objects exchanged."""
    answer = case.answer
    wrong: list[str] = []
    if mirrored := across(answer):
        wrong.append(mirrored)
        yield Distractor(mirrored, SENSOR, "Left and right are swapped.")
    if turned := along(answer):
        wrong.append(turned)
        yield Distractor(turned, SENSOR, "Front and back are swapped.")
        yield Distractor(turned, READING, "Positions are given as seen from the other end.")
    ends = _ends_exchanged(answer)
    if ends:
        wrong.append(ends)
        yield Distractor(ends, OVERSIGHT, "The two objects of each relation are exchanged.")
        yield Distractor(ends, LOGIC, "From one order the reverse is concluded.")
    for text in [w for w in wrong if len(w) < 200]:
        for category, ground, why in _GROUNDS:
            yield Distractor(in_form(text.rstrip(". ") + ground, answer), category, why)
    both = across(turned) if turned else ""
    if both:
        yield Distractor(both, READING, "Positions are given as an oncoming driver sees them.")
        yield Distractor(both, DOMAIN, "The directions of traffic are confused.")
    for found in re.finditer(r"\b(?:front|back) (?:left|right)\b", answer):
        for new in (across(found[0]), along(found[0])):
            text = answer[: found.start()] + new + answer[found.end() :]
            yield Distractor(text, SENSOR, f"One position is misread; annotated is: {found[0]}.")


def _ends_exchanged(text: str) -> str:
    """Each "<a> is behind <b>" as "<b> is behind <a>"; "" if there is none."""
    relation = re.compile(r"(<[^<>]{3,80}>)( is [a-z ]{3,30} )(<[^<>]{3,80}>)")
    return relation.sub(r"\3\2\1", text) if relation.search(text) else ""


_LANE = re.compile(r"\b(ego|left|right|oncoming) lane\b")
_LANES = {"ego": ("left", "oncoming", "right"), "left": ("right", "ego"), "right": ("left", "ego"),
          "oncoming": ("ego", "right")}  # fmt: skip


def lanes(case: RuleCase) -> Iterator[Distractor]:
    """The lanes of the key objects."""
    answer = case.answer
    found = list(_LANE.finditer(answer))
    wrong = []
    for item in found:
        for other, category in zip(_LANES[item[1]], (SENSOR, DOMAIN, OVERSIGHT), strict=False):
            text = answer[: item.start(1)] + other + answer[item.end(1) :]
            wrong.append(text)
            yield Distractor(text, category, f"Annotated is the {item[0]}.")
    if len(found) > 1 and len({item[1] for item in found}) > 1:
        names = [item[1] for item in found]
        turn = iter([*names[1:], names[0]])
        yield Distractor(_LANE.sub(lambda _: f"{next(turn)} lane", answer), OVERSIGHT, "The lanes are exchanged.")
    for text in wrong:
        for category, ground, why in (
            (LOGIC, ", because it keeps its speed", "Speed does not tell the lane."),
            (READING, ", like the vehicle behind it", "Another vehicle is looked at."),
            (DOMAIN, ", as the rules demand", "No such rule decides this."),
        ):
            yield Distractor(in_form(text.rstrip(". ") + ground, answer), category, f"{why} Annotated is: {answer}")
