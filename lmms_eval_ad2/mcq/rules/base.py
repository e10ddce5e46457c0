"""What a rule is given and what it hands back.

A rule is a function from a Case to distractors. Each of them must contradict the annotated answer, or another
annotation of the same key frame; what may be true beside the answer is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion
from lmms_eval_ad2.mcq.rules.facts import FrameFacts

DOMAIN, LOGIC, SENSOR, OVERSIGHT, READING = ERRORS
# The short names that vocabulary.yaml uses.
SHORT = {"domain": DOMAIN, "logic": LOGIC, "sensor": SENSOR, "oversight": OVERSIGHT, "reading": READING}


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One question with what is known of its key frame. `match`: the question's pattern, matched."""

    question: OpenQuestion
    facts: FrameFacts
    match: re.Match[str]

    @property
    def answer(self) -> str:
        return self.question.answer

    def asked(self, group: str) -> str:
        """The words of the question that the pattern calls `group`; "" where it has no such group."""
        return self.match.groupdict().get(group) or ""


Rule = Callable[[RuleCase], Iterable[Distractor]]


def in_form(text: str, answer: str) -> str:
    """`text` with the answer's capital and full stop, so that form does not tell them apart."""
    text = text.strip().rstrip(".")
    if answer[:1].isupper():
        text = text[:1].upper() + text[1:]
    elif answer[:1].islower() and not text[:2].isupper():
        text = text[:1].lower() + text[1:]
    return text + "." if answer.rstrip().endswith(".") else text


def replaced(text: str, found: re.Match[str], new: str) -> str:
    """`text` with the words that `found` stands for exchanged; a capital there is kept, an abbreviation's aside."""
    if found[0][:1].isupper() and not found[0].isupper():
        new = new[:1].upper() + new[1:]
    return text[: found.start()] + new + text[found.end() :]


def made(rows: Iterable[tuple[str, str, str]], answer: str) -> Iterator[Distractor]:
    """Rows of (category, text, reason) as distractors in the answer's form."""
    for category, text, reason in rows:
        yield Distractor(in_form(text, answer), category, reason)
