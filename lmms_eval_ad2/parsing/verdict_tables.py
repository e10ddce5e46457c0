"""Verdicts on several candidates at once: a table, a JSON object or a list that rates each option (or "yes" and "no").

`{"A": false, "B": true}`, `A: 70%` in lines, rows with check marks. The only candidate that is marked as right, or the
one with the highest number, is the answer; two of them are "several".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values

RIGHT = frozenset(
    ("true", "yes", "correct", "right", "selected", "chosen", "✓", "1.0", "正确", "对", "是", "符合", "选中")
)
WRONG = frozenset(
    (
        "false",
        "no",
        "incorrect",
        "wrong",
        "not selected",
        "impossible",
        "✗",
        "错误",
        "错",
        "不对",
        "不正确",
        "否",
        "不是",
        "不符合",
        "排除",
    )
)
_TICKS = {
    **dict.fromkeys(map(ord, "✅✔☑√🗸🗹"), "✓"),
    **dict.fromkeys(map(ord, "❌✘✖☒❎╳"), "✗"),
    0xFE0F: None,  # the variation selector that makes a sign an emoji
}
_CROSS = re.compile(r"(?<!\d)\s?[×✕](?!\s?\d)")
_CHECKBOX = re.compile(r"[\[(](?: ?(?P<set>[xX✓]) ?| {1,2})[\])](?=\s*\S)|\[\](?=\s*\S)")
_WORDS = "|".join(sorted((re.escape(word) for word in RIGHT | WRONG), key=len, reverse=True))
_ROW = re.compile(
    r"[\s|>*-]*(?:\d{1,2}[.)] )?(?:p(?:rob(?:ability)?)?(?=\())?(?:option |choice "
    r"|选项 ?)?[(\[]?(?P<key>[A-Za-z]|yes|no|是|否)[)\]]?(?:(?P<name>[^\n✓✗]{0,80}?)\s*[|:：=→>-]+\s*|\s+"
    r"|(?<=[)\]])|(?=\())"
    rf"\(?(?P<value>{_WORDS}|\d{{1,3}}(?:\.\d{{1,6}})? ?%?)分?\)?(?:[\s,;.|(：:-][^\n]{{0,120}})?",
    re.IGNORECASE,
)
# "B. Correct - a red arrow is lit": a verdict beside the letter. Words that are often an option's text are left out.
_CALLED_ROW = re.compile(
    r"[\s|>*-]*(?:option |choice |选项 ?)?[(\[]?(?P<key>[A-Z])[)\]]?(?:选?项)?[.:、)]?\s{0,2}(?:是)?"
    r"(?P<value>correct|incorrect|wrong|正确|错误|不正确|不对|不符合|符合)\s?(?:[-,.;:(、][^\n]{0,400})?",
    re.IGNORECASE,
)
# "B. The child could run into the road. Correct.": the verdict ends the line.
_ENDED_ROW = re.compile(
    r"[\s|>*-]*(?:option |choice |选项 ?)?[(\[]?(?P<key>[A-Z])[)\]]?(?:选?项)?[.:、)][^\n]{1,400}?[.!,;:)-]\s?\(?"
    r"(?:描述|说法|表述|该项)?(?P<value>correct|incorrect|wrong|正确|错误|不正确|不对|不符合|符合)\)?\s?[.!]?",
    re.IGNORECASE,
)
_TICKED = re.compile(
    r"[\s|>*\d.-]*(?:(?P<tick>[✓✗])\s{0,3}(?:option |choice |选项 ?)?[(\[]?(?P<key>[A-Z])(?![A-Za-z0-9])"
    r"|(?:option |choice |选项 ?)?[(\[]?(?P<key2>[A-Z])(?![A-Za-z0-9])[^✓✗]*(?P<tick2>[✓✗]))",
    re.IGNORECASE,
)
_TICK_AFTER = re.compile(r"(?<![A-Za-z0-9])(?P<key>[A-Z])[.:)、]?\s{0,2}\(?\s{0,2}(?P<tick>[✓✗])\s?\)?")
_TICK_BEFORE = re.compile(r"(?P<tick>[✓✗])\s{0,3}(?P<key>[A-Z])(?![A-Za-z0-9])")
_NUMBER = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%?")


def with_ticks(text: str) -> str:
    """`text` with all kinds of check marks as ✓ and ✗, also `[x]` and `[ ]`."""
    return _CHECKBOX.sub(lambda box: "✓ " if box["set"] else "✗ ", _CROSS.sub(" ✗", text.translate(_TICKS)))


def rated(pairs: Iterable[tuple[str, Any]], candidates: Iterable[str]) -> list[str] | None:
    """The best rated candidates; None unless two or more candidates are rated, all of them in one way."""
    wanted = {candidate.upper() for candidate in candidates}
    ratings: dict[str, float | bool] = {}
    for key, value in pairs:
        name = re.sub(r"(?i)^(?:option|choice|选项)[ _]?|[^\w]", "", key).upper()
        if name not in wanted:
            continue
        rating = _rating(value)
        if rating is None:
            return None
        ratings[name] = rating
    if len(ratings) < 2 or len({isinstance(rating, bool) for rating in ratings.values()}) > 1:
        return None
    best = max(ratings.values())
    if best is False:  # all but one are called wrong: the one that is not rated
        left = wanted - set(ratings)
        return sorted(left) if len(left) == 1 else []
    return [name for name, rating in ratings.items() if rating == best]


def rated_in_json(text: str, candidates: Iterable[str]) -> list[str] | None:
    """`rated` for the last object in `text` that rates candidates."""
    names = [name.upper() for name in candidates]
    found: list[str] | None = None
    rows: list[tuple[str, Any]] = []
    for value, _, _ in json_values(text, most=200):
        for node in _objects(value):
            found = rated(node, names) or found
            rows += _row_of(node, names)
    return found or rated(rows, names)


def _row_of(node: KeyValuePairs, candidates: Iterable[str]) -> list[tuple[str, Any]]:
    """(candidate, rating) of an object such as {"option": "A", "correct": false}; empty for another."""
    letters = [value for _, value in node if isinstance(value, str) and value.strip().upper() in set(candidates)]
    ratings = [value for _, value in node if isinstance(value, (bool, float, int))]
    return [(letters[0], ratings[0])] if len(letters) == len(ratings) == 1 else []


def rated_in_rows(text: str, candidates: Iterable[str], *, worst: bool = False) -> list[str] | None:
    """`rated` for text in which each line with a candidate at its head gives a rating of it.

    `worst`: the question asks for what is wrong, so that the only candidate that is called wrong is the answer.
    """
    lines = text.split("\n")[:200]
    for pattern in (_TICK_AFTER, _TICK_BEFORE):
        pairs = [(match["key"], match["tick"]) for match in pattern.finditer(text[:4000])]
        if len(pairs) > 1 and len(pairs) == len(re.findall("[✓✗]", text[:4000])):
            return rated(pairs, candidates)
    whole = text[:2000]
    for parts in (lines, re.split(r"[\n,;]", whole), re.split(r"[.;\n]\s?(?=\(?[A-Z](?![A-Za-z]))", whole)):
        if best := _rated_rows(parts, candidates, worst=worst):
            return best
    return None


def _rated_rows(lines: Iterable[str], candidates: Iterable[str], *, worst: bool) -> list[str] | None:
    pairs = []
    for line in lines:
        ticked = _TICKED.match(line[:200])
        if ticked and len(re.findall("[✓✗]", line[:200])) == 1:
            pairs.append((ticked["key"] or ticked["key2"], ticked["tick"] or ticked["tick2"]))
        else:
            bare = line.strip().strip("|").strip()
            row = _ROW.fullmatch(bare) or _CALLED_ROW.fullmatch(bare) or _ENDED_ROW.fullmatch(bare)
            if row and _rating(row["value"]) is not None:
                pairs.append((row["key"], row["value"]))
    if worst and pairs and all(isinstance(_rating(value), bool) for _, value in pairs):
        wrong = {key.upper() for key, value in pairs if not _rating(value)}
        return sorted(wrong) if len(pairs) > 2 else None
    return rated(pairs, candidates)


def _rating(value: Any) -> float | bool | None:
    """True or False for words and marks, a number for scores, None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return float(value)
    word = str(value).strip().lower().rstrip(".!")
    if word in RIGHT or word in WRONG:
        return word in RIGHT
    number = _NUMBER.fullmatch(word)
    return float(number[1]) if number else None


def _objects(value: Any) -> Iterable[KeyValuePairs]:
    """All objects within a decoded value. Iterative, since the depth is not limited."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, KeyValuePairs):
            yield node
            waiting.extend(item for _, item in node)
        elif isinstance(node, list):
            waiting.extend(node)
