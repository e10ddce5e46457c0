"""RulesMaker: distractors from the annotations by the table of question kinds, deterministic, without a model.

Without error modelling (naive, Table 8), they are answers of another kind to other questions of the frame, and texts
of a fixed list. None of them answers the question, so none can be right.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.autodrive_qa import NAIVE, UNCATEGORISED
from lmms_eval_ad2.mcq.base import SELECTED, AcceptedQuestion, Distractor, OpenQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.faults import fault, repeats
from lmms_eval_ad2.mcq.rules.frame_facts import NUMBERS, VOCABULARY, FrameFacts
from lmms_eval_ad2.mcq.rules.kinds import RuleCase, matching_kind
from lmms_eval_ad2.mcq.rules.options import OptionSet, options_of
from lmms_eval_ad2.mcq.wording import verdict

KINDS = ("all", NAIVE)
LONGEST = 4_000  # characters of a question or answer; the longest answers of DriveLM have about 2,000
DRAWS = 24  # sets of options drawn until one passes the gate
FRAMES = 256  # key frames whose facts are cached
VERSION = 3  # increase it whenever a rule changes: a folder made by another version is not continued

OPERATIONS: Mapping[str, Sequence[str]] = VOCABULARY["operations"]  # name -> (error category, what it does)
# Kinds of answers, tried in order after verdicts and counts.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("tags", re.compile(r"<[^<>]{3,80}>")),
    ("looks", re.compile(r"\A(?:[\w-]+ ){0,3}(?:sedan|suv|truck|van|car|light|entry)\.?\Z", re.IGNORECASE)),
    ("risk", re.compile(r"(?:low|high|medium)\.?\Z", re.IGNORECASE)),
    ("list", re.compile(r"there (?:is|are)\b", re.IGNORECASE)),
    ("none", re.compile(r"no(?:ne|thing)?\b", re.IGNORECASE)),
)


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
        found = matching_kind(source, text)
        if found is None:
            return "no_rule"
        return found[0].code if found[0].left_out else None

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
        found = matching_kind(question.source, question.text)
        if found is None:
            return RejectedQuestion(question, "no_rule", f"no rule for this kind of question: {question.text[:80]}")
        kind, match = found
        if kind.left_out:
            return RejectedQuestion(question, kind.code, kind.left_out)
        case = RuleCase(question, self._facts(question), kind, match)
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
        detail = f"the annotations give fewer than {SELECTED} false options of the kind {kind.name}"
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
            known = scene, FrameFacts.of(scene)
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


def category_of(operation: str) -> str:
    """The category that all operations in "first+second" lead to; UNCATEGORISED if they differ or have none."""
    found = {OPERATIONS[name][0] for name in operation.split("+") if name}
    return found.pop() if len(found) == 1 else UNCATEGORISED


def _accepted(question: OpenQuestion, drawn: OptionSet, notes: Counter[str]) -> AcceptedQuestion:
    made = []
    for text, operation in drawn.wrong:
        what = " and ".join(OPERATIONS[name][1] for name in operation.split("+"))
        made.append(Distractor(text, category_of(operation), f"{what}; annotated is: {drawn.right}", operation))
    return AcceptedQuestion(question, tuple(made), pool=tuple(made), notes=dict(notes))


def shape(text: str) -> str:
    """The kind of answer: verdict, count, tags, looks, risk, list, none or action."""
    if verdict(text):
        return "verdict"
    if (word := text.strip().rstrip(".").lower()) in ("zero", *NUMBERS) or word.isdecimal():
        return "count"
    return next((name for name, pattern in _SHAPES if pattern.search(text)), "action")


def unrelated(answer: str, facts: FrameFacts) -> Iterator[Distractor]:
    """Answers of another kind from the frame, then the fixed list; texts of similar length first."""
    others = (text for texts in facts.answers.values() for text in texts if text)
    fitting = VOCABULARY["unrelated_kinds"].get(shape(answer), ())
    unfit = [text for text in dict.fromkeys(others) if shape(text) in fitting]
    for text in sorted(unfit, key=lambda text: abs(len(text) - len(answer)))[:4]:
        yield Distractor(_in_form(text, answer), NAIVE, "An answer to another question of the scene.")
    for text in sorted(VOCABULARY["unrelated_texts"], key=lambda text: abs(len(text) - len(answer))):
        yield Distractor(_in_form(text, answer), NAIVE, "Unrelated to driving.")


def _in_form(text: str, answer: str) -> str:
    """`text` with capital and full stop as in the answer, so that its form does not reveal it."""
    text = text.strip().rstrip(".")
    if answer[:1].isupper():
        text = text[:1].upper() + text[1:]
    elif answer[:1].islower() and not text[:2].isupper():
        text = text[:1].lower() + text[1:]
    return text + "." if answer.rstrip().endswith(".") else text
