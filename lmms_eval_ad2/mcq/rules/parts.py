"""Parts of an answer that can be changed, such as a count, a class, a direction or an action.

An answer is read as literal text and parts; each part has one or more fields, and each field the values that exclude
the annotated one. An option is the answer with some fields changed; grammar (number, article) follows from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmms_eval_ad2.mcq.rules import actions, words

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.rules.kinds import RuleCase

WIDTH, HEIGHT, SHIFT = 1600.0, 900.0, 150.0  # pixels of a nuScenes image, and the shift of a box
_CLASS = words.any_of([form for kind in words.CLASSES for form in (kind, words.plural(kind, "two"))])
_COUNT = words.any_of(words.NUMBERS)
_STATE = words.any_of(words.STATES)
_ITEM = re.compile(
    rf"(?P<there>\bthere (?:is|are) )?\b(?P<count>{_COUNT})(?P<of> of the)?(?: (?P<state>{_STATE}))?"
    rf"(?: (?P<kind>{_CLASS}))?\b(?P<be> (?:is|are)\b)?",
    re.IGNORECASE,
)
_DIRECTION = r"(?:front|back) (?:left|right)|front|back|left|right"
_NUMBER = r"-?\d{1,6}(?:\.\d{1,6})?"
# operation -> pattern; "value" is what is changed, the rest of the match is kept
_PATTERNS: Mapping[str, str] = {
    "changed_colour": rf"(?:\b(?P<article>an?) )?\b(?P<value>{words.any_of(words.COLOURS)})\b(?! light)",
    "changed_vehicle": rf"(?:\b(?P<article>an?) )?\b(?P<value>{words.any_of(words.KINDS)})\b(?: car\b)?",
    "changed_light": r"\b(?P<value>red|green|yellow)\b(?= light|,)"
    r"|(?<=, )(?P<value2>go straight|turn left|turn right|no entry)(?=,)",
    "changed_direction": rf"(?P<before>(?:on|to|at) the )(?P<value>{_DIRECTION})\b|\b(?P<value2>in front of|behind)\b",
    "changed_motion": rf"(?<=\bis )(?P<value>{words.any_of(words.MOTIONS)})\b",
    "changed_state": rf"\b(?P<value>{_STATE})\b",
    "changed_lane": rf"\b(?P<value>{words.any_of(words.LANES)})(?= lane\b)",
    "changed_speed": rf"\b(?P<value>{words.any_of(words.SPEEDS)})\b",
    "changed_box": rf"(?P<value>{_NUMBER}, {_NUMBER}, {_NUMBER}, {_NUMBER})(?=\))",
}  # fmt: skip
_COMPILED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _PATTERNS.items()}


@dataclass(frozen=True, slots=True)
class ChangeableField:
    """One value of a part. others: values that exclude it; shares: how often a value is right elsewhere."""

    operation: str
    value: str
    others: tuple[str, ...]
    shares: words.Shares = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of a text. write: its text for the values of its fields, in order."""

    start: int
    end: int
    fields: tuple[ChangeableField, ...]
    write: Callable[[Sequence[str]], str]


def read_parts(text: str, operations: Sequence[str], case: RuleCase) -> list[AnswerPart]:
    """The parts of `text` that the operations can change, in order, without overlap."""
    found: list[AnswerPart] = []
    if "changed_count" in operations:
        found += _items(text, operations, case)
    for operation in operations:
        if operation == "changed_action":
            found += [_action(match, case) for match in actions.pattern().finditer(text)]
        elif operation in _COMPILED:
            found += [_word(operation, match) for match in _COMPILED[operation].finditer(text)]
    kept: list[AnswerPart] = []
    for part in found:  # the order of the operations decides which of two overlapping parts is kept
        if part.fields and not any(part.start < other.end and other.start < part.end for other in kept):
            kept.append(part)
    return sorted(kept, key=lambda part: part.start)


def write(text: str, parts: Sequence[AnswerPart], changed: Mapping[tuple[int, int], str]) -> str:
    """`text` with the values in `changed`, by (index of the part, index of its field)."""
    pieces: list[str] = []
    at = 0
    for i, part in enumerate(parts):
        values = [changed.get((i, j), one.value) for j, one in enumerate(part.fields)]
        is_changed = any((i, j) in changed for j in range(len(values)))
        pieces += [text[at : part.start], part.write(values) if is_changed else text[part.start : part.end]]
        at = part.end
    return "".join([*pieces, text[at:]])


