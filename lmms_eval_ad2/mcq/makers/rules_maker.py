"""RulesMaker: distractors from the annotations by the table of question kinds, deterministic, without a model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.autodrive_qa import NAIVE
from lmms_eval_ad2.mcq.base import (
    SELECTED,
    AcceptedQuestion,
    Distractor,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
)
from lmms_eval_ad2.mcq.faults import fault, repeats
from lmms_eval_ad2.mcq.rules.facts import FrameFacts, facts_of
from lmms_eval_ad2.mcq.rules.kinds import kind_of, kinds
from lmms_eval_ad2.mcq.rules.naive import unrelated
from lmms_eval_ad2.mcq.rules.operations import category_of, reason_of
from lmms_eval_ad2.mcq.rules.options import OptionSet, options_of

KINDS = ("all", NAIVE)
LONGEST = 4_000  # characters of a question or answer; the longest answers of DriveLM have about 2,000
DRAWS = 24  # sets of options drawn until one passes the gate
FRAMES = 256  # key frames whose facts are cached
VERSION = 3  # increase it whenever a rule changes: a folder made by another version is not continued


class RulesMaker:
    """A DistractorMaker without a model. kind: "all" or "naive"; single error categories need a language model."""

    label = "rules"

    def __init__(self, kind: str = "all", seed: int = 0) -> None:
        if kind not in KINDS:
            raise Ad2Error(
                f"rules make no distractors '{kind}': expected {' or '.join(KINDS)} (a single error category, as in "
                "Table 8, needs a language model: --llm openai:MODEL)"
            )
        self.kind, self.seed = kind, seed
        self._frames: dict[int, tuple[tuple[Record, ...], FrameFacts]] = {}

    def describe(self) -> dict[str, Any]:
        return {"maker": self.label, "version": VERSION, "kind": self.kind, "seed": self.seed}

    def unsuited(self, source: str, text: str) -> str | None:
        """predictable:KIND or no_rule, as in `one`."""
        if self.kind == NAIVE:
            return None
        kind = next((kind for kind in kinds() if kind.match(source, text)), None)
        if kind is None:
            return "no_rule"
        return kind.code if kind.left_out else None

    def account(self) -> dict[str, Any]:
        """Always zero: no model is used."""
        return {"requests": 0}

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        for question in questions:
            done(self.one(question))

    def one(self, question: OpenQuestion) -> Outcome:
        """The outcome of one question. Reasons of a rejection:

        no_rule, too_long, too_few_distractors (the annotations give fewer than three false options) or
        predictable:KIND (this kind of question can be answered without the image, whatever the options).
        """
        if len(question.text) > LONGEST or len(question.answer) > LONGEST:
            return RejectedQuestion(question, "too_long", f"question or answer has more than {LONGEST} characters")
        rng = random.Random(f"{self.seed}:{self.kind}:{question.id}")
        if self.kind == NAIVE:
            return self._naive(question, rng)
        case = kind_of(question, self._facts(question))
        if case is None:
            return RejectedQuestion(question, "no_rule", f"no rule for this kind of question: {question.text[:80]}")
        if case.kind.left_out:
            return RejectedQuestion(question, case.kind.code, case.kind.left_out)
        notes: Counter[str] = Counter()
        for _ in range(DRAWS):
            drawn = options_of(case, rng)
            if drawn is None:
                continue
            asked = replace(question, answer=drawn.right)
            if code := set_fault(drawn, asked):
                notes[code] += 1
                continue
            return _accepted(asked, drawn, notes)
        detail = f"the annotations give fewer than {SELECTED} false options of the kind {case.kind.name}"
        return RejectedQuestion(question, "too_few_distractors", detail, notes=notes)

    def _naive(self, question: OpenQuestion, rng: random.Random) -> Outcome:
        # An unrelated text answers no yes-or-no question, so it has no verdict.
        faults = ((d, fault(d.text, question)) for d in unrelated(question.answer, self._facts(question)))
        offered = [d for d, code in faults if code in (None, "no_verdict")]
        for _ in range(DRAWS if len(offered) >= SELECTED else 0):
            drawn = rng.sample(offered, SELECTED)
            if not any(repeats(a.text, [b.text], question) for a, b in combinations(drawn, 2)):
                return AcceptedQuestion(question, tuple(drawn), pool=tuple(offered))
        return RejectedQuestion(question, "too_few_distractors", f"{len(offered)} unrelated options")

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


def set_fault(drawn: OptionSet, question: OpenQuestion) -> str | None:
    """The first fault of a set of options (mcq/faults.py), or None."""
    texts = [text for text, _ in drawn.wrong]
    if code := next((found for text in texts if (found := fault(text, question))), None):
        return code
    return "duplicate" if any(repeats(a, [b], question) for a, b in combinations(texts, 2)) else None


def _accepted(question: OpenQuestion, drawn: OptionSet, notes: Counter[str]) -> AcceptedQuestion:
    made = tuple(
        Distractor(text, category_of(operation), reason_of(operation, drawn.right), operation)
        for text, operation in drawn.wrong
    )
    return AcceptedQuestion(question, made, pool=made, notes=dict(notes))
