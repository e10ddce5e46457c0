"""Parse a count: a whole number in digits or words, English or Chinese. Ranges, bounds and vague words are refused."""

from __future__ import annotations

import re
from itertools import pairwise, starmap

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing.clauses import CONCLUSION, TextClause, clause_at, clauses
from lmms_eval_ad2.parsing.number_mentions import MEASURE, NumberMention, classified, number_tokens, with_ranges
from lmms_eval_ad2.parsing.number_words import ONES
from lmms_eval_ad2.parsing.presence import NOT_ONE
from lmms_eval_ad2.parsing.question_words import counted_noun, counts_another, telling_words
from lmms_eval_ad2.parsing.refusals import declines, hedges, no_verdict, without_refusals
from lmms_eval_ad2.parsing.revisions import REVISION

_DOZENS = {
    "half a dozen": "6",
    "a half dozen": "6",
    "one dozen": "12",
    "a dozen": "12",
    "a pair of": "2",
    "俩": "两个",
    "仨": "三个",
}
_DOZEN = re.compile("|".join(_DOZENS), re.IGNORECASE)
_COORDINATES = re.compile(r"[<\[(][^<>\[\]()\n]{0,60}\d ?, ?-?\d[^<>\[\]()\n]{0,60}[>\])]")
_SINGLE = re.compile(
    r"(\A|[.!?:\n] ?|\b(?:there(?: is|'s|'s)|i(?: can)? see|shows|contains|only|just) (?:only "
    r"|just )?)a single\b(?! (?:lane|file|row|line)\b)"
)
_COUNTING = re.compile(r"\b(?:let me|let's|let us|i'll|i will|now i|i) count(?= ?:)")  # "Let me count: 1, 2, 3."
_OTHERS = re.compile(r"\bother \Z")
_OTHERS_RIGHT = re.compile(r" other\b")
_NONE = re.compile(
    r"\bthere (?:is|are|was|were)(?: no\b|n't any\b| not any\b| none\b)(?! (?:other|more|additional))"
    r"|\bno [a-z]+(?: [a-z]+)? (?:is|are|can be) (?:visible|present|seen)\b|没有(?!其他|别的)|不存在"
)
# Without a thing: "There are none.", 图中没有.
_NONE_AT_ALL = re.compile(
    r"(?:\bnone|\b(?:not|n't) any|没有|不存在)(?: (?:here|visible|at all|(?:in|on) .{1,20}))?\s*\Z"
)
_SEES_NO = (
    r"(?:\b(?:cannot|can not|do not|did not|could not)|n't) (?:see|find|detect|spot|identify|observe) (?:any|a single) "
    r"|(?:没有?|未)(?:看到|发现|检测到)(?:任何)?|看不到(?:任何)?"
)
# Other parts of what is counted, whose number is not said.
_REST = re.compile(
    r"\bthe (?:rest|others|remaining)\b|(?<=[.,;] )excluding\b"
    r"|\b(?:half|most|both|some|none) of (?:them|these|those)\b|(?<!, one for )(?<!, one on )(?<!, one at )\beach\b"
    r"|各有?|其余|剩下|一半"
)
_ANOTHER = re.compile(r"[^:(]*\banother\b")  # "one here and another there"; not in "two: one …, another …"
_ANSWER = re.compile(r"(?:\banswer|答案)[^\n.]{0,20}\Z")
_QUOTED_TEXT = re.compile(r"\"(?=[^\"\n]*[A-Za-z])[^\"\n]{2,80}\d[^\"\n]{0,80}\"")  # numbers that are written on a sign
_NONE_OF_ALL = re.compile(r"\W{0,3}(?:none|neither) of (?:the|these|those|them)\b[^.!?;\n]*[.!]?\s*\Z")
_NONE_WHOLE = frozenset(("none", "nothing", "没有", "无", "零"))
_VAGUE = re.compile(
    r"\b(?:several|few|many|multiple|numerous|some|lots?|dozens?|hundreds?|couple|various|countless|plenty)\b"
    rf"|几|许多|很多|多[{MEASURE}]|若干|一些|大量|数辆|一群"
)
_PARTIAL = re.compile(r"其中|\bof (?:which|whom|them|these|those)\b|\bincluding\b")
_ROW_LABEL = re.compile(
    r"(?:\A|[\n{,|])[\s\"'|-]*(?P<label>[a-z\u4e00-\u9fff][a-z_ \u4e00-\u9fff]{0,40}?)[\s\"']*[:|=][\s\"']*\Z"
)
# Before a number that repeats an earlier one: "three (3)", "the 3 cars".
_REPEATS = re.compile(
    r"(?:\b(?:the|these|those|all|all the|of them|that is|i\.e\.,?|namely|or|yes,?|so,?)|[(\[=]|[这那]|即|也就是)\s?\Z"
)
_SIDE = re.compile(r"(?<![a-z])(?:left|right)(?![a-z])|[左右]")
_PLACE_WORD = re.compile(r"(?<![a-z])(?:left|right|in front|behind|ahead|rear|back)(?![a-z])|[左右]|前[面方]|后[面方]")
_FEW = 4  # numbers, each with a side
_AT_HEAD = 10  # characters before a number at the head
_BREAKDOWN = re.compile(r"[:(]")