def _items(text: str, operations: Sequence[str], case: RuleCase) -> list[AnswerPart]:
    """ "There are three moving cars", "Two of the cars are parked", "one is moving"."""
    matches = [m for m in _ITEM.finditer(text) if m["kind"] or (m["be"] and text[: m.start()].strip())]
    if re.search(r"\bthe (?:other|rest)\b", text):
        return []  # a count would contradict "the other"
    present = {words.singular(m["kind"].lower()) for m in matches if m["kind"]}
    present |= case.facts.classes_at(case.group("direction"))
    seen = [kind for items in case.facts.around.values() for _, kind in items if kind in words.CLASSES]
    return [_item(match, operations, present, seen) for match in matches]


def _item(match: re.Match[str], operations: Sequence[str], present: set[str], seen: Sequence[str]) -> AnswerPart:
    count, state = match["count"].lower(), (match["state"] or "").lower()
    kind = words.singular((match["kind"] or "").lower())
    near = {"one": ("two", "three", "many"), "two": ("one", "three", "many"), "four": ("one", "two")}
    fields = [ChangeableField("changed_count", count, near.get(count, ("one", "two")), words.COUNTS)]
    states = words.STATES.get(state, ()) if "changed_state" in operations else ()
    fields.append(ChangeableField("changed_state", state, states, words.STATE_SHARES))
    alike = [*words.CLASSES.get(kind, ()), *seen] if kind and "changed_class" in operations else []
    # Barriers do not move, and pedestrians are not parked: a class with a state is replaced by another vehicle.
    others = tuple(dict.fromkeys(k for k in alike if k not in present and not (state and k in words.NO_VEHICLES)))
    fields.append(ChangeableField("changed_class", kind, others, words.CLASS_SHARES))

    def text(values: Sequence[str]) -> str:
        new_count, new_state, new_kind = values
        there = f"there {words.be(new_count)} " if match["there"] else ""
        noun = words.plural(new_kind, "two" if match["of"] else new_count)
        said = " ".join(filter(None, (new_count + (match["of"] or ""), new_state, noun if new_kind else "")))
        verb = f" {words.be(new_count)}" if match["be"] else ""
        return words.capital_like(f"{there}{said}{verb}", match[0])

    return AnswerPart(match.start(), match.end(), tuple(fields), text)


def _word(operation: str, match: re.Match[str]) -> AnswerPart:
    groups = match.groupdict()
    value = (groups.get("value") or groups.get("value2") or "").lower()
    before = groups.get("before") or ""
    article = groups.get("article") or ""

    def text(values: Sequence[str]) -> str:
        said = words.with_article(values[0]) if article else before + values[0]
        return words.capital_like(said, match[0])

    return AnswerPart(match.start(), match.end(), (ChangeableField(operation, value, _others(operation, value)),), text)


def _others(operation: str, value: str) -> tuple[str, ...]:
    if operation == "changed_direction":
        beside = {"in front of": ("behind", "to the left of", "to the right of"),
                  "behind": ("in front of", "to the left of", "to the right of")}  # fmt: skip
        return beside.get(value) or words.directions_instead(value)
    if operation == "changed_speed":
        return tuple(speed for speed in words.SPEEDS if speed != value)
    if operation == "changed_box":
        x1, y1, x2, y2 = (float(number) for number in value.split(","))
        shift = SHIFT if x2 + SHIFT <= WIDTH else -SHIFT
        boxes = ((x1 + shift, y1, x2 + shift, y2), (WIDTH - x2, y1, WIDTH - x1, y2), (x1, HEIGHT - y2, x2, HEIGHT - y1))
        return tuple(", ".join(str(round(number, 2)) for number in box) for box in boxes)
    table: Mapping[str, Mapping[str, tuple[str, ...]]] = {
        "changed_colour": words.COLOURS, "changed_vehicle": words.KINDS, "changed_light": words.LIGHTS,
        "changed_motion": words.MOTIONS, "changed_state": words.STATES, "changed_lane": words.LANES,
    }  # fmt: skip
    return table[operation].get(value, ())


def _action(match: re.Match[str], case: RuleCase) -> AnswerPart:
    """An action; in its place the actions that it excludes and that no record of the frame states or calls safe."""
    key = actions.key_of(match[0])

    def text(values: Sequence[str]) -> str:
        return match[0] if values[0] == key else words.capital_like(actions.say(values[0], match[0]), match[0])

    return AnswerPart(
        match.start(),
        match.end(),
        (ChangeableField("changed_action", key, case.wrong_actions(key), words.ACTION_SHARES),),
        text,
    )
