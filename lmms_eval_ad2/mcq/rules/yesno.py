"""Answers that are a verdict: the other verdict, alone or with a false reason (yesno.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import chain

import yaml

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules import free_text
from lmms_eval_ad2.mcq.rules.base import LOGIC, SENSOR, SHORT, Rule, RuleCase
from lmms_eval_ad2.mcq.rules.directions import across, along

Rows = Mapping[str, list[list[str]]]

VERDICT = re.compile(r"\s*(yes|no)\b(?! (?:entry|parking|stopping|turning))", re.IGNORECASE)
_SLOT = re.compile(r"\{(\w{1,12})\}")
_STATUS = re.compile(r"(moving|parked|stopped|standing)\s+", re.IGNORECASE)
ANTONYMS = {"moving": "parked", "parked": "moving", "stopped": "moving", "standing": "moving"}
LOOKALIKES = {
    "cars": "trucks", "trucks": "buses", "buses": "trucks", "barriers": "traffic cones", "traffic cones": "barriers",
    "pedestrians": "traffic cones", "trailers": "trucks", "construction vehicles": "trucks",
    "motorcycles": "bicycles", "bicycles": "motorcycles",
}  # fmt: skip


@cache
def families() -> Mapping[str, tuple[re.Pattern[str], Mapping[str, Rows]]]:
    """The families of yesno.yaml: name -> the question's pattern and the rows by right verdict."""
    data = yaml.safe_load(resources.files(__package__).joinpath("yesno.yaml").read_text("utf-8"))
    return {
        name: (re.compile(entry["question"], re.IGNORECASE), {verdict: entry[verdict] for verdict in ("yes", "no")})
        for name, entry in data.items()
    }


def rule_of(name: str, rows: Mapping[str, Rows]) -> Rule:
    """The rule of a family. If the verdict is followed by a statement, the statement is negated first."""
    if name == "any":
        return lambda case: chain(_statement_negated(case), _other_verdict(case, rows))
    return lambda case: _other_verdict(case, rows)


def _statement_negated(case: RuleCase) -> Iterator[Distractor]:
    verdict = VERDICT.match(case.answer)
    if verdict and len(case.answer) - verdict.end() > 8:
        yield from free_text.contraries(case)


def _other_verdict(case: RuleCase, rows: Mapping[str, Rows]) -> Iterator[Distractor]:
    verdict = VERDICT.match(case.answer)
    if not verdict:
        return
    right = verdict[1].lower()
    slots = _slots(case)
    plain = "No." if right == "yes" else "Yes."
    if len(case.answer) <= len("Yes."):
        yield Distractor(plain, SENSOR, f"What the images show is misread; annotated is: {case.answer}")
        yield Distractor(plain, LOGIC, f"The conclusion is turned round; annotated is: {case.answer}")
    for name, entries in rows[right].items():
        for text, why in entries:
            if all(slots.get(slot) for slot in _SLOT.findall(text)):
                yield Distractor(text.format_map(slots), SHORT[name], why)


def _slots(case: RuleCase) -> dict[str, str]:
    words = (case.group("kind") + case.group("rider")).lower()
    status = _STATUS.match(words)
    kind = _STATUS.sub("", case.group("kind").lower(), count=1)
    direction = case.group("direction").lower()
    return {
        "kind": kind, "direction": direction, "mirror": across(direction), "opposite": along(direction),
        "lookalike": LOOKALIKES.get(kind, ""), "antonym": ANTONYMS[status[1]] if status else "",
        "a": case.group("a"), "b": case.group("b"),
    }  # fmt: skip