def read_count(text: str, question: str = "") -> Answer | Unparsed:
    """The final number of plain `text`. "No cars" is 0; "about 10" is 10, with the note "approximate".

    `question` ("How many lanes …?") says which of several numbers counts.
    """
    noun = counted_noun(question)
    if noun and re.search(rf"(?:{_SEES_NO})(?:[a-z]+ )?(?:{noun})", without_refusals(text.lower())[0]):
        return Answer("count", 0)
    text = _QUOTED_TEXT.sub(" ; ", text)
    text = _DOZEN.sub(lambda match: _DOZENS[match.group().lower()], text)
    low = _SINGLE.sub(r"\1one", _COORDINATES.sub(" ; ", without_refusals(text.lower())[0]))
    low = _with_counted(low, noun) if noun else low
    if NOT_ONE.search(low) or (noun and _none_of(low, noun)) or _NONE_OF_ALL.match(low):
        return Answer("count", 0)
    if low.strip(" .!\"'()") in _NONE_WHOLE:
        return Answer("count", 0)
    low = _COUNTING.sub(" ", low)
    low = re.sub(r"\bof (?:which|whom)\b", "of them", low)  # no end of the clause
    former = [part for part in clauses(low) if part.former]
    open_ = [part for part in clauses(low) if part.conditional or part.open]
    found = with_ranges(low, [item for match in number_tokens(low) if (item := classified(low, match))])
    found = [item for item in found if not _within(item, open_)]
    kept = [item for item in found if not _within(item, former)]
    found = _without_others(low, kept or found, question)
    chosen = _chosen(low, found, noun) or _of_side(low, found, question)
    chosen = _restricted(low, found, chosen, question)
    if chosen is None:
        none = [part for part in clauses(low) if _NONE.search(part.text) and not part.tentative]
        if len(found) > 1 or (found and none):
            return Unparsed("count", "too_many_numbers", text[-200:])
        if none and all(_NONE_AT_ALL.search(part.text) or (not noun or re.search(noun, part.text)) for part in none):
            return Answer("count", 0)
        return Unparsed("count", "hedged" if _VAGUE.search(low) else no_verdict(text), text[-200:])
    fault = _fault(low, found, chosen, question)
    if fault or chosen.value is None:
        return Unparsed("count", fault, text[-200:])
    return Answer("count", chosen.value, "approximate" if chosen.about else "")


def _fault(low: str, found: list[NumberMention], chosen: NumberMention, question: str) -> str:
    """The reason code why the chosen number is no count of what `question` asks for; "" if it is one."""
    after, noun = low[chosen.end :], counted_noun(question)
    if chosen.strong:
        return chosen.fault
    if hedges(after) or declines(after) or clause_at(clauses(low), chosen.start).tentative:
        return "hedged"
    if chosen.fault:
        return chosen.fault
    if _in_another_place(low, found, chosen, question.lower()) or _REST.search(low) or _ANOTHER.match(low, chosen.end):
        return "too_many_numbers"
    return "no_verdict" if noun and counts_another(after, noun) else ""


