"""Parts of an answer that can be changed, such as a count, a class, a direction or a driving action.

An answer is read as literal text and parts; each part has one or more fields, and each field the values that exclude
the annotated one. An option is the answer with some fields changed; grammar (number, article) follows from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lmms_eval_ad2.mcq.rules.frame_facts import (
    ACTION,
    ACTIONS,
    NUMBERS,
    SHARES,
    VOCABULARY,
    Exclusions,
    Shares,
    actions_in,
    any_of,
    capital_like,
    directions_instead,
    plural,
    singular,
    with_article,
)
from lmms_eval_ad2.mcq.rules.kinds import RuleCase

WIDTH, HEIGHT, SHIFT = 1600.0, 900.0, 150.0  # pixels of a nuScenes image, and the shift of a box
_CLASSES: Exclusions = VOCABULARY["classes"]
_STATES: Exclusions = VOCABULARY["states"]
_TABLES: Mapping[str, Exclusions] = {
    "changed_colour": VOCABULARY["colours"], "changed_vehicle": VOCABULARY["kinds"],
    "changed_light": VOCABULARY["lights"], "changed_motion": VOCABULARY["motions"],
    "changed_state": _STATES, "changed_lane": VOCABULARY["lanes"],
    "changed_speed": {one: [other for other in VOCABULARY["speeds"] if other != one] for one in VOCABULARY["speeds"]},
}  # fmt: skip
_BESIDE = {"in front of": ("behind", "to the left of", "to the right of"),
           "behind": ("in front of", "to the left of", "to the right of")}  # fmt: skip
_OTHER_COUNTS = {"one": ("two", "three", "many"), "two": ("one", "three", "many"), "four": ("one", "two")}
_CLASS = any_of([form for kind in _CLASSES for form in (kind, plural(kind, "two"))])
_STATE = any_of(_STATES)
_ITEM = re.compile(
    rf"(?P<there>\bthere (?:is|are) )?\b(?P<count>{any_of(NUMBERS)})(?P<of> of the)?(?: (?P<state>{_STATE}))?"
    rf"(?: (?P<kind>{_CLASS}))?\b(?P<be> (?:is|are)\b)?",
    re.IGNORECASE,
)
_DIRECTION = r"(?:front|back) (?:left|right)|front|back|left|right"
_NUMBER = r"-?\d{1,6}(?:\.\d{1,6})?"
# operation -> pattern; "value" is what is changed, the rest of the match is kept
_PATTERNS: Mapping[str, str] = {
    "changed_colour": rf"(?:\b(?P<article>an?) )?\b(?P<value>{any_of(_TABLES['changed_colour'])})\b(?! light)",
    "changed_vehicle": rf"(?:\b(?P<article>an?) )?\b(?P<value>{any_of(_TABLES['changed_vehicle'])})\b(?: car\b)?",
    "changed_light": r"\b(?P<value>red|green|yellow)\b(?= light|,)"
    r"|(?<=, )(?P<value2>go straight|turn left|turn right|no entry)(?=,)",
    "changed_direction": rf"(?P<before>(?:on|to|at) the )(?P<value>{_DIRECTION})\b|\b(?P<value2>in front of|behind)\b",
    "changed_motion": rf"(?<=\bis )(?P<value>{any_of(_TABLES['changed_motion'])})\b",
    "changed_state": rf"\b(?P<value>{_STATE})\b",
    "changed_lane": rf"\b(?P<value>{any_of(_TABLES['changed_lane'])})(?= lane\b)",
    "changed_speed": rf"\b(?P<value>{any_of(_TABLES['changed_speed'])})\b",
    "changed_box": rf"(?P<value>{_NUMBER}, {_NUMBER}, {_NUMBER}, {_NUMBER})(?=\))",
}  # fmt: skip
_COMPILED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _PATTERNS.items()}


@dataclass(frozen=True, slots=True)
class ChangeableField:
    """One value of a part. others: values that exclude it; shares: how often a value is right elsewhere."""

    operation: str
    value: str
    others: Sequence[str]
    shares: Shares = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of a text. write: its text for the values of its fields, in order."""

    match: re.Match[str]
    fields: tuple[ChangeableField, ...]
    write: Callable[[Sequence[str]], str]

    def overlaps(self, other: AnswerPart) -> bool:
        return self.match.start() < other.match.end() and other.match.start() < self.match.end()


