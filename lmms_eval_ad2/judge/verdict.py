"""Parsing of a judge's reply: the mark, or a reason for none. No number is guessed from prose.

`strict` (ours): the number n, whole or decimal, from 1 to 10, of all `[[n]]` in the reply. A reply with different
numbers ("[[5]] out of [[10]]") has no mark: which of them is the rating would be a guess. Other content of double
brackets is ignored.

`official` (CODA-LM's script, for its own prompts): the text between the first `Rating: [[` and the next `]]` as `int`
reads it, else after the first `rating is: [[`, else after the first `[[`; further numbers, reasoning and the reason for
which the reply ended do not matter. Only the range is checked here and not there.
"""

from __future__ import annotations

import contextlib
import re
from typing import Literal

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST

ReplyForm = Literal["strict", "official"]
Wording = Literal["ours", "official"]  # of the prompts of the CODA-LM rubrics
WORDINGS: tuple[Wording, ...] = ("ours", "official")
REPLY_FORMS: tuple[ReplyForm, ...] = ("strict", "official")

UNPARSED, SEVERAL, OUT_OF_RANGE, EMPTY, TRUNCATED, REFUSED = (
    "unparsed_reply", "several_ratings", "out_of_range", "empty_reply", "truncated_reply", "refused",
)  # fmt: skip

UNREAD = (UNPARSED, SEVERAL, OUT_OF_RANGE, EMPTY, TRUNCATED, REFUSED)  # the judge has replied, without a valid mark

_STRICT = re.compile(r"\[\[\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*\]\]")
_OFFICIAL_LEADS = ("Rating: [[", "rating is: [[", "[[")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_OUTSIDE = (int(LOWEST) - 1, int(HIGHEST) + 1)  # stand for all numbers out of range, which may be too large for a float
_CUT = {"length": TRUNCATED, "content_filter": REFUSED}  # finish reasons of incomplete replies


def read(reply: str, finish_reason: str | None, form: ReplyForm, rubric: str) -> float | Unscored:
    """The mark of `reply`.

    Unscored, with the reply as its detail, if it is empty, truncated, refused or unreadable, has several marks, or one
    that is out of range.
    """
    marks = _official(reply) if form == "official" else set()
    if not marks and (cut := _CUT.get(finish_reason or "")):
        return Unscored(rubric, cut, reply)
    text = _THOUGHT.sub("", reply)
    if not text.strip() and not marks:
        return Unscored(rubric, EMPTY)
    marks = marks if form == "official" else _strict(text)
    if len(marks) != 1:
        return Unscored(rubric, SEVERAL if marks else UNPARSED, reply)
    (mark,) = marks
    if not LOWEST <= mark <= HIGHEST:
        return Unscored(rubric, OUT_OF_RANGE, reply)
    return mark


def _strict(text: str) -> set[float]:
    """The different marks in `text`; none if it ended within its reasoning, in which numbers are not a verdict."""
    return set() if text.lstrip().startswith("<think>") else {float(number) for number in _STRICT.findall(text)}


def _official(text: str) -> set[float]:
    """`int` of the text between a lead and the next `]]` or the same lead; if it raises, the next lead is tried."""
    for lead in _OFFICIAL_LEADS:
        _, found, rest = text.partition(lead)
        if found:
            with contextlib.suppress(ValueError):
                number = int(rest.split(lead)[0].split("]]")[0])
                return {float(max(_OUTSIDE[0], min(number, _OUTSIDE[1])))}
    return set()
