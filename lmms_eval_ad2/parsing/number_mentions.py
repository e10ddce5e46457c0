"""Numbers in a text: which count something, and which are labels, units, positions, ranges or bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lmms_eval_ad2.parsing.number_words import ONES, TENS

_ZH = {sign: value for value, sign in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2, "俩": 2}
MEASURE = "辆个名位人台只条盏座块根处架艘棵匹头张栋支把件"
_MAX_DIGITS = 9
_MOST = 2_000  # numbers examined, the last ones of the text; more occur only if a model repeats itself endlessly
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<digits>\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?P<fraction>\.\d+)?(?![A-Za-z0-9_]|-[a-z])(?!\.\d)"
    rf"|(?<![a-z-])(?P<word>(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(list(ONES)[1:10])}))?|{'|'.join(ONES)})"
    r"(?![a-z]|-[a-z])(?! (?:hundred|thousand|dozen))"
    rf"|(?<!第)(?<![零〇一二两三四五六七八九十百])(?P<zh>[零〇一二两俩三四五六七八九十百]{{1,6}})(?=[{MEASURE}]|车道"
    rf"|[)\]}}\"']{{0,3}}\s?(?:\Z|[.,;!\n到至或~-]))"
)
_LIST_ITEM = re.compile(r"(?m)^ ?(\d{1,2})[.)、] ?(?=[^\s\d])")
_INLINE_ITEM = re.compile(r"(?:\A|[:,;.] ?)\(?(\d{1,2})\) ?(?=[^\s\d])")  # "1) a van, 2) a bus"
_LABEL_LEFT = re.compile(
    r"(?:\b(?:step|image|figure|fig\.?|frame|lane|camera|cam|route|highway|line|option|page|picture|view|photo|score"
    r"|confidence|rating|level|no\.)|#|第|步骤|图|置信度) ?[:#]? ?\Z"
    r"|\b(?:number|car|vehicle|truck|bus|object|pedestrian) \Z"
    r"|限速 ?\Z|其中 ?\Z|\blimit(?: \w+){0,2} \Z|(?:\bnot(?: exactly| precisely| quite| even)?|不是) ?\Z|\d:\Z"
)
_UNIT_RIGHT = re.compile(
    r" ?(?:o'clock|%|°|米|公里|秒|分钟|度|点|年|月|日|号|岁|时)"
    r"|[ -]?(?:m|km|cm|meters?|metres?|kph|mph|km/h|seconds?|s|minutes?|hours?|degrees?"
    r"|feet|foot|ft|px|pixels?|years?|am|pm|model|edition)\b|:\d\d"
)
_PRONOUN_LEFT = re.compile(
    r"\b(?:the|this|that|no|any|some|every|each|which|another|other|first|second|third|fourth|fifth|last"
    r"|same|red|right|left"
    r"|closest|nearest|further|farther|larger|smaller) \Z"
)
# "Of the five lamps, two are lit": the number of all, of which some are counted.
_WHOLE_LEFT = re.compile(r"\b(?:of|among|out of) (?:all )?(?:the|these|those|all) \Z")
_WHOLE_RIGHT = re.compile(rf" ?[{MEASURE}][\u4e00-\u9fff]{{0,6}}(?:中|当中|里面?)[,]? ?(?:有|仅|只)")
_ONE_PER = re.compile(r" (?:for|on|at|in|along) (?:each|either|both)\b| per\b")  # "four crosswalks, one for each arm"
_HEADED = re.compile(
    r"\n ?(?:final )?(?:result|total|answer|count|conclusion|summary|结果|总数|总计|结论) ?:? ?\n+ ?\Z"
)
_RANGE_LEFT = re.compile(
    r"(?:\b(?:at (?:the )?(?:very )?(?:least|most)|more than|less than|fewer than|over|up to|under"
    r"|no (?:more|less|fewer) than"
    r"|above|below|beyond|greater than|larger than|smaller than|higher than|lower than|upwards? of"
    r"|in excess of|exceed(?:s|ing)?"
    r"|as (?:many|few) as|(?:a )?(?:minimum|maximum)(?: of)?|min(?:imum)?:?|max(?:imum)?:?|north of"
    r"|well over)|[<>≥≤⩾⩽]=?"
    r"|至少|起码|最少|超过|不少于|不低于|最多|至多|顶多|不到|不足|不止|多于|少于|大于|小于|高于|低于|不超过"
    r"|不多于|不下于|大于等于|小于等于|近),?有? ?"
    r"(?:(?:a |the )?(?:total |number )(?:of )?)?\Z"
)
_RANGE_RIGHT = re.compile(
    rf" ?\+(?! ?\d)|(?: [a-z]+){{0,2}},? (?:or|and|if not) (?:more|fewer|less|above|up|over|below|higher|counting)\b"
    r"|(?: [a-z]+){0,2},? \(?(?:at (?:the )?(?:very )?(?:least|most)|(?:at )?(?:minimum|maximum)|plus\b(?! \w))"
    rf"| ?[{MEASURE}]?[\u4e00-\u9fff]{{0,3}}(?:以上|以下|以内|之内|及以上|左右以上|多[{MEASURE}])"
    rf"| ?[{MEASURE}]?[\u4e00-\u9fff]{{0,3}}或(?:者)?(?:更|以上|更多|更少)"
)
_RANGE_JOINT = re.compile(rf" ?[{MEASURE}]? ?(?:-|~|to|or|到|至|或|或者|还是) ?")
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


@dataclass(frozen=True, slots=True)
class NumberMention:
    start: int
    end: int
    value: int | None  # None: not a count
    fault: str = ""  # reason code if this is not a count
    strong: bool = False
    weak: bool = False
    about: bool = False


def number_tokens(low: str) -> list[re.Match[str]]:
    """Number tokens, without the numbering of a list."""
    numbering: set[int] = set()
    for pattern in (_LIST_ITEM, _INLINE_ITEM):
        items = [match.start(1) for match in pattern.finditer(low)]
        numbering |= set(items) if len(items) > 1 else set()
    return [match for match in _TOKEN.finditer(low) if match.start() not in numbering][-_MOST:]


def classified(low: str, match: re.Match[str]) -> NumberMention | None:
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
    return NumberMention(
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


def with_ranges(low: str, found: list[NumberMention]) -> list[NumberMention]:
    """Join two numbers with "to", "or" or a dash between them into one range."""
    merged: list[NumberMention] = []
    for item in found:
        if merged:
            last = merged[-1]
            joint = low[last.end : item.start]
            between = low[max(0, last.start - 9) : last.start].endswith("between ") and joint.strip() == "and"
            if len(joint) <= 8 and (between or _RANGE_JOINT.fullmatch(joint)):
                merged[-1] = NumberMention(
                    start=last.start, end=item.end, value=None, fault="range", strong=last.strong, weak=last.weak
                )
                continue
        merged.append(item)
    return merged
