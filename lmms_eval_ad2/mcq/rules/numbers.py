"""Answers that are a count, such as NuScenes-QA's "3": neighbouring counts, and other counts of the frame."""

from __future__ import annotations

from collections.abc import Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form
from lmms_eval_ad2.mcq.rules.surroundings import NUMBERS

_WORDS = ("zero", *NUMBERS, "eleven", "twelve", "thirteen", "fourteen", "fifteen")


def count_of(text: str) -> int | None:
    """The count if `text` is nothing else ("3", "Three."), else None."""
    word = text.strip().rstrip(".").lower()
    if word.isascii() and word.isdigit() and len(word) < 4:
        return int(word)
    return _WORDS.index(word) if word in _WORDS else None


def counts(case: RuleCase) -> Iterator[Distractor]:
    """Other numbers, near ones first, by the kind of error that leads to them."""
    right = count_of(case.answer)
    if right is None:
        return
    given = {count_of(text) for text in case.facts.answers_to(case.question.text)} | {right}

    def option(value: int) -> str:
        as_word = not case.answer.strip().rstrip(".").isdigit() and value < len(_WORDS)
        return in_form(_WORDS[value] if as_word else str(value), case.answer)

    steps = (
        (OVERSIGHT, (1, -1, 2), "Miscounted by a little."),
        (SENSOR, (-1, -2, 1, 3), "Hidden or distant objects are missed, or parts are taken for objects."),
        (DOMAIN, (2, 1, -1), "Objects of a neighbouring class are counted too, or left out."),
        (LOGIC, (-2, 2, -1), "The count is inferred from what is usual."),
        (READING, (3, -1, 1, 2), "Objects in another direction or state are counted too."),
    )
    for text in case.facts.counts():
        value = count_of(text)
        if value is not None and value not in given:
            yield Distractor(option(value), READING, "This is the count of other things in the scene.")
    for category, offsets, why in steps:
        for offset in offsets:
            if right + offset >= 0 and right + offset not in given:
                yield Distractor(option(right + offset), category, f"{why} Annotated: {right}.")
    if right > 2 and 0 not in given:
        yield Distractor(option(0), LOGIC, "From a clear lane it is concluded that nothing is there.")
