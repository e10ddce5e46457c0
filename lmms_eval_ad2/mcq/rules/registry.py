"""Which rule makes the wrong options of a question: the first whose pattern fits and which finds something to say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from lmms_eval_ad2.mcq.base import Distractor, Question
from lmms_eval_ad2.mcq.rules import (
    actions,
    around,
    behavior,
    boxes,
    closed,
    free,
    looks,
    numbers,
    order,
    relations,
    safety,
    states,
    yesno,
)
from lmms_eval_ad2.mcq.rules.base import Case, Rule
from lmms_eval_ad2.mcq.rules.facts import Facts

_TEMPLATES: tuple[tuple[str, Rule], ...] = (
    (r"What are objects to the (?P<direction>[a-z ]{4,11}) of the ego (?:car|vehicle)", around.objects),
    (r"What is the status of the ", states.states),
    (r"Please describe the current scene", around.description),
    (r"What is the visual description of", looks.appearance),
    (r"What are the important objects in the current scene", looks.important),
    (r"Identify all the traffic elements", boxes.elements),
    (r"Which lanes? ", relations.lanes),
    (r"What is the relative positioning", relations.positions),
    (r"(?:Except for the ego vehicle, )?what object would consider", relations.relevance),
    (r"In this scenario, what object is most likely to consider", relations.relevance),
    (r"Which object is most likely to be occluded", relations.occlusion),
    (r"What object should the ego vehicle notice first", order.notice),
    (r"What is the priority of the objects", order.priority),
    (r"What actions could the ego vehicle take|Based on (?:the observations? of )?<[^<>]{3,80}>", actions.wrong_action),
    (r"What actions taken by the ego vehicle can lead to a collision", safety.collision),
    (r"In this scenario, what are safe actions", safety.safe_actions),
    (r"In this scenario, what are dangerous actions", safety.dangerous_actions),
    (r"Predict the behavior of the ego vehicle", behavior.behavior),
)  # fmt: skip


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str], str, Rule], ...]:
    """(name, the question's pattern, source or "" for all, rule), the special ones first."""
    rules = [(rule.__name__, re.compile(pattern, re.IGNORECASE), "", rule) for pattern, rule in _TEMPLATES]
    for name, table in closed.tables().items():
        rules.append((name, table.question, table.source, closed.rule_of(table)))
    for name, (pattern, rows) in yesno.families().items():
        rules.append((f"yesno_{name}", pattern, "", yesno.rule_of(name, rows)))
    rules.append((numbers.counts.__name__, re.compile(""), "", numbers.counts))
    rules.append((free.contraries.__name__, re.compile(""), "", free.contraries))
    return tuple(rules)


def candidates(question: Question, facts: Facts) -> tuple[str, Iterator[Distractor]]:
    """The name of the rule that speaks, and what it offers; ("", nothing) where no rule knows the question."""
    for name, pattern, source, rule in _rules():
        found = pattern.match(question.text)
        if not found or (source and source != question.source):
            continue
        offered = iter(rule(Case(question, facts, found)))
        first = next(offered, None)
        if first is not None:
            return name, _chained(first, offered)
    return "", iter(())


def _chained(first: Distractor, rest: Iterator[Distractor]) -> Iterator[Distractor]:
    yield first
    yield from rest
