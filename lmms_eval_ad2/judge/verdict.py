"""Parsing of a judge's reply: the mark, or a reason for none. No number is guessed from prose.

`strict` (ours): the number n, whole or decimal, from 1 to 10, of all `[[n]]` in the reply. A reply with different
numbers ("[[5]] out of [[10]]") has no mark: which of them is the rating would be a guess. Other content of double
brackets is ignored.

`official` (CODA-LM's script, for its own prompts): the whole number after the first `Rating: [[`, else after the first
`rating is: [[`, else after the first `[[`; further numbers do not matter.
"""

from __future__ import annotations

import re
from typing import Literal

from lmms_eval_ad2.judge.base import HIGHEST, LOWEST
from lmms_eval_ad2.records import Unscored

ReplyForm = Literal["strict", "official"]
REPLY_FORMS: tuple[ReplyForm, ...] = ("strict", "official")

UNPARSED, SEVERAL, OUT_OF_RANGE, EMPTY, TRUNCATED, REFUSED = (
    "unparsed_reply", "several_ratings", "out_of_range", "empty_reply", "truncated_reply", "refused",
)  # fmt: skip

_STRICT = re.compile(r"\[\[\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*\]\]")
_OFFICIAL_LEADS = ("Rating: [[", "rating is: [[", "[[")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_SHOWN = 200


def read(reply: str, finish_reason: str | None, form: ReplyForm, rubric: str) -> float | Unscored:
    """The mark of `reply`.

    Unscored if the reply is empty, truncated, refused or unreadable, has several marks, or one that is out of range.
    """
    if finish_reason == "length":
        return Unscored(rubric, TRUNCATED, shown(reply))
    if finish_reason == "content_filter":
        return Unscored(rubric, REFUSED, shown(reply))
    text = _THOUGHT.sub("", reply)
    if not text.strip():
        return Unscored(rubric, EMPTY)
    marks = _official(text) if form == "official" else _strict(text)
    if len(marks) != 1:
        return Unscored(rubric, SEVERAL if marks else UNPARSED, shown(reply))
    (mark,) = marks
    if not LOWEST <= mark <= HIGHEST:
        return Unscored(rubric, OUT_OF_RANGE, shown(reply))
    return mark


def _strict(text: str) -> set[float]:
    """The different marks in `text`."""
    return set() if _unfinished(text) else {float(number) for number in _STRICT.findall(text)}


def _official(text: str) -> set[float]:
    """The text between a lead and the next `]]` if it is a whole number; else the next lead is tried."""
    if _unfinished(text):
        return set()
    for lead in _OFFICIAL_LEADS:
        _, found, rest = text.partition(lead)
        number = rest.split(lead)[0].split("]]")[0]
        if found and _WHOLE.fullmatch(number):
            return {float(number)}
    return set()


def _unfinished(text: str) -> bool:
    """Whether the reply ended within its reasoning, in which numbers are not a verdict."""
    return text.lstrip().startswith("<think>")


def shown(reply: str) -> str:
    """The end of a reply, where the verdict should be, shortened for result files."""
    return reply if len(reply) <= _SHOWN else "…" + reply[-_SHOWN:]