def _within(item: NumberMention, parts: list[TextClause]) -> bool:
    return any(part.start <= item.start < part.start + len(part.text) for part in parts)


def _with_counted(low: str, noun: str) -> str:
    """Lower-case text with "three-lane" as "three lane", and "both lanes" as "2 lanes"."""
    low = re.sub(rf"(?<![a-z0-9])([a-z]+|\d+)-({noun})", r"\1 \2", low)
    last = noun.rsplit("\\ ", 1)[-1]  # "both officers" are two police officers
    return re.sub(rf"\bboth (?:of )?(?:the |these )?(?=(?:[a-z]+ )?(?:{last}))", "2 ", low)


def _none_of(low: str, noun: str) -> bool:
    """Whether the text says that there are no `noun`, and gives no number of them."""
    none = re.search(rf"(?<!, )\b(?:no|zero) (?!other|more|further|additional)(?:[a-z]+ )?(?:{noun})", low)
    return bool(
        none
        and not re.search(
            rf"(?:\d|{'|'.join(ONES)})[ -](?:[a-z]+ )?(?:{noun})", low[: none.start()] + low[none.end() :]
        )
    )


def _without_others(low: str, found: list[NumberMention], question: str) -> list[NumberMention]:
    """If a reply begins with a number ("Just one: …"), the numbers but those of others ("the two other lanes")."""
    if "other" in question.lower() or not found or found[0].start >= _AT_HEAD:
        return found
    kept = [
        item
        for item in found
        if not (_OTHERS_RIGHT.match(low, item.end) or _OTHERS.search(low[max(0, item.start - 7) : item.start]))
    ]
    return kept or found


def _of_side(low: str, found: list[NumberMention], question: str) -> NumberMention | None:
    """ "2 on the left and 6 on the right": the number of the side that the question asks for."""
    asked = set(_SIDE.findall(question.lower()))
    if len(asked) != 1 or not 1 < len(found) < _FEW or any(item.fault for item in found):
        return None
    ends = [*(item.start for item in found[1:]), len(low)]
    sides = [set(_SIDE.findall(low[item.end : end])) for item, end in zip(found, ends, strict=True)]
    if any(len(side) != 1 for side in sides) or len({min(side) for side in sides}) != len(sides):
        return None
    return next((item for item, side in zip(found, sides, strict=True) if side == asked), None)


def _in_another_place(low: str, found: list[NumberMention], chosen: NumberMention, question: str) -> bool:
    """Whether `chosen` counts at one place only: "2 cars on the left, 3 on the right", "Left: 2"."""
    asked = set(_PLACE_WORD.findall(question))
    ends = [*(item.start for item in found[1:]), len(low)]
    places = {item.start: set(_PLACE_WORD.findall(low[item.end : end])) for item, end in zip(found, ends, strict=True)}
    others = [said for start, said in places.items() if start != chosen.start and said]
    own = places[chosen.start]
    breakdown = _BREAKDOWN.search(low[chosen.end : next((i.start for i in found if i.start > chosen.start), len(low))])
    if own and not own & asked and not breakdown and any(not said & own for said in others):
        return True
    label = _ROW_LABEL.search(low[max(0, chosen.start - 60) : chosen.start])
    return bool(label and (of := set(_PLACE_WORD.findall(label["label"]))) and not of & asked)


def _restricted(
    low: str, found: list[NumberMention], chosen: NumberMention | None, question: str
) -> NumberMention | None:
    """`chosen`, or the number of the part that the question restricts the count to; None if that part has several."""
    words = _restricting(question, counted_noun(question))
    if chosen is None or (words and found[-1].start > chosen.start and not _ANSWER.search(low[: chosen.start])):
        asked = _of_asked(low, found, words)
        partial = chosen is None or (chosen.strong and _PARTIAL.search(low[chosen.end :]))
        if partial or (asked and chosen not in asked):
            chosen = asked[0] if len(asked) == 1 else None
    return chosen


