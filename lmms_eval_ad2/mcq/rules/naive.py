"""Distractors without error modelling (Table 8): answers to unrelated questions, easy to eliminate.

They are answers of another kind to other questions of the frame, and texts of a fixed list. None of them answers the
question, so none can be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.data.releases.autodrive_qa import NAIVE
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.facts import FrameFacts
from lmms_eval_ad2.mcq.rules.words import NUMBERS
from lmms_eval_ad2.mcq.wording import verdict

_STOCK = (
    "A swimming pool", "Ten in the morning", "A flock of sheep", "Forty-two", "A wooden bridge", "In the kitchen",
    "The radio is playing", "A paper boat on a lake", "The shop sells bread and cakes",
    "An aeroplane is landing on the sea", "There are two penguins and one camel to the left of the piano",
    "The farmer is painting a green door, and the cat sleeps",
)  # fmt: skip
# Kinds of answers, tried in order after verdicts and counts.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("tags", re.compile(r"<[^<>]{3,80}>")),
    ("looks", re.compile(r"\A(?:[\w-]+ ){0,3}(?:sedan|suv|truck|van|car|light|entry)\.?\Z", re.IGNORECASE)),
    ("risk", re.compile(r"(?:low|high|medium)\.?\Z", re.IGNORECASE)),
    ("list", re.compile(r"there (?:is|are)\b", re.IGNORECASE)),
    ("none", re.compile(r"no(?:ne|thing)?\b", re.IGNORECASE)),
)
_UNRELATED = {  # kind of the answer -> kinds that do not answer such a question
    "verdict": ("risk", "looks", "action"), "count": ("risk", "looks", "action"), "tags": ("risk", "looks"),
    "looks": ("risk", "action"), "risk": ("looks", "action"), "list": ("risk", "action"), "none": ("risk", "looks"),
    "action": ("risk", "looks"),
}  # fmt: skip


def shape(text: str) -> str:
    """The kind of answer: verdict, count, tags, looks, risk, list, none or action."""
    if verdict(text):
        return "verdict"
    if (word := text.strip().rstrip(".").lower()) in ("zero", *NUMBERS) or word.isdecimal():
        return "count"
    return next((name for name, pattern in _SHAPES if pattern.search(text)), "action")


def unrelated(answer: str, facts: FrameFacts) -> Iterator[Distractor]:
    """Answers of another kind from the frame, then the fixed list; texts of similar length first."""
    mine = shape(answer)
    others = (text for texts in facts.answers.values() for text in texts if text)
    fitting = [text for text in dict.fromkeys(others) if shape(text) in _UNRELATED.get(mine, ())]
    for text in sorted(fitting, key=lambda text: abs(len(text) - len(answer)))[:4]:
        yield Distractor(in_form(text, answer), NAIVE, "An answer to another question of the scene.")
    for text in sorted(_STOCK, key=lambda text: abs(len(text) - len(answer))):
        yield Distractor(in_form(text, answer), NAIVE, "Unrelated to driving.")


def in_form(text: str, answer: str) -> str:
    """`text` with capital and full stop as in the answer, so that its form does not reveal it."""
    text = text.strip().rstrip(".")
    if answer[:1].isupper():
        text = text[:1].upper() + text[1:]
    elif answer[:1].islower() and not text[:2].isupper():
        text = text[:1].lower() + text[1:]
    return text + "." if answer.rstrip().endswith(".") else text
