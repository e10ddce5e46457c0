"""Answers by a property that excludes the one asked for: "It is green." to "Is the light red?", an empty crosswalk."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lmms_eval_ad2.parsing.clauses import TextClause, denied

_COLOURS = {"blue": "蓝", "white": "白", "black": "黑", "silver": "银", "gr[ae]y": "灰"}  # not as an attribute
# Values of one property each; a thing has only one of them.
_PROPERTIES = tuple(
    tuple(re.compile(value) for value in values)
    for values in (
        (
            r"\bred\b|红(?:色|灯)", r"\bgreen\b|绿(?:色|灯)", r"\b(?:yellow|amber|orange)\b|黄(?:色|灯)",
            *(rf"\b{word}\b(?! [a-z])|{sign}色(?=的?(?:吗|么|[?,.;!]|\Z))" for word, sign in _COLOURS.items()),
        ),
        (
            r"\b(?:good|excellent)\b|良好|很好|极佳",
            r"\b(?:poor|reduced|limited|bad|restricted|impaired)\b|[很较极]差|不佳|受限|降低",
        ),
        (r"\bsafe\b|安全", r"\b(?:unsafe|dangerous|hazardous|risky)\b|危险"),
        (
            r"\b(?:clear|free|empty|unobstructed|vacant|passable)\b|畅通|通畅|空闲|是空的|无障碍",
            r"\b(?:blocked|obstructed|occupied|jammed|impassable|packed)\b|堵|占用|受阻|被挡|封闭",
        ),
        (r"\b(?:cloudy|overcast)\b|多云|阴天", r"\b(?:clear|cloudless|sunny|no clouds)\b|晴"),
        (r"\bwet\b|潮湿|湿滑|是湿的", r"\bdry\b|干燥|是干的"),
        (r"\b(?:night(?:time)?|after dark)\b|夜(?:间|晚|里)|晚上", r"\b(?:day(?:light|time)?|daytime)\b|白天|日间"),
        (
            r"\b(?:moving|driving|in motion|rolling)\b|行驶|移动|行进",
            r"\b(?:parked|stationary|stopped|standing(?: still)?|halted)\b|静止|停着|停在|停放|停止",
        ),
        (r"\b(?:lit|switched on|turned on|illuminated|on)(?=\W*\Z)|亮着|亮起",
         r"\b(?:unlit|dark|off)(?=\W*\Z)|熄灭|没亮|未亮"),
        (r"\b(?:opened|open|raised)\b|(?:开|敞)着|打开", r"\b(?:closed|shut|lowered)\b|关着|关闭|关上"),
    )
)  # fmt: skip
_ANOTHER = re.compile(
    r"\b(?:other|another|adjacent|oncoming|opposite|pedestrian|tram|bus|cyclist|neighbou?ring|crossing|cross)\b"
    r"|对向|旁边|另|相邻|行人|左转|右转"
)
_ATTRIBUTE = re.compile(r"\b(?:this|the|that|an?|any) \Z")  # "at this red light"
_IT_IS = re.compile(r"(?:it|he|she|they)(?:'s| is| are|'re)\b")  # at the head of a reply: the asked thing
_THAT_IS = re.compile(r"(?:the|that|this) (?P<thing>[a-z]+) (?:is|was)\b")
_BRIEF = 12  # characters of a conclusion that leaves its subject out: 因此不是夜间
_SUBJECT_WORD = re.compile(r"[a-z]{3,}|[\u4e00-\u9fff]{2,}")
_NO_SUBJECT = frozenset(
    ("the", "are", "was", "were", "has", "have", "does", "there", "any", "ego", "vehicle", "ahead", "front", "right",
     "left", "side", "our", "this", "that", "currently", "now", "directly", "scene", "image", "picture", "and", "its",
     "for", "with", "car")
)  # fmt: skip
_COMPARED = re.compile(r"\b(?:more|less|than|or|all|both|every|each|not|any)\b|n't\b|比|还是|都|没|不")
_VIEW = "image|picture|scene|photo|frame|view"
_PLACE = re.compile(rf"\b(?:in|on|at|inside|within) (?:the|our|this) (?!{_VIEW})(?P<place>[a-z-]+(?: [a-z-]+)?)\s?\?")
_PLACES_SAID = re.compile(
    rf"\b(?:in|on|at|inside|within) (?:the|our|this|its|their) (?!{_VIEW})([a-z-]+ (?:lane|side)|[a-z]+)\b"
)
_ZH_PLACE = re.compile(r"(?P<place>[\u4e00-\u9fff]{2,6}?[上里中内])(?:是否)?有")
_ZH_ROADSIDE = re.compile(r"路边|路旁|街边|人行道上|站台|对面")
_ZH_EMPTY = "(?:此时|目前|现在)?(?:空无一[人车]|没有任何人|是?空的|无人)"
_EMPTY = (
    r"(?: itself)? (?:is|are|seems?|looks?|appears?)(?: to be)? (?:\w+ )?(?:empty|clear|free|deserted|vacant)\b(?! of)"
)


def by_opposite(parts: Iterable[TextClause], question: str) -> str | None:
    """ "yes" or "no" by what clauses say of the asked property of the asked thing; None if nothing or both.

    `question` is in lower case. Clauses about other things or sides say nothing.
    """
    question = question.replace("红绿灯", "信号灯")
    asked = [(values, at) for values in _PROPERTIES for at, value in enumerate(values) if value.search(question)]
    if len(asked) != 1 or _COMPARED.search(question):
        return None
    values, wanted = asked[0]
    found = values[wanted].search(question)
    before = question[: found.start()] if found else ""
    if _ATTRIBUTE.search(before):
        return None
    subject = _words(before)
    verdicts = set()
    for part in parts:
        of_it = subject & _words(part.text) or (part.concludes and len(part.text) < _BRIEF)
        of_it = of_it or (part.start == 0 and _at_head(part.text, question))
        if not of_it or beside(part.text) - beside(question):
            continue
        said = [(at, match) for at, value in enumerate(values) for match in [value.search(part.text)] if match]
        if len(said) == 1:
            at, match = said[0]
            no = denied(part.text[: match.end()], match.start(), match.end())
            if at == wanted or not no:
                verdicts.add("no" if no == (at == wanted) else "yes")
    return verdicts.pop() if len(verdicts) == 1 else None


def place_is_empty(parts: Iterable[TextClause], question: str) -> bool:
    """Whether a clause calls the place empty in which `question`, in lower case, asks for something."""
    place = _PLACE.search(question)
    chinese = _ZH_PLACE.search(question)
    empty = re.compile(re.escape(place["place"]) + _EMPTY) if place else None
    if chinese:
        empty = re.compile(re.escape(chinese["place"]) + _ZH_EMPTY)
    return bool(empty and any(empty.search(part.text) for part in parts))


def in_another_place(low: str, question: str) -> bool:
    """Whether a clause names another place than the one in which `question`, in lower case, asks for something."""
    asked = _PLACE.search(question)
    said = _PLACES_SAID.findall(low)
    if _ZH_PLACE.search(question) and (other := _ZH_ROADSIDE.search(low)):
        return other.group() not in question
    return bool(asked and said and not any(place in asked["place"] or asked["place"] in place for place in said))


def beside(low: str) -> set[str]:
    """Words for another thing or for a side."""
    return set(_ANOTHER.findall(low)) | set(re.findall(r"\b(?:left|right)\b|[左右]", low))


def _at_head(low: str, question: str) -> bool:
    """Whether the first clause of a reply is about the asked thing: "It is …", "That car is …"."""
    found = _IT_IS.match(low) or _THAT_IS.match(low)
    return bool(found and (found.re is _IT_IS or re.search(rf"\b{found['thing']}\b", question)))


def _words(low: str) -> set[str]:
    """English words, and pairs of Chinese characters, that may name a thing."""
    words: set[str] = set()
    for run in _SUBJECT_WORD.findall(low):
        words |= {run} if run.isascii() else {run[i : i + 2] for i in range(len(run) - 1)}
    return words - _NO_SUBJECT - {"前方", "图中", "目前"}
