"""Three wrong options beside the right one, so that no form of guessing finds the right one.

- Two fields of the answer are changed: the options are the four combinations of two values each. Every option then
  differs from two others in one field and from the third in both: none is the odd one, none the most similar.
- One field with four values.
- A closed answer with a fact: of four options, k have the usual value; P(usual is right | k) = k / 4, so that neither
  the usual value nor the value that stands alone is right more often than by chance (up to shares of 3/4).

Wrong values are drawn by the odds with which they are right elsewhere (conditional Poisson sampling).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lmms_eval_ad2.mcq.base import SELECTED
from lmms_eval_ad2.mcq.rules.answer_parts import AnswerPart, read_parts, write
from lmms_eval_ad2.mcq.rules.frame_facts import NUMBERS, TAG, plural, singular, with_article
from lmms_eval_ad2.mcq.rules.kinds import OptionReason, QuestionKind, RuleCase, reasons

_SHARED = 0.75
_LEAST = 0.03  # share of a value that is in no table
COUNT_WORDS = ("zero", *NUMBERS[:10])

Wrong = tuple[str, str]  # text and operation


class OptionSet(NamedTuple):
    """The right option, the annotated answer or its restatement, and three wrong ones."""

    right: str
    wrong: tuple[Wrong, ...]


def options_of(case: RuleCase, rng: random.Random) -> OptionSet | None:
    """Draw the options of a question; None if its annotations give fewer than three wrong ones."""
    kind = case.kind
    if kind.order:
        return _orders(case, rng)
    if kind.count:
        return _counts(case, rng)
    if kind.values:
        return _closed_with_fact(case, rng) if kind.fact else _closed(case, rng)
    return _changed_fields(case, rng)


def draw(texts: Iterable[tuple[str, float]], count: int, rng: random.Random) -> list[str]:
    """Up to `count` of the texts without replacement, by the odds of their shares (Efraimidis and Spirakis)."""
    keyed = [(rng.random() ** ((1 - min(share, 0.9)) / max(share, 1e-3)), text) for text, share in texts]
    return [text for _, text in sorted(keyed, reverse=True)[:count]]


def _changed_fields(case: RuleCase, rng: random.Random) -> OptionSet | None:
    answer = case.answer
    parts = read_parts(answer, case.kind.operations, case)
    places = [(i, j) for i, part in enumerate(parts) for j, one in enumerate(part.fields) if one.others]
    if not places:
        return None
    chosen = rng.sample(places, min(2, len(places)))
    operations = [parts[i].fields[j].operation for i, j in chosen]
    if len(chosen) == 1:
        values = _draw_values(parts, chosen[0], SELECTED, (), rng)
        wrong = tuple((write(answer, parts, {chosen[0]: value}), operations[0]) for value in values)
        return OptionSet(answer, wrong) if len(wrong) == SELECTED else None
    changes: dict[tuple[int, int], str] = {}
    for place in chosen:
        values = _draw_values(parts, place, 1, tuple(changes.values()), rng)
        if not values:
            return None
        changes[place] = values[0]
    alone = [({place: value}, operation) for (place, value), operation in zip(changes.items(), operations, strict=True)]
    both = (changes, "+".join(dict.fromkeys(operations)))
    return OptionSet(answer, tuple((write(answer, parts, change), operation) for change, operation in (*alone, both)))


def _draw_values(
    parts: Sequence[AnswerPart], place: tuple[int, int], count: int, drawn: Sequence[str], rng: random.Random
) -> list[str]:
    """Draw other values of a field. A class or action that the answer already has is not drawn."""
    one = parts[place[0]].fields[place[1]]
    taken: set[str] = set()
    if one.operation in ("changed_class", "changed_action"):
        taken = {*drawn, *(other.value for part in parts for other in part.fields if other.operation == one.operation)}
    return draw(((value, one.shares.get(value, _LEAST)) for value in one.others if value not in taken), count, rng)


def _orders(case: RuleCase, rng: random.Random) -> OptionSet | None:
    """The tags of the answer in other orders, in its places."""
    tags = TAG.findall(case.answer)
    if len(tags) < 3 or len(set(tags)) != len(tags):
        return None
    orders: list[list[str]] = []
    while len(orders) < SELECTED:
        order = rng.sample(tags, len(tags))
        if order != tags and order not in orders:
            orders.append(order)
    texts = [TAG.sub(lambda _, places=iter(order): next(places), case.answer) for order in orders]  # type: ignore[misc]
    return OptionSet(case.answer, tuple((text, "swapped_order") for text in texts))


def _counts(case: RuleCase, rng: random.Random) -> OptionSet | None:
    """Four neighbouring counts; the right one has any rank among them."""
    word = case.answer.rstrip(".").lower()
    digits = word.isascii() and word.isdecimal() and len(word) < 4
    if not digits and word not in COUNT_WORDS:
        return None
    right = int(word) if digits else COUNT_WORDS.index(word)
    lowest = max(0, right - rng.randrange(SELECTED + 1))
    wrong = [n for n in range(lowest, lowest + SELECTED + 1) if n != right]
    said = [str(n) if digits or n >= len(COUNT_WORDS) else COUNT_WORDS[n].capitalize() for n in wrong]
    return OptionSet(case.answer, tuple((text, "changed_count") for text in said))


def _closed(case: RuleCase, rng: random.Random) -> OptionSet | None:
    kind, right = case.kind, case.kind.value_of(case.answer)
    if not right:
        return None
    beside: set[str] = set()
    if kind.name == "action":  # another reason for the right action, and actions that it allows, may be true as well
        wrong_actions = case.wrong_actions(right.split()[0])
        beside = {name for name in kind.values if name.split()[0] not in wrong_actions}
    others = draw(((n, v.share) for n, v in kind.values.items() if n != right and n not in beside), SELECTED, rng)
    if len(others) < SELECTED:
        return None
    kinds = plural(singular(case.group("kind")), "two")
    right_text, *texts = [kind.values[name].text.format(kinds=kinds) for name in (right, *others)]
    return OptionSet(right_text, tuple((text, "changed_value") for text in texts))


def _closed_with_fact(case: RuleCase, rng: random.Random) -> OptionSet | None:
    """The right value with its fact, and other values or facts; facts differ among the options of a group.

    The groups are the options with the usual value and the rest. With the probability _SHARED, one fact of the right
    option's group, drawn evenly, is in the other group too, so that a fact that stands twice reveals nothing.
    """
    kind, right = case.kind, case.kind.value_of(case.answer)
    own = next((reason for reason in reasons(case, right) if reason.true), None) if right else None
    if not own:
        return None
    usual = max(kind.values, key=lambda name: kind.values[name].share)
    rest = [(name, value.share) for name, value in kind.values.items() if name != usual]
    with_usual = number_with_usual(kind, right == usual, rng) - (right == usual)
    names = [usual] * with_usual + [draw(rest, 1, rng)[0] for _ in range(SELECTED - with_usual)]
    beside, used, shared = {own.text}, set[str](), rng.random() < _SHARED
    wrong = []
    for name in sorted(names, key=lambda name: (name == usual) != (right == usual)):  # the right option's group first
        in_group = (name == usual) == (right == usual)
        pool = [reason for reason in reasons(case, name) if reason.text not in (beside if in_group else used)]
        common = [reason for reason in pool if reason.text in beside]
        if common and shared and not used:
            reason = rng.choice(common)
        else:
            fresh = [reason for reason in pool if reason.text not in beside] or pool
            drawn = draw(((reason.text, reason.share) for reason in fresh), 1, rng)
            if not drawn:
                return None
            reason = next(reason for reason in fresh if reason.text == drawn[0])
        (beside if in_group else used).add(reason.text)
        changed = [] if name == right else ["changed_value"]
        wrong.append((_said(kind, name, reason), "+".join([*changed, *([] if reason.true else [reason.operation])])))
    return OptionSet(_said(kind, right, own), tuple(wrong))


def number_with_usual(kind: QuestionKind, usual_is_right: bool, rng: random.Random) -> int:
    """Draw k, the number of options with the usual value, so that P(usual is right | k) = k / 4.

    With the weights w(k) of k and k + 1 such that the mean of k is 4 p, p the share of the usual value:
    P(k | usual is right) = w(k) k / 4p. For p > 3/4 the mean is 3, since the other value needs an option.
    """
    if len(kind.values) == 1:
        return SELECTED + 1
    mean = min(SELECTED, max(1.0, 4 * max(value.share for value in kind.values.values())))
    low = min(int(mean), SELECTED - 1)
    weights = [
        weight * (k if usual_is_right else SELECTED + 1 - k)
        for k, weight in ((low, 1 - (mean - low)), (low + 1, mean - low))
    ]
    return rng.choices((low, low + 1), weights)[0]


def _said(kind: QuestionKind, name: str, reason: OptionReason) -> str:
    text = kind.values[name].text.replace("a {fact}", with_article(reason.text)).format(fact=reason.text)
    return text[:1].upper() + text[1:]
