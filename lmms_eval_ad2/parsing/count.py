"""Parse a count: a whole number in digits or words, English or Chinese. Ranges, bounds and vague words are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lmms_eval_ad2.parsing.clauses import CONCLUSION, clause_at, clauses
from lmms_eval_ad2.parsing.normalise import declines, hedges, no_verdict, without_refusals
from lmms_eval_ad2.parsing.number_words import ONES, TENS
from lmms_eval_ad2.parsing.presence import NOT_ONE
from lmms_eval_ad2.parsing.question_words import counted_noun, counts_another, telling_words
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.records import Answer, Unparsed

_ZH = {sign: value for value, sign in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2, "俩": 2}
_MEASURE = "辆个名位人台只条盏座块根处架艘棵匹头张栋支把件"
_MAX_DIGITS = 9
_MOST = 2_000  # numbers examined, the last ones of the text; more occur only if a model repeats itself endlessly

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<digits>\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?P<fraction>\.\d+)?(?![A-Za-z0-9_]|-[a-z])(?!\.\d)"
    rf"|(?<![a-z-])(?P<word>(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(list(ONES)[1:10])}))?|{'|'.join(ONES)})"
    r"(?![a-z]|-[a-z])(?! (?:hundred|thousand|dozen))"
    rf"|(?<!第)(?<![零〇一二两三四五六七八九十百])(?P<zh>[零〇一二两俩三四五六七八九十百]{{1,6}})(?=[{_MEASURE}]|车道"
    rf"|[)\]}}\"']{{0,3}}\s?(?:\Z|[.,;!\n到至或~-]))"
)
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
_LIST_ITEM = re.compile(r"(?m)^ ?(\d{1,2})[.)、] ?(?=[^\s\d])")
_INLINE_ITEM = re.compile(r"(?:\A|[:,;.] ?)\(?(\d{1,2})\) ?(?=[^\s\d])")  # "1) a van, 2) a bus"
_LABEL_LEFT = re.compile(
    r"(?:\b(?:step|image|figure|fig\.?|frame|lane|camera|cam|route|highway|line|option|page|picture|view|photo|score"
    r"|confidence|rating|level|no\.)|#|第|步骤|图|置信度) ?[:#]? ?\Z"
    r"|\b(?:number|car|vehicle|truck|bus|object|pedestrian) \Z"
    r"|限速 ?\Z|其中 ?\Z|\blimit(?: \w+){0,2} \Z|(?:\bnot|不是) ?\Z"
)
_UNIT_RIGHT = re.compile(
    r" ?(?:%|°|米|公里|秒|分钟|度|点|年|月|日|号|岁|时)"
    r"|[ -]?(?:m|km|cm|meters?|metres?|kph|mph|km/h|seconds?|s|minutes?|hours?|degrees?"
    r"|feet|foot|ft|px|pixels?|years?)\b|:\d\d"
)
_PRONOUN_LEFT = re.compile(
    r"\b(?:the|this|that|no|any|some|every|each|which|another|other|first|second|third|fourth|fifth|last|same|red|right|left"
    r"|closest|nearest|further|farther|larger|smaller) \Z"
)
# "Of the five lamps, two are lit": the number of all, of which some are counted.
_WHOLE_LEFT = re.compile(r"\b(?:of|among|out of) (?:all )?(?:the|these|those|all) \Z")
_WHOLE_RIGHT = re.compile(rf" ?[{_MEASURE}][\u4e00-\u9fff]{{0,6}}(?:中|当中|里面?)[,]? ?(?:有|仅|只)")
_ONE_PER = re.compile(r" (?:for|on|at|in|along) each\b| per\b")  # "four crosswalks, one for each arm"
_OTHERS = re.compile(r"\bother \Z")
_OTHERS_RIGHT = re.compile(r" other\b")
_HEADED = re.compile(
    r"\n ?(?:final )?(?:result|total|answer|count|conclusion|summary|结果|总数|总计|结论) ?:? ?\n+ ?\Z"
)
_RANGE_LEFT = re.compile(
    r"(?:\b(?:at least|at most|more than|less than|fewer than|over|up to|under|no (?:more|less|fewer) than)|[<>≥≤]=?"
    r"|至少|超过|不少于|最多|不到|多于|少于|不超过)有? ?\Z"
)
_RANGE_RIGHT = re.compile(
    rf" ?\+(?! ?\d)|,? or (?:more|fewer|less)\b| ?[{_MEASURE}]?(?:以上|以下|左右以上|多[{_MEASURE}])"
)
_RANGE_JOINT = re.compile(rf" ?[{_MEASURE}]? ?(?:-|~|to|or|到|至|或|或者|还是) ?")
_ABOUT = re.compile(r"(?:\b(?:about|approximately|around|roughly|nearly|almost)|大约|大概|约) ?\Z")
_DRESS = r"(?:(?:a |only|just|exactly|about|approximately|around|roughly|total of|仅|只|大约|约) ?)*[(\[{\"']{0,3}\Z"
_STRONG_LEFT = re.compile(
    r"(?:\b(?:answer|(?<!i )count|(?<!in )total|number|sum)\b[^.;\n\d]{0,60}?(?:\b(?:is|are|was|of)|[:=]) ?"
    r"|\b(?:in total|altogether|in all|overall),? ?(?:there (?:is|are)|i (?:can )?(?:see|count))? ?"
    r"|(?<!in )\b\w{0,20}(?:num|count|total|number)\w{0,20}[\"']?\s?[:=] ?|\b(?:exactly|precisely|a total of) "
    r"|\b(?:leaves|leaving|makes|making) (?:us with |it |just |only )?"
    r"|\bnot [^.;\n]{0,40}\bbut (?:only |just |rather )?|而是|(?:合计|总计|共计|总数"
    r"|(?<!in )\btotal(?: \w+)?)[\s|:]*|= ?"
    r"|\\boxed ?\{ ?|<answer> ?|答案[\"']?(?:是|为)?[: ]*"
    r"|(?:总共|一共|共计|合计|总计|共)有?[: ]*|(?:总数|数量)(?:是|为)?[: ]*"
    r"|(?:全图|图中|画面中?|图里)(?:仅|只|共|总共)有"
    r"|\b(?:answer|count|number|(?<!in )total)[\"']? ?: ?)" + _DRESS
)
_STRONG_RIGHT = re.compile(r"(?: [a-z]+){0,2} (?:in total|altogether|in all|total)\b")
_WEAK_LEFT = re.compile(
    r"(?:\bthere (?:is|are|were|was)|\bi (?:can )?(?:see|count|find|spot)|\b(?:shows?|contains?|has|have)|有|看到) ?"
    + _DRESS
)
_NONE = re.compile(
    r"\bthere (?:is|are|was|were)(?: no\b|n't any\b| not any\b| none\b)(?! (?:other|more|additional))"
    r"|\bno [a-z]+(?: [a-z]+)? (?:is|are|can be) (?:visible|present|seen)\b|没有(?!其他|别的)|不存在"
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
_ANSWER = re.compile(r"(?:\banswer|答案)[^\n.]{0,20}\Z")
_QUOTED_TEXT = re.compile(r"\"(?=[^\"\n]*[A-Za-z])[^\"\n]{2,80}\d[^\"\n]{0,80}\"")  # numbers that are written on a sign
_NONE_OF_ALL = re.compile(r"\W{0,3}(?:none|neither) of (?:the|these|those|them)\b[^.!?;\n]*[.!]?\s*\Z")
_NONE_WHOLE = frozenset(("none", "nothing", "没有", "无", "零"))
_VAGUE = re.compile(
    r"\b(?:several|few|many|multiple|numerous|some|lots?|dozens?|hundreds?|couple|various|countless|plenty)\b"
    rf"|几|许多|很多|多[{_MEASURE}]|若干|一些|大量|数辆|一群"
)
_PARTIAL = re.compile(r"其中|\bof (?:which|whom|them|these|those)\b|\bincluding\b")
_ROW_LABEL = re.compile(
    r"(?:\A|[\n{,|])[\s\"'|-]*(?P<label>[a-z\u4e00-\u9fff][a-z_ \u4e00-\u9fff]{0,40}?)[\s\"']*[:|=][\s\"']*\Z"
)
_SIDE = re.compile(r"(?<![a-z])(?:left|right)(?![a-z])|[左右]")
_FEW = 4  # numbers, each with a side
_AT_HEAD = 10  # characters before a number at the head
_BREAKDOWN = re.compile(r"[:(]")


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    value: int | None  # None: not a count
    fault: str = ""  # reason code if this is not a count
    strong: bool = False
    weak: bool = False
    about: bool = False


def read_count(text: str, question: str = "") -> Answer | Unparsed:
    """The final number of plain `text`. "No cars" is 0; "about 10" is 10, with the note "approximate".

    `question` ("How many lanes …?") says which of several numbers counts.
    """
    noun = counted_noun(question)
    if noun and re.search(rf"(?:{_SEES_NO})(?:[a-z]+ )?(?:{noun})", text.lower()):
        return Answer("count", 0)
    text = _QUOTED_TEXT.sub(" ; ", text)
    text = _DOZEN.sub(lambda match: _DOZENS[match.group().lower()], text)
    low = _SINGLE.sub(r"\1one", _COORDINATES.sub(" ; ", without_refusals(text.lower())[0]))
    low = _with_counted(low, noun) if noun else low
    if NOT_ONE.search(low) or (noun and _none_of(low, noun)) or _NONE_OF_ALL.match(low):
        return Answer("count", 0)
    if low.strip(" .!\"'()") in _NONE_WHOLE:
        return Answer("count", 0)
    low = re.sub(r"\bof (?:which|whom)\b", "of them", low)  # no end of the clause
    former = [part for part in clauses(low) if part.former]
    found = _merged(low, [item for match in _tokens(low) if (item := _judge(low, match))])
    kept = [
        item for item in found if not any(part.start <= item.start < part.start + len(part.text) for part in former)
    ]
    found = _without_others(low, kept or found, question)
    chosen = _chosen(low, found, noun) or _of_side(low, found, question)
    chosen = _restricted(low, found, chosen, question)
    if chosen is None:
        if len(found) > 1 or (found and _NONE.search(low)):
            return Unparsed("count", "too_many_numbers", text[-200:])
        if _NONE.search(low):
            return Answer("count", 0)
        return Unparsed("count", "hedged" if _VAGUE.search(low) else no_verdict(text), text[-200:])
    if not chosen.strong and (hedges(low[chosen.end :]) or declines(low[chosen.end :])):
        return Unparsed("count", "hedged", text[-200:])
    if chosen.value is None:
        return Unparsed("count", chosen.fault, text[-200:])
    if not chosen.strong and _REST.search(low):
        return Unparsed("count", "too_many_numbers", text[-200:])
    if not chosen.strong and noun and counts_another(low[chosen.end :], noun):
        return Unparsed("count", "no_verdict", text[-200:])
    return Answer("count", chosen.value, "approximate" if chosen.about else "")


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


def _tokens(low: str) -> list[re.Match[str]]:
    """Number tokens, without the numbering of a list."""
    numbering: set[int] = set()
    for pattern in (_LIST_ITEM, _INLINE_ITEM):
        items = [match.start(1) for match in pattern.finditer(low)]
        numbering |= set(items) if len(items) > 1 else set()
    return [match for match in _TOKEN.finditer(low) if match.start() not in numbering][-_MOST:]


def _judge(low: str, match: re.Match[str]) -> _Found | None:
    """Classify one number token: a count, a fault, or None if it is not a quantity."""
    start, end = match.span()
    left, right = low[max(0, start - 90) : start], low[end : end + 24]
    if _LABEL_LEFT.search(left) or _UNIT_RIGHT.match(right):
        return None
    if _WHOLE_LEFT.search(left) or _WHOLE_RIGHT.match(right):
        return None
    if match["word"] == "one" and (
        _ONE_PER.match(right)
        or _PRONOUN_LEFT.search(left)
        or re.match(r" (?:of|twice|too|by one|at a time|another|after)\b", right)
        or left.endswith(" by ")
    ):
        return None
    value, fault = _value(match)
    if re.search(r"(?<![\w)])-\Z", left):
        value, fault = None, "not_a_count"
    if _RANGE_LEFT.search(left) or _RANGE_RIGHT.match(right):
        value, fault = None, "range"
    alone = (
        bool(re.search(r"[.!?] \Z", left) and not right.strip(" .!"))
        or (start == 0 and right.lstrip(".").startswith("\n\n"))
        or (left.endswith("\n\n") and not right.strip(" ."))
        or _HEADED.search(left) is not None
    )
    strong = alone or bool(_STRONG_LEFT.search(left) or _STRONG_RIGHT.match(right))
    return _Found(
        start=start,
        end=end,
        value=value,
        fault=fault,
        strong=strong,
        weak=bool(_WEAK_LEFT.search(left)),
        about=bool(_ABOUT.search(left)),
    )


def _value(match: re.Match[str]) -> tuple[int | None, str]:
    if match["digits"]:
        digits = match["digits"].replace(",", "")
        if match["fraction"] and match["fraction"].strip(".0"):
            return None, "not_a_count"
        return (int(digits), "") if len(digits) <= _MAX_DIGITS else (None, "malformed")
    if match["word"]:
        parts = re.split(r"[- ]", match["word"])
        return sum(TENS.get(part, ONES.get(part, 0)) for part in parts), ""
    return _chinese(match["zh"])


def _chinese(text: str) -> tuple[int | None, str]:
    """零 to 九百九十九. Two neighbouring units ("三四") are a range."""
    hundreds, hundred, rest = text.partition("百")
    if hundred:
        if len(hundreds) != 1 or hundreds == "十":
            return None, "malformed"
        below, fault = _chinese(rest.removeprefix("零") or "零")
        return (None, fault) if below is None else (100 * _ZH[hundreds] + below, "")
    head, ten, tail = text.partition("十")
    if not ten:
        return (_ZH[text], "") if len(text) == 1 else (None, "range")
    if len(head) > 1 or len(tail) > 1 or "十" in tail:
        return None, "malformed"
    return 10 * (_ZH[head] if head else 1) + (_ZH[tail] if tail else 0), ""


def _without_others(low: str, found: list[_Found], question: str) -> list[_Found]:
    """If a reply begins with a number ("Just one: …"), the numbers but those of others ("the two other lanes")."""
    if "other" in question.lower() or not found or found[0].start >= _AT_HEAD:
        return found
    kept = [
        item
        for item in found
        if not (_OTHERS_RIGHT.match(low, item.end) or _OTHERS.search(low[max(0, item.start - 7) : item.start]))
    ]
    return kept or found


def _of_side(low: str, found: list[_Found], question: str) -> _Found | None:
    """ "2 on the left and 6 on the right": the number of the side that the question asks for."""
    asked = set(_SIDE.findall(question.lower()))
    if len(asked) != 1 or not 1 < len(found) < _FEW or any(item.fault for item in found):
        return None
    ends = [*(item.start for item in found[1:]), len(low)]
    sides = [set(_SIDE.findall(low[item.end : end])) for item, end in zip(found, ends, strict=True)]
    if any(len(side) != 1 for side in sides) or len({min(side) for side in sides}) != len(sides):
        return None
    return next((item for item, side in zip(found, sides, strict=True) if side == asked), None)


def _restricted(low: str, found: list[_Found], chosen: _Found | None, question: str) -> _Found | None:
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


def _of_asked(low: str, found: list[_Found], words: set[str]) -> list[_Found]:
    """The numbers in clauses with the most of `words`; none if no clause has any, or a number is at fault."""
    if any(item.fault for item in found):
        return []
    parts = list(clauses(low))
    said = {part.start: sum(word in part.text for word in words) for part in parts}
    scores = [said[clause_at(parts, item.start).start] for item in found]
    best = max(scores, default=0)
    return [item for item, score in zip(found, scores, strict=True) if score == best > 0]


def _labels(left: str, noun: str) -> bool:
    """Whether the text before a number is a label of what is counted: `"ambulance": 1`, `| Warning | 4`."""
    label = _ROW_LABEL.search(left)
    words = re.findall(r"[a-z]+|[\u4e00-\u9fff]+", label["label"]) if label else []
    return bool(words) and all(re.search(rf"(?<![a-z]){re.escape(word.rstrip('s'))}", noun) for word in words)


def _concluded(low: str, found: list[_Found]) -> _Found | None:
    """The number of the last clause that is a conclusion or follows a correction, if that clause has just one."""
    revised = [match.end() for match in REVISION.finditer(low)]
    after = [item for item in found if revised and item.start >= revised[-1]]
    if after and len({item.value for item in after}) == 1:
        return after[-1]
    parts = list(clauses(low))
    for part, following in zip(reversed(parts), (None, *reversed(parts)), strict=False):
        stop = following.start if following else len(low)
        inside = [item for item in found if part.start <= item.start < stop]
        if inside and CONCLUSION.search(part.begins_with + " " + part.text[: max(0, inside[0].start - part.start)]):
            return inside[-1] if len({item.value for item in inside}) == 1 else None
    return None


def _merged(low: str, found: list[_Found]) -> list[_Found]:
    """Join two numbers with "to", "or" or a dash between them into one range."""
    merged: list[_Found] = []
    for item in found:
        if merged:
            last = merged[-1]
            joint = low[last.end : item.start]
            between = low[max(0, last.start - 9) : last.start].endswith("between ") and joint.strip() == "and"
            if len(joint) <= 8 and (between or _RANGE_JOINT.fullmatch(joint)):
                merged[-1] = _Found(
                    start=last.start, end=item.end, value=None, fault="range", strong=last.strong, weak=last.weak
                )
                continue
        merged.append(item)
    return merged


def _chosen(low: str, found: list[_Found], noun: str) -> _Found | None:
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
        and re.match(rf"[)\]\"' ]{{0,3}}[{_MEASURE}]?(?:[a-z]+ ){{0,2}}(?:{noun})", low[item.end : item.end + 60])
    ]
    if len({(item.value, item.fault) for item in named}) == 1:
        return named[-1]
    if len({(item.value, item.fault) for item in found}) == 1 and not _NONE.search(low):
        return found[-1]
    weak = [item for item in found if item.weak]
    if len(weak) == 1 and weak[0] is found[0] and len(found) > 1 and not _NONE.search(low):
        parts = found[1:]
        sums = weak[0].value is not None and weak[0].value == sum(part.value or 0 for part in parts)
        if sums or _BREAKDOWN.search(low[weak[0].end : parts[0].start]):
            return weak[0]
    return None
