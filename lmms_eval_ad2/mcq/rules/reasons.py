"""What an option says besides its value: the looks of the object in question, or what is annotated in a direction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lmms_eval_ad2.mcq.rules import words
from lmms_eval_ad2.mcq.rules.facts import Items, say_items
from lmms_eval_ad2.mcq.rules.kinds import RuleCase

# Looks by their shares among DriveLM's key objects, roughly; those of the frame's other objects are added.
LOOKS: words.Shares = {
    "white sedan": 0.2, "black sedan": 0.14, "white SUV": 0.1, "white truck": 0.1, "white van": 0.1, "black SUV": 0.08,
    "gray sedan": 0.08, "red sedan": 0.05, "blue sedan": 0.05, "black truck": 0.04,
}  # fmt: skip
_SIGNS: words.Shares = {
    name if "light" in name or "sign" in name else f"{name} sign": s for name, s in words.SIGNS.items()
}
_SEEN = 0.6  # weight of the looks of another object of the frame
_OPERATIONS = {True: "other_object", False: "changed_looks"}


@dataclass(frozen=True, slots=True)
class OptionReason:
    """One fact that an option may state. share: weight in the draw; true: whether it is annotated."""

    text: str
    operation: str
    share: float
    true: bool = False


def reasons(case: RuleCase, value: str) -> list[OptionReason]:
    """The facts for options with this value; at most one is true."""
    if case.kind.fact == "looks":
        return _looks(case, value)
    return _surroundings(case, value) if case.kind.fact == "surroundings" else []


def _looks(case: RuleCase, value: str) -> list[OptionReason]:
    asked = [one for tag in (case.group("a"), case.group("b")) if tag and (one := case.facts.object_of(tag))]
    nature = case.kind.values[value].nature
    wanted = [nature == "sign"] if nature else [one.is_sign for one in asked[:1]]
    if not wanted:
        return []
    sign = wanted[0]
    own = [one.looks for one in asked if one.is_sign == sign and one.looks]
    others = [o for o in case.facts.objects.values() if o.is_sign == sign and o.looks and o not in asked]
    drawn = {looks: (share, False) for looks, share in (_SIGNS if sign else LOOKS).items()}
    drawn |= {one.looks: (_SEEN, True) for one in others}
    found = [OptionReason(own[0], "changed_value", _SEEN, true=True)] if own else []
    for looks, (share, seen) in drawn.items():
        if all(exclusive(looks, mine) for mine in own):
            found.append(OptionReason(looks, _OPERATIONS[seen], share))
    return found


def exclusive(looks: str, other: str) -> bool:
    """Whether two descriptions cannot be of one object: clearly different colours or kinds, or different signs."""
    if "light" in looks or "sign" in looks or "light" in other or "sign" in other:
        return looks != other
    for table in (words.COLOURS, words.KINDS):
        pattern = rf"\b(?:{words.any_of(table)})\b"
        mine, theirs = re.search(pattern, looks, re.IGNORECASE), re.search(pattern, other, re.IGNORECASE)
        if mine and theirs:
            a, b = mine[0].lower(), theirs[0].lower()
            if a in table[b] or b in table[a]:
                return True
    return False


def _surroundings(case: RuleCase, value: str) -> list[OptionReason]:
    """ "two moving cars" for yes, what else is there for no."""
    direction, state = case.group("direction"), case.group("state")
    kind = words.singular(case.group("kind"))
    there, states = case.facts.around.get(direction, ()), _by_state(case, kind, direction)
    if value == "yes":
        count = states.get(state, "") if state else {name: count for count, name in there}.get(kind, "")
        riders = case.group("riders")
        count = "" if riders else count  # the lists do not tell riders
        name = f"{state} {kind}".strip()

        def with_riders(number: str) -> str:
            return riders.replace("riders", "a rider") if number == "one" else riders

        return [
            OptionReason(f"{c} {words.plural(name, c)}{with_riders(c)}", "changed_count", share, true=c == count)
            for c, share in words.COUNTS.items() if c != "four" and {c, count} != {"three", "many"}
        ]  # fmt: skip
    rest: Items = tuple(item for item in there if item[1] != kind)
    known = kind not in {name for _, name in there}
    if states and state:
        rest, known = tuple((count, f"{other} {kind}") for other, count in states.items() if other != state), True
        if not rest:  # all of them are in the state asked for: another state contradicts the annotation
            return [
                OptionReason(say_items([(count, f"{other} {kind}")]), "changed_state", words.COUNTS[count] * share)
                for count in ("one", "two", "many") for other, share in words.STATE_SHARES.items()
                if other in words.STATES[state]
            ]  # fmt: skip
    true = known and bool(rest) and case.kind.value_of(case.answer) == "no"
    found = [OptionReason(say_items(rest), "removed_object", 0.3, true=true)] if rest else []
    varied = _varied(rest or there, kind, others=bool(rest))
    return [*found, *(OptionReason(say_items(items), "changed_list", 0.2) for items in varied)]


def _varied(items: Items, kind: str, others: bool) -> Iterable[Items]:
    """The list with one count or class changed; without the class in question."""
    for i, (count, name) in enumerate(items):
        state, _, bare_name = name.rpartition(" ") if name.split()[0] in words.STATES else ("", "", name)
        for other in ("one", "two", "many"):
            if others and other != count and count not in ("three", "many"):
                yield (*items[:i], (other, name), *items[i + 1 :])
        for other in words.CLASSES.get(bare_name, ()):
            if not state and other != kind and other not in {n for _, n in items}:
                yield (*items[:i], (count, other), *items[i + 1 :])


def _by_state(case: RuleCase, kind: str, direction: str) -> dict[str, str]:
    """State -> count, as the frame's status question tells: "Many cars are moving, and one is parked."."""
    answer = case.facts.status.get((kind, direction), "").lower()
    found = {}
    for part in re.split(r",? and |, ", answer):
        state = re.search(rf"\b(?:is|are) ({words.any_of(words.STATES)})\b", part)
        count = re.match(rf"({words.any_of(words.NUMBERS)})\b", part)
        if state:
            found[state[1]] = count[1] if count else "one"
    return found
