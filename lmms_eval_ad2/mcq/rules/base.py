"""Interface of a rule: a function from a RuleCase to distractors.

Each distractor must contradict the annotated answer, or another annotation of the same key frame. A statement that may
be true in addition to the answer is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion
from lmms_eval_ad2.mcq.rules.facts import FrameFacts

DOMAIN, LOGIC, SENSOR, OVERSIGHT, READING = ERRORS
# Short names of the categories in the YAML files.
SHORT = {"domain": DOMAIN, "logic": LOGIC, "sensor": SENSOR, "oversight": OVERSIGHT, "reading": READING}


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One question with the facts of its key frame. `match`: the match of the rule's pattern in the question."""

    question: OpenQuestion
    facts: FrameFacts
    match: re.Match[str]

    @property
    def answer(self) -> str:
        return self.question.answer

    def group(self, name: str) -> str:
        """The named group of `match`; "" if the pattern has no such group."""
        return self.match.groupdict().get(name) or ""


Rule = Callable[[RuleCase], Iterable[Distractor]]


def in_form(text: str, answer: str) -> str:
    """`text` with capital and full stop as in the answer, so that its form does not reveal it."""
    text = text.strip().rstrip(".")
    if answer[:1].isupper():
        text = text[:1].upper() + text[1:]
    elif answer[:1].islower() and not text[:2].isupper():
        text = text[:1].lower() + text[1:]
    return text + "." if answer.rstrip().endswith(".") else text


def replaced(text: str, found: re.Match[str], new: str) -> str:
    """`text` with the match `found` replaced by `new`; an initial capital is kept, except for abbreviations."""
    if found[0][:1].isupper() and not found[0].isupper():
        new = new[:1].upper() + new[1:]
    return text[: found.start()] + new + text[found.end() :]


def made(rows: Iterable[tuple[str, str, str]], answer: str) -> Iterator[Distractor]:
    """Distractors from rows of (category, text, reason), in the form of the answer."""
    for category, text, reason in rows:
        yield Distractor(in_form(text, answer), category, reason)