def _restricting(question: str, noun: str) -> set[str]:
    """The words of a question that restrict what it counts: "in the ego lane", 正在行驶."""
    words = telling_words(question)
    words |= set(re.findall(r"\b(?:ego|red)\b", question.lower())) if words else words
    counted = tuple(re.findall(r"[a-z]{3,}", noun.split("(")[0]))
    return {word for word in words if not word.startswith(counted) and word not in noun}


def _of_asked(low: str, found: list[NumberMention], words: set[str]) -> list[NumberMention]:
    """The numbers in clauses with the most of `words`; none if no clause has any, or a number is at fault."""
    if any(item.fault for item in found):
        return []
    parts = clauses(low)
    said = {part.start: sum(word in part.text for word in words) for part in parts}
    scores = [said[clause_at(parts, item.start).start] for item in found]
    best = max(scores, default=0)
    return [item for item, score in zip(found, scores, strict=True) if score == best > 0]


def _labels(left: str, noun: str) -> bool:
    """Whether the text before a number is a label of what is counted: `"ambulance": 1`, `| Warning | 4`."""
    label = _ROW_LABEL.search(left)
    words = re.findall(r"[a-z]+|[\u4e00-\u9fff]+", label["label"]) if label else []
    return bool(words) and all(re.search(rf"(?<![a-z]){re.escape(word.rstrip('s'))}", noun) for word in words)


def _concluded(low: str, found: list[NumberMention]) -> NumberMention | None:
    """The number of the last clause that is a conclusion or follows a correction, if that clause has just one."""
    revised = [match.end() for match in REVISION.finditer(low)]
    after = [item for item in found if revised and item.start >= revised[-1]]
    if after and len({item.value for item in after}) == 1:
        return after[-1]
    parts = clauses(low)
    for part, following in zip(reversed(parts), (None, *reversed(parts)), strict=False):
        stop = following.start if following else len(low)
        inside = [item for item in found if part.start <= item.start < stop]
        if inside and CONCLUSION.search(part.begins_with + " " + part.text[: max(0, inside[0].start - part.start)]):
            return inside[-1] if len({item.value for item in inside}) == 1 else None
    return None


def _are_parts(low: str, same: list[NumberMention]) -> bool:
    """Whether equal numbers count several groups ("one on the left, one on the right") and do not repeat each other."""
    parts = clauses(low)
    first = clause_at(parts, same[0].start)

    def repeats(before: NumberMention, item: NumberMention) -> bool:
        clause = clause_at(parts, item.start)
        return bool(
            item.fault
            or _REPEATS.search(low[max(0, item.start - 16) : item.start])
            or not re.search(r"[\w+]", low[before.end : item.start])
            or (
                clause is not first
                and re.search(r"[^\W\d]{3}", first.text) is not None
                and clause.text.strip().startswith(first.text.strip())
            )
        )

    return not all(starmap(repeats, pairwise(same)))


def _chosen(low: str, found: list[NumberMention], noun: str) -> NumberMention | None:
    """The last number called the answer or the total; else that of a conclusion or a correction, or of what was asked.

    Else the only number, or the sum that a breakdown follows.
    """
    labelled = [item for item in found if noun and _labels(low[max(0, item.start - 60) : item.start], noun)]
    if len({item.value for item in labelled}) == 1:
        return labelled[-1]
    strong = [item for item in found if item.strong]
    concluded = _concluded(low, found)
    if concluded and (not strong or concluded.start > strong[-1].start):
        return concluded
    if strong:
        return strong[-1]
    named = [
        item
        for item in found
        if noun
        and re.match(rf"[)\]\"' ]{{0,3}}[{MEASURE}]?(?:[a-z]+ ){{0,2}}(?:{noun})", low[item.end : item.end + 60])
    ]
    for same in (named, found):
        if len({(item.value, item.fault) for item in same}) == 1 and not (same is found and _NONE.search(low)):
            return None if _are_parts(low, same) else same[-1]
    weak = [item for item in found if item.weak]
    if len(weak) == 1 and weak[0] is found[0] and len(found) > 1 and not _NONE.search(low):
        parts = found[1:]
        sums = weak[0].value is not None and weak[0].value == sum(part.value or 0 for part in parts)
        if sums or _BREAKDOWN.search(low[weak[0].end : parts[0].start]):
            return weak[0]
    return None
