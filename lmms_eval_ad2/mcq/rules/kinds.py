"""Kinds of questions (kinds.yaml), and what an option states besides its value: an object's looks, or what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.rules.frame_facts import (
    NUMBERS,
    SHARES,
    VOCABULARY,
    Exclusions,
    FrameFacts,
    Items,
    any_of,
    packaged_table,
    plural,
    say_items,
    singular,
)

_SEEN = 0.6  # weight of the looks of another object of the frame
_STATES: Exclusions = VOCABULARY["states"]


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

    def value_of(self, answer: str) -> str:
        """The name of the value that the annotated answer states; "" if it states none."""
        return next((name for name, value in self.values.items() if value.found.search(answer)), "")


@cache
def kinds() -> tuple[QuestionKind, ...]:
    """The kinds in the order of the file."""
    found = []
    for row in packaged_table("kinds.yaml"):
        values = {
            name: ClosedValue(re.compile(pattern, re.IGNORECASE), text, share, *nature)
            for name, (pattern, text, share, *nature) in row.pop("values", {}).items()
        }
        question, operations = re.compile(row.pop("question"), re.IGNORECASE), tuple(row.pop("operations", ()))
        found.append(QuestionKind(question=question, operations=operations, values=values, **row))
    return tuple(found)


def matching_kind(source: str, text: str) -> tuple[QuestionKind, re.Match[str]] | None:
    """The first kind whose pattern matches a question of this source, and the match; None if there is none."""
    for kind in kinds():
        if kind.source in ("", source) and (match := kind.question.match(text)):
            return kind, match
    return None


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
        return self.facts.wrong_actions(key, self.question.text)


class OptionReason(NamedTuple):
    """One fact that an option may state. share: weight in the draw; true: whether it is annotated."""

    text: str
    operation: str
    share: float
    true: bool = False


def reasons(case: RuleCase, value: str) -> list[OptionReason]:
    """The facts for options with this value; at most one is true."""
    return _looks(case, value) if case.kind.fact == "looks" else _surroundings(case, value)


def _looks(case: RuleCase, value: str) -> list[OptionReason]:
    asked = [one for tag in (case.group("a"), case.group("b")) if tag and (one := case.facts.object_of(tag))]
    nature = case.kind.values[value].nature
    if not (nature or asked):
        return []
    sign = nature == "sign" if nature else asked[0].is_sign
    own = [one.looks for one in asked if one.is_sign == sign and one.looks]
    others = [
        o for o in case.facts.objects.values() if o.is_sign == sign and o.looks and all(o is not a for a in asked)
    ]
    drawn = {looks: (share, "changed_looks") for looks, share in SHARES["signs" if sign else "looks"].items()}
    drawn |= {one.looks: (_SEEN, "other_object") for one in others}
    found = [OptionReason(own[0], "changed_value", _SEEN, true=True)] if own else []
    for looks, (share, operation) in drawn.items():
        if all(exclusive(looks, mine) for mine in own):
            found.append(OptionReason(looks, operation, share))
    return found


def exclusive(looks: str, other: str) -> bool:
    """Check that two descriptions cannot be of one object: clearly different colours or kinds, or different signs."""
    if "light" in looks or "sign" in looks or "light" in other or "sign" in other:
        return looks != other
    tables: tuple[Exclusions, ...] = VOCABULARY["colours"], VOCABULARY["kinds"]
    for table in tables:
        pattern = rf"\b(?:{any_of(table)})\b"
        mine, theirs = re.search(pattern, looks, re.IGNORECASE), re.search(pattern, other, re.IGNORECASE)
        if mine and theirs:
            a, b = mine[0].lower(), theirs[0].lower()
            if a in table[b] or b in table[a]:
                return True
    return False


def _surroundings(case: RuleCase, value: str) -> list[OptionReason]:
    """ "two moving cars" for yes, what else is there for no."""
    direction, state = case.group("direction"), case.group("state")
    kind = singular(case.group("kind"))
    there, states = case.facts.around.get(direction, ()), _by_state(case, kind, direction)
    if value == "yes":
        riders = case.group("riders")
        count = states.get(state, "") if state else {name: count for count, name in there}.get(kind, "")
        return _counted(f"{state} {kind}".strip(), "" if riders else count, riders)  # the lists do not tell riders
    rest: Items = tuple(item for item in there if item[1] != kind)
    known = kind not in {name for _, name in there}
    if states and state:
        rest, known = tuple((count, f"{other} {kind}") for other, count in states.items() if other != state), True
        if not rest:  # all of them are in the state asked for: another state contradicts the annotation
            return [
                OptionReason(say_items([(count, f"{other} {kind}")]), "changed_state", SHARES["counts"][count] * share)
                for count in ("one", "two", "many")
                for other, share in SHARES["states"].items()
                if other in _STATES[state]
            ]
    true = known and bool(rest) and case.kind.value_of(case.answer) == "no"
    found = [OptionReason(say_items(rest), "removed_object", 0.3, true=true)] if rest else []
    varied = _varied(rest or there, kind, others=bool(rest))
    return [*found, *(OptionReason(say_items(items), "changed_list", 0.2) for items in varied)]


def _counted(name: str, count: str, riders: str) -> list[OptionReason]:
    """ "one car", "two cars", ...; true is that with the annotated count."""
    found = []
    for other, share in SHARES["counts"].items():
        if other != "four" and {other, count} != {"three", "many"}:
            with_riders = riders.replace("riders", "a rider") if other == "one" else riders
            text = f"{other} {plural(name, other)}{with_riders}"
            found.append(OptionReason(text, "changed_count", share, true=other == count))
    return found


def _varied(items: Items, kind: str, others: bool) -> Iterator[Items]:
    """The list with one count or class changed; without the class in question."""
    for i, (count, name) in enumerate(items):
        state, _, bare_name = name.rpartition(" ") if name.split()[0] in _STATES else ("", "", name)
        for other in ("one", "two", "many"):
            if others and other != count and count not in ("three", "many"):
                yield (*items[:i], (other, name), *items[i + 1 :])
        for other in VOCABULARY["classes"].get(bare_name, ()):
            if not state and other != kind and other not in {n for _, n in items}:
                yield (*items[:i], (count, other), *items[i + 1 :])


def _by_state(case: RuleCase, kind: str, direction: str) -> dict[str, str]:
    """State -> count, as the frame's status question tells: "Many cars are moving, and one is parked."."""
    answer = case.facts.status.get((kind, direction), "").lower()
    found = {}
    for part in re.split(r",? and |, ", answer):
        state = re.search(rf"\b(?:is|are) ({any_of(_STATES)})\b", part)
        count = re.match(rf"({any_of(NUMBERS)})\b", part)
        if state:
            found[state[1]] = count[1] if count else "one"
    return found
