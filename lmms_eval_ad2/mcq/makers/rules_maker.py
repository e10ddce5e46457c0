"""RulesMaker: distractors of the five categories by rules from the annotations, deterministic, without a model."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from lmms_eval_ad2.data.releases.autodrive_qa import NAIVE
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.base import (
    KINDS,
    SELECTED,
    AcceptedQuestion,
    Distractor,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
)
from lmms_eval_ad2.mcq.faults import fault, ordered
from lmms_eval_ad2.mcq.rules import (
    actions,
    appearance,
    behavior,
    boxes,
    closed,
    free_text,
    numbers,
    rankings,
    relations,
    safety,
    states,
    surroundings,
    yesno,
)
from lmms_eval_ad2.mcq.rules.base import Rule, RuleCase
from lmms_eval_ad2.mcq.rules.facts import FrameFacts, facts_of
from lmms_eval_ad2.mcq.rules.naive import unrelated
from lmms_eval_ad2.mcq.rules.selection import choose
from lmms_eval_ad2.records import Record

LONGEST = 4_000  # characters of a question or answer; the longest answers of DriveLM have about 2,000
STOPPED = 40  # refused candidates of a question after which the rest are skipped; reached only with hostile text
FRAMES = 256  # key frames whose facts are cached
VERSION = 2  # increase it whenever a rule changes: a folder made by another version is not continued


class RulesMaker:
    """A DistractorMaker without a model. kind: one of base.KINDS. n: proposals kept per category, at least three."""

    label = "rules"

    def __init__(self, kind: str = "all", n: int = 6, seed: int = 0) -> None:
        if kind not in KINDS:
            raise Ad2Error(f"distractors '{kind}' are unknown: expected one of {', '.join(KINDS)}")
        if n < SELECTED:
            raise Ad2Error(f"n is {n}: at least {SELECTED} proposals of each category are needed")
        self.kind, self.n, self.seed = kind, n, seed
        self._frames: dict[int, tuple[tuple[Record, ...], FrameFacts]] = {}

    def describe(self) -> dict[str, Any]:
        return {"maker": self.label, "version": VERSION, "kind": self.kind, "n": self.n, "seed": self.seed}

    def account(self) -> dict[str, Any]:
        """Always zero: no model is used."""
        return {"requests": 0}

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        for question in questions:
            done(self.one(question))

    def one(self, question: OpenQuestion) -> Outcome:
        """The outcome of one question; rejections have the reason "no_rule", "too_few_distractors" or "too_long"."""
        if len(question.text) > LONGEST or len(question.answer) > LONGEST:
            return RejectedQuestion(question, "too_long", f"question or answer has more than {LONGEST} characters")
        facts = self._facts(question)
        if self.kind == NAIVE:
            rule, offered = NAIVE, unrelated(question.answer, facts)
        else:
            rule, offered = candidates(question, facts)
        if not rule:
            return RejectedQuestion(question, "no_rule", f"no rule for this kind of question: {question.text[:80]}")
        pool, notes = self._passed(offered, question)
        rng = random.Random(f"{self.seed}:{self.kind}:{question.id}")
        chosen = choose(pool, question.answer, rng, in_order=ordered(question), question=question.text)
        if not chosen:
            detail = f"{len({d.text for d in pool})} stand of those that the rule {rule} offers"
            return RejectedQuestion(question, "too_few_distractors", detail, notes=notes)
        return AcceptedQuestion(question, chosen, pool=tuple(pool), notes=notes)

    def _passed(self, offered: Iterable[Distractor], question: OpenQuestion) -> tuple[list[Distractor], dict[str, int]]:
        """Up to n candidates without fault of each category, and the numbers of refused candidates by code."""
        pool: list[Distractor] = []
        notes: Counter[str] = Counter()
        verdicts: dict[str, str | None] = {}
        counted: Counter[str] = Counter()
        for one in offered:
            if notes.total() >= STOPPED:
                break
            if self.kind not in ("all", one.category) or counted[one.category] >= self.n:
                continue
            if any(d.text == one.text and d.category == one.category for d in pool):
                continue
            if one.text not in verdicts:
                verdicts[one.text] = fault(one.text, question)
                if verdicts[one.text]:
                    notes[str(verdicts[one.text])] += 1
            if verdicts[one.text] is None:
                pool.append(one)
                counted[one.category] += 1
        return pool, dict(notes)

    def _facts(self, question: OpenQuestion) -> FrameFacts:
        """The facts of the question's key frame, cached for FRAMES frames, since plans alternate between frames."""
        scene = question.scene or (question.record,)
        known = self._frames.get(id(scene))
        if known is None or known[0] is not scene:
            known = scene, facts_of(scene)
            self._frames[id(scene)] = known  # keeps the scene alive, so that its id is not reused
            if len(self._frames) > FRAMES:
                self._frames.pop(next(iter(self._frames)))
        return known[1]


# (pattern of the question, rule). The first rule that matches and yields a distractor is used.
_TEMPLATES: tuple[tuple[str, Rule], ...] = (
    (r"What are objects to the (?P<direction>[a-z ]{4,11}) of the ego (?:car|vehicle)", surroundings.objects),
    (r"What is the status of the ", states.states),
    (r"Please describe the current scene", surroundings.description),
    (r"What is the visual description of", appearance.appearance),
    (r"What are the important objects in the current scene", appearance.important),
    (r"Identify all the traffic elements", boxes.elements),
    (r"Which lanes? ", relations.lanes),
    (r"What is the relative positioning", relations.positions),
    (r"(?:Except for the ego vehicle, )?what object would consider", relations.relevance),
    (r"In this scenario, what object is most likely to consider", relations.relevance),
    (r"Which object is most likely to be occluded", relations.occlusion),
    (r"What object should the ego vehicle notice first", rankings.notice),
    (r"What is the priority of the objects", rankings.priority),
    (r"What actions could the ego vehicle take|Based on (?:the observations? of )?<[^<>]{3,80}>", actions.wrong_action),
    (r"What actions taken by the ego vehicle can lead to a collision", safety.collision),
    (r"In this scenario, what are safe actions", safety.safe_actions),
    (r"In this scenario, what are dangerous actions", safety.dangerous_actions),
    (r"Predict the behavior of the ego vehicle", behavior.behavior),
)  # fmt: skip


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str], str, Rule], ...]:
    """(name, pattern of the question, source or "" for all, rule), specific rules first."""
    rules = [(rule.__name__, re.compile(pattern, re.IGNORECASE), "", rule) for pattern, rule in _TEMPLATES]
    for name, table in closed.tables().items():
        rules.append((name, table.question, table.source, closed.rule_of(table)))
    for name, (pattern, rows) in yesno.families().items():
        rules.append((f"yesno_{name}", pattern, "", yesno.rule_of(name, rows)))
    rules.append((numbers.counts.__name__, re.compile(""), "", numbers.counts))
    rules.append((free_text.contraries.__name__, re.compile(""), "", free_text.contraries))
    return tuple(rules)


def candidates(question: OpenQuestion, facts: FrameFacts) -> tuple[str, Iterator[Distractor]]:
    """Name and distractors of the first rule that matches the question; ("", nothing) if there is none."""
    for name, pattern, source, rule in _rules():
        found = pattern.match(question.text)
        if not found or (source and source != question.source):
            continue
        offered = iter(rule(RuleCase(question, facts, found)))
        first = next(offered, None)
        if first is not None:
            return name, _chained(first, offered)
    return "", iter(())


def _chained(first: Distractor, rest: Iterator[Distractor]) -> Iterator[Distractor]:
    yield first
    yield from rest
