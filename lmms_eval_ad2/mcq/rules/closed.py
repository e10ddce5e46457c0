"""Answers that are one of a few values: another value, or another value with a false reason (closed.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import READING, SHORT, Rule, RuleCase, in_form, replaced


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """One family of closed.yaml. `values`: key -> text of an option; the other fields are described in that file."""

    question: re.Pattern[str]
    source: str
    values: Mapping[str, str]
    known: Mapping[str, re.Pattern[str]]
    excluded: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, tuple[tuple[str, ...], str]]
    clauses: Mapping[str, tuple[str, str]]

    def find(self, text: str) -> tuple[str, re.Match[str]] | None:
        """The value stated in `text`, by its longest wording; None if there is none or more than one."""
        hits = [(key, hit) for key, pattern in self.known.items() for hit in pattern.finditer(text)]
        whole = [
            (key, hit) for key, hit in hits
            if not any(o is not hit and o.start() <= hit.start() and hit.end() <= o.end() and o[0] != hit[0]
                       for _, o in hits)
        ]  # fmt: skip
        return whole[0] if len({key for key, _ in whole}) == 1 else None


@cache
def tables() -> Mapping[str, AnswerTable]:
    """The families of closed.yaml, by name."""
    data = yaml.safe_load(resources.files(__package__).joinpath("closed.yaml").read_text("utf-8"))
    return {name: _table(entry) for name, entry in data.items()}


def _table(entry: Mapping[str, Any]) -> AnswerTable:
    return AnswerTable(
        question=re.compile(entry["question"], re.IGNORECASE),
        source=entry.get("source", ""),
        values={key: texts[0] for key, texts in entry["values"].items()},
        known={key: _wordings(texts) for key, texts in entry["values"].items()},
        excluded={key: tuple(keys) for key, keys in entry["not"].items()},
        errors={SHORT[name]: (tuple(keys), why) for name, (keys, why) in entry["errors"].items()},
        clauses={SHORT[name]: (clause, why) for name, (clause, why) in entry["clauses"].items()},
    )


def _wordings(texts: list[str]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)


def rule_of(table: AnswerTable) -> Rule:
    """The rule of a family."""
    return lambda case: _wrong_values(case, table)


def _wrong_values(case: RuleCase, table: AnswerTable) -> Iterator[Distractor]:
    found = table.find(case.answer)
    if not found:
        return
    truth, match = found
    stated = {hit[0] for text in case.facts.answers_to(case.question.text) if (hit := table.find(text))}
    wrong = [key for key in table.excluded.get(truth, ()) if key not in stated]

    def option(key: str, clause: str = "") -> str:
        return in_form(replaced(case.answer, match, table.values[key]).rstrip(". ") + clause, case.answer)

    for key in _of_other_objects(case, table, wrong):
        yield Distractor(option(key), READING, "True of another object of the scene, not of the one in question.")
    for category, (keys, why) in table.errors.items():
        for key in (*(k for k in keys if k in wrong),):
            yield Distractor(option(key), category, _reason(why, case.answer))
        clause, why_clause = table.clauses.get(category, ("", ""))
        for key in wrong if clause else ():
            yield Distractor(option(key, clause), category, _reason(why_clause, case.answer))


def _reason(why: str, answer: str) -> str:
    return f"{why[:1].upper()}{why[1:]}; annotated is: {answer}"


def _of_other_objects(case: RuleCase, table: AnswerTable, wrong: list[str]) -> list[str]:
    texts = case.facts.answers_to_similar(case.question.text)
    keys = dict.fromkeys(hit[0] for text in texts if (hit := table.find(text)))
    return [key for key in keys if key in wrong]