def read_parts(text: str, operations: Sequence[str], case: RuleCase) -> list[AnswerPart]:
    """The parts of `text` that the operations can change, in order, without overlap."""
    found: list[AnswerPart] = []
    # A count would contradict "the other".
    if "changed_count" in operations and not re.search(r"\bthe (?:other|rest)\b", text):
        matches = [m for m in _ITEM.finditer(text) if m["kind"] or (m["be"] and text[: m.start()].strip())]
        present = {singular(m["kind"].lower()) for m in matches if m["kind"]}
        present |= {kind for _, kind in case.facts.around.get(case.group("direction"), ())}
        seen = [kind for items in case.facts.around.values() for _, kind in items if kind in _CLASSES]
        found += [_item(match, operations, present, seen) for match in matches]
    for operation in operations:
        if operation == "changed_action":
            found += [_action(match, case) for match in ACTION.finditer(text)]
        elif operation in _COMPILED:
            found += [_word(operation, match) for match in _COMPILED[operation].finditer(text)]
    kept: list[AnswerPart] = []
    for part in found:  # the order of the operations decides which of two overlapping parts is kept
        if not any(part.overlaps(other) for other in kept):
            kept.append(part)
    return sorted(kept, key=lambda part: part.match.start())


def write(text: str, parts: Sequence[AnswerPart], changed: Mapping[tuple[int, int], str]) -> str:
    """`text` with the values in `changed`, by (index of the part, index of its field)."""
    pieces: list[str] = []
    at = 0
    for i, part in enumerate(parts):
        values = [changed.get((i, j), one.value) for j, one in enumerate(part.fields)]
        is_changed = any((i, j) in changed for j in range(len(values)))
        pieces += [text[at : part.match.start()], part.write(values) if is_changed else part.match[0]]
        at = part.match.end()
    return "".join([*pieces, text[at:]])


def _item(match: re.Match[str], operations: Sequence[str], present: set[str], seen: Sequence[str]) -> AnswerPart:
    """ "There are three moving cars", "Two of the cars are parked", "one is moving"."""
    count, state = match["count"].lower(), (match["state"] or "").lower()
    kind = singular((match["kind"] or "").lower())
    states = _STATES.get(state, ()) if "changed_state" in operations else ()
    alike = [*_CLASSES.get(kind, ()), *seen] if kind and "changed_class" in operations else []
    # Barriers do not move, and pedestrians are not parked: a class with a state is replaced by another vehicle.
    excepted = present | set(VOCABULARY["no_vehicles"] if state else ())
    classes = list(dict.fromkeys(one for one in alike if one not in excepted))
    fields = (
        ChangeableField("changed_count", count, _OTHER_COUNTS.get(count, ("one", "two")), SHARES["counts"]),
        ChangeableField("changed_state", state, states, SHARES["states"]),
        ChangeableField("changed_class", kind, classes, SHARES["classes"]),
    )

    def text(values: Sequence[str]) -> str:
        new_count, new_state, new_kind = values
        be = "is" if new_count == "one" else "are"
        noun = plural(new_kind, "two" if match["of"] else new_count)
        said = " ".join(filter(None, (new_count + (match["of"] or ""), new_state, noun if new_kind else "")))
        there = f"there {be} " if match["there"] else ""
        return capital_like(f"{there}{said}{f' {be}' if match['be'] else ''}", match[0])

    return AnswerPart(match, fields, text)


def _word(operation: str, match: re.Match[str]) -> AnswerPart:
    groups = match.groupdict()
    value = (groups.get("value") or groups.get("value2") or "").lower()
    if operation == "changed_direction":
        others: Sequence[str] = _BESIDE.get(value) or directions_instead(value)
    elif operation == "changed_box":
        others = _other_boxes(value)
    else:
        others = _TABLES[operation].get(value, ())

    def text(values: Sequence[str]) -> str:
        said = with_article(values[0]) if groups.get("article") else (groups.get("before") or "") + values[0]
        return capital_like(said, match[0])

    return AnswerPart(match, (ChangeableField(operation, value, others),), text)


def _other_boxes(value: str) -> list[str]:
    """The box shifted to a side, mirrored horizontally and vertically."""
    x1, y1, x2, y2 = (float(number) for number in value.split(","))
    shift = SHIFT if x2 + SHIFT <= WIDTH else -SHIFT
    boxes = ((x1 + shift, y1, x2 + shift, y2), (WIDTH - x2, y1, WIDTH - x1, y2), (x1, HEIGHT - y2, x2, HEIGHT - y1))
    return [", ".join(str(round(number, 2)) for number in box) for box in boxes]


def _action(match: re.Match[str], case: RuleCase) -> AnswerPart:
    """An action; in its place those that are false, in the same form: "turn left" or "turning left"."""
    (key,) = actions_in(match[0])
    form = "doing" if match[0].split()[0].lower().endswith("ing") else "do"

    def text(values: Sequence[str]) -> str:
        return match[0] if values[0] == key else capital_like(ACTIONS[values[0]][form], match[0])

    others = case.wrong_actions(key)
    return AnswerPart(match, (ChangeableField("changed_action", key, others, SHARES["actions"]),), text)
