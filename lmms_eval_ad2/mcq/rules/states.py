"""States of groups of objects, "Two cars are moving, and one is parked.": other states, other numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form, replaced
from lmms_eval_ad2.mcq.rules.surroundings import WRONG_NUMBERS, plural, singular

_NUMBER = re.compile(rf"\b({'|'.join(WRONG_NUMBERS)})\b(?= (?:of the |[a-z]{{3,}}))", re.IGNORECASE)
_STATE = re.compile(r"\b(moving|parked|stopped|standing)\b", re.IGNORECASE)
_OTHER_STATE = {
    "moving": ((DOMAIN, "parked"), (SENSOR, "stopped in traffic")),
    "parked": ((SENSOR, "moving"), (DOMAIN, "stopped in traffic")),
    "stopped": ((SENSOR, "moving"), (DOMAIN, "parked")),
    "standing": ((SENSOR, "moving"), (DOMAIN, "lying")),
}
_WALKERS = re.compile(r"\b(?:pedestrian|person|people|animal)", re.IGNORECASE)
_OF_WALKERS = {"moving": ((DOMAIN, "standing"), (SENSOR, "sitting")),
               "standing": ((SENSOR, "moving"), (DOMAIN, "lying"))}  # fmt: skip
_GROUNDS = (
    (LOGIC, ", because the road is clear", "A clear road does not tell the state."),
    (LOGIC, ", as the ego car is moving", "The ego car's motion does not tell the state of others."),
    (LOGIC, ", since nothing is near", "The ground does not carry the conclusion."),
    (SENSOR, ", judging by the shadows", "The image is misread."),
    (DOMAIN, ", as the rules demand", "No such rule decides this."),
    (OVERSIGHT, ", by the distance covered", "The distance covered is computed wrongly."),
    (READING, ", like the ego car", "The question is about the objects, not about the ego car."),
)
_KIND_ASKED = re.compile(r"status of the (?P<kind>[a-z ]{3,30}?) that (?:is|are)", re.IGNORECASE)


def states(case: RuleCase) -> Iterator[Distractor]:
    """States of a group of objects: other states, other numbers."""
    answer = case.answer
    found_states = list(_STATE.finditer(answer))
    if not found_states or not re.search(r"\b(?:is|are)\b", answer):  # one-word answers of NuScenes-QA: see closed.yaml
        return
    swapped = _all_swapped(answer)
    wrong = [swapped] if swapped else []
    for text in wrong:
        yield Distractor(text, SENSOR, f"Motion is misjudged from a single image; annotated is: {answer}")
    for found in found_states:
        for category, state in _others(answer, found[1]):
            text = replaced(answer, found, state)
            if len(found_states) == 1:
                wrong.append(text)
            # Equal states in both parts, "one is parked, and one is parked", would be clumsy.
            if len(found_states) == 1 or state == "stopped in traffic":
                yield Distractor(text, category, f"Annotated is: {answer}")
    for number in _NUMBER.finditer(answer):
        yield from _miscounted(answer, number)
    yield from _groups(case)
    for category, ground, why in _GROUNDS:
        for text in dict.fromkeys(wrong):
            yield Distractor(in_form(text.rstrip(". ") + ground, answer), category, f"{why} Annotated is: {answer}")


def _all_swapped(answer: str) -> str:
    """All states replaced by their opposites; in mixed groups the states of the two parts are swapped.

    "" if the result has the same meaning.
    """
    found = {m[1].lower() for m in _STATE.finditer(answer)}
    if len(found) > 1:
        if re.match(r"One of the .+\bone is\b|.*\bthe other\b", answer, re.IGNORECASE):
            return ""  # two parts of a pair: swapped, the meaning is the same
        a, b = sorted(found)[:2]
        swap = {a: b, b: a}
        return _STATE.sub(lambda m: swap.get(m[1].lower(), m[1]), answer)
    return _STATE.sub(lambda m: _others(answer, m[1])[0][1], answer)


def _others(answer: str, state: str) -> tuple[tuple[str, str], ...]:
    """Pairs (category, state) of states that exclude this one; pedestrians have their own: they are not parked."""
    low = state.lower()
    return _OF_WALKERS.get(low, _OTHER_STATE[low]) if _WALKERS.search(answer) else _OTHER_STATE[low]


def _miscounted(answer: str, number: re.Match[str]) -> Iterator[Distractor]:
    # "One of the cars is moving, and one is parked": a part of a pair cannot become two.
    if answer[number.end() :].lower().startswith(" of the") or "the other" in answer:
        return
    kind = re.match(r" ([a-z]+(?: vehicle| cone)?s?)( is| are)\b", answer[number.end() :])
    if not kind or kind[1] in ("is", "are"):
        return
    for other in WRONG_NUMBERS[number[1].lower()]:
        noun = plural(singular(kind[1]), other)
        verb = " is" if other == "one" else " are"
        tail = answer[number.end() + kind.end() :]
        new = other.capitalize() if number[1][:1].isupper() else other
        yield Distractor(
            f"{answer[: number.start()]}{new} {noun}{verb}{tail}", OVERSIGHT, f"Miscounted; annotated is: {answer}"
        )


def _groups(case: RuleCase) -> Iterator[Distractor]:
    asked = _KIND_ASKED.search(case.question.text)
    if not asked:
        return
    kind = singular(asked["kind"].lower())
    kinds, answer_states = plural(kind, "two"), {m[1].lower() for m in _STATE.finditer(case.answer)}
    if len(answer_states) > 1:
        for state, category in zip(("moving", "parked", "stopped"), (LOGIC, DOMAIN, SENSOR), strict=True):
            text = f"All of the {kinds} are {state}."
            yield Distractor(text, category, f"One of them is taken for all. Annotated is: {case.answer}")
    elif not re.match(r"(?:one|the)\b", case.answer, re.IGNORECASE):
        here = next(iter(answer_states))
        other = _others(case.answer, here)[0][1]
        text = f"One of the {kinds} is {other}, and the rest are {here}."
        yield Distractor(text, OVERSIGHT, f"One is assigned to the wrong group. Annotated is: {case.answer}")
        yield Distractor(f"No {kinds} are {here}.", LOGIC, f"What is annotated is denied: {case.answer}")
        yield Distractor(f"Only the ego car is {here}.", READING, f"Another car is looked at. Annotated: {case.answer}")
    named = next((m[1].lower() for m in _NUMBER.finditer(case.answer)), "one")
    for number in WRONG_NUMBERS[named]:
        noun = plural(kind, number)
        text = f"There {'is' if number == 'one' else 'are'} {number} {noun} there."
        yield Distractor(text, READING, "A number is given where the status is asked, and it is wrong.")
