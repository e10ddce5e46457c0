"""The table of question kinds (kinds.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.rules import actions
from lmms_eval_ad2.mcq.rules.facts import FrameFacts


@dataclass(frozen=True, slots=True)
class ClosedValue:
    """One of the possible answers of a kind. found: pattern of the annotated answer; text: of an option."""

    found: re.Pattern[str]
    text: str
    share: float
    nature: str = ""


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """One row of kinds.yaml, which describes the fields."""

    name: str
    question: re.Pattern[str]
    operations: tuple[str, ...] = ()
    order: bool = False
    count: bool = False
    values: Mapping[str, ClosedValue] = field(default_factory=dict)
    fact: str = ""
    source: str = ""
    left_out: str = ""

    @property
    def code(self) -> str:
        """The reason code of questions of a kind that is left out."""
        return f"predictable:{self.name}"

    def match(self, source: str, text: str) -> re.Match[str] | None:
        """The match of a question of this kind, None for others."""
        return self.question.match(text) if self.source in ("", source) else None

    def value_of(self, answer: str) -> str:
        """The name of the value that the annotated answer states; "" if it states none."""
        return next((name for name, value in self.values.items() if value.found.search(answer)), "")


@dataclass(frozen=True, slots=True)
class RuleCase:
    """A question with the facts of its key frame. match: of the kind's pattern in the question."""

    question: OpenQuestion
    facts: FrameFacts
    kind: QuestionKind
    match: re.Match[str]

    @property
    def answer(self) -> str:
        return self.question.answer

    def group(self, name: str) -> str:
        """The named group of `match` in lower case, as written for object tags; "" if there is none."""
        found = self.match.groupdict().get(name) or ""
        return found if found.startswith("<") else found.lower()

    def wrong_actions(self, key: str) -> tuple[str, ...]:
        """The actions that are false in place of `key`."""
        stated = {k for text in self.facts.answers_to(self.question.text) for k in actions.named(text)}
        kept = stated | set(actions.named(self.facts.safe))
        return tuple(k for k in actions.actions()[key].excludes if k not in kept)


def kind_of(question: OpenQuestion, facts: FrameFacts) -> RuleCase | None:
    """The first kind whose pattern matches the question, as a case; None if there is none."""
    for kind in kinds():
        if match := kind.match(question.source, question.text):
            return RuleCase(question, facts, kind, match)
    return None


@cache
def kinds() -> tuple[QuestionKind, ...]:
    rows = yaml.safe_load(resources.files(__package__).joinpath("kinds.yaml").read_text("utf-8"))
    return tuple(_kind(row) for row in rows)


def _kind(row: Mapping[str, Any]) -> QuestionKind:
    values = {
        name: ClosedValue(re.compile(found, re.IGNORECASE), text, share, *nature)
        for name, (found, text, share, *nature) in row.get("values", {}).items()
    }
    rest = {key: row[key] for key in ("order", "count", "fact", "source", "left_out") if key in row}
    question = re.compile(row["question"], re.IGNORECASE)
    return QuestionKind(row["name"], question, tuple(row.get("operations", ())), values=values, **rest)
