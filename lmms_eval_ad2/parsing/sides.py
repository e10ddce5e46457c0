"""Parse "left" or "right" (AD2-Bench A.5): a side that a reply gives, not a turn, a correction or "you are right"."""

from __future__ import annotations

import re

from lmms_eval_ad2.core.records import SIDES, Answer, Unparsed
from lmms_eval_ad2.parsing.clauses import TextClause, clause_at, clauses, denied
from lmms_eval_ad2.parsing.question_words import names_another, telling_words
from lmms_eval_ad2.parsing.refusals import no_verdict, without_refusals
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.parsing.verdict_tables import rated_in_json

_SIDE = re.compile(r"(?<![a-z])(?P<en>left|right)(?![a-z])|(?P<zh>[左右])")
RIGHT_IDIOM = re.compile(
    r"\b(?:you(?:'re| are)|that(?:'s| is)|all|quite|absolutely) right\b"
    r"|(?<!the )(?<!to )\bright (?:in the (?:middle|centre|center)|in front|behind|beside|next to|before"
    r"|after|now|away|through"
    r"|across)\b"
)
_OTHER_LEFT = re.compile(
    r"(?:\b(?:you(?:'re| are)|that(?:'s| is)|all|quite|is only|turn(?:s|ing|ed)?|(?:keep|stay|steer|swerve"
    r"|veer|pass)(?:s|es|ing)?(?: (?:to|on|onto))?(?: the)?|mov(?:es"
    r"|ing) (?:to(?:wards?)? )?(?:the )?|go(?:es|ing)?"
    r"|has|have|had|nothing|(?:space|room|gap|time|much|many|any) |just|recently|already|that|which|who|person"
    r"|one|someone|anyone|from(?: the)?|from left to|from right to"
    r"|towards?(?: the)?|to its|its own"
    r"|(?:bends?|bending|curves?|curving|leans?|leaning)(?: off)? to(?:wards?)?(?: the)?"
    r"|(?:cut off|cropped)(?: \w+)? (?:on|at|to) the)"
    r"|从|往|向|朝) ?\Z"
)
_OTHER_RIGHT = re.compile(
    r" (?:in the (?:scene|image|picture)|now|away|behind|next|in front|after|before|at the|to (?:ask"
    r"|say|point)|of way|turn|here|there|to right|to left)\b"
    r"|-?turn(?:ing)?(?: lane| arrow| signal| light)?|-hand (?:turn|drive)|转|拐|往|到右|到左"
)
# "From the right to the left" names two sides: the question says which end counts.
_FROM_TO = re.compile(
    r"\bfrom (?:the |its |our )?(left|right)(?:-hand)?(?: side)? (?:over )?to(?:wards?)? (?:the |its "
    r"|our )?(left|right)\b"
    r"|(?:从|由)([左右])[^,.;\n]{0,4}?(?:往|向|到|至)([左右])"
)
_ASKS_FROM = re.compile(r"\bfrom\b|\bcom(?:e|es|ing)\b|(?:从|由)(?:哪|什么)|来自")
_ASKS_TO = re.compile(r"\b(?:to|towards?|direction|heading)\b|往哪|向哪|朝哪|方向")
_ASKS_RELATIVE = re.compile(r"\b(?:side|left|right) of\b")
_OF_IT = re.compile(r" of (?:it|us|them|him|her)\b")
_WAY_ASKED = re.compile(
    r"\b(from|to|towards) (?:which|what) (?:side|direction)|\b(?:which|what) (?:side"
    r"|direction)\b[^?]*\b(from)\s?\?|([从由往向朝])哪"
)
_CONTEXT = 80  # characters beside a side
_TURN = re.compile(
    r"\bturn|\bheading|\bmoving|\bgoing|\b(?:pass|keep|stay|steer|swerve|veer|overtake|evade|avoid)\b"
    r"|\b(?:bend|curve|lead|lean|point)s?\b|\b(?:bend|curv|lean)ing\b|转|拐|行驶方向|绕|避让|超车|通过|弯|[往向朝]左"
)
# Beside something else: "just left of the bus stop", 站牌的左边.
RELATIVE = re.compile(
    r" of (?!(?:the |this |our )?(?:road|street|image|picture|frame|scene|lane|ego|us|centre|center|view|car\b))"
)
# "From the taxi driver's own perspective it is the left door": a side as another sees it.
_VIEWPOINT = re.compile(
    r"\bfrom (?:the |its |his |her |their |an? )(?!ego|our|camera|image|viewer)[a-z' ]{2,40}(?:perspective"
    r"|point of view|viewpoint"
    r"|angle|view)\b|从(?!自车|本车|图|画面|我)[^,.;]{1,12}(?:的?角度|视角)"
)
_OF_ANOTHER = re.compile(
    r"(?<!道路)(?<!画面)(?<!图像)(?<!图片)(?<!自车)(?<!本车)(?<!车道)(?<!视野)(?<!路面)(?<!我)(?<!图)的\Z"
)
_STATE_OF_SIDE = re.compile(
    r"\b(?:left|right)(?:-hand)?(?: side| lane| half)? (?:is|looks|seems) (?:\w+ly )?"
    r"(?P<state>empty|free|clear|closed|blocked)\b"
)
_IMAGINED = re.compile(
    r"\b\w+ing (?:to (?:the )?|on the )?(?:left|right) (?:would|could|might)\b"
)  # "steering left would"
_REASON = ("because", "since", "given", "因为", "由于")
_BOTH = re.compile(r"\b(?:both|either|neither)\b|\bleft or (?:the |on the )?right\b|左右|左(?:侧|边)?(?:还是|或)右")
_ANSWER = re.compile(
    r"(?:\b(?:answer|so|therefore|thus|hence|final|conclusion|it's|it is|that is|i\.e\.|namely)\b|也就是|答案"
    r"|所以|因此|更正)[^.;\n]{0,40}\Z"
)


def read_side(text: str, question: str = "") -> Answer | Unparsed:
    """ "left" or "right" from plain `text`; turns count only if the question asks for a turn."""
    turns = bool(_TURN.search(question.lower()))
    best = rated_in_json(text, SIDES)
    if best is not None:
        return Answer("yesno", best[0].lower()) if len(best) == 1 else Unparsed("yesno", "several", text[-200:])
    low = RIGHT_IDIOM.sub(" ", without_refusals(text.lower())[0])
    low = _FROM_TO.sub(lambda way: _end_of(way, question.lower(), turns=turns), low)
    found: list[tuple[str, bool, int]] = []  # side, whether it is called the answer, position
    way, relative = _asked_way(question.lower(), low), bool(_ASKS_RELATIVE.search(question.lower()))
    reasons: list[int] = []  # positions of those in a clause that gives a reason
    for clause in clauses(low):
        silent = (_BOTH, _VIEWPOINT, _IMAGINED)
        supposed = clause.conditional and "whether" not in low
        if clause.open or supposed or clause.former or any(pattern.search(clause.text) for pattern in silent):
            continue
        if clause.tentative and not clause.forced:
            continue
        if (state := _STATE_OF_SIDE.search(clause.text)) and state["state"] not in question.lower():
            continue
        for match in _SIDE.finditer(clause.text):
            side = match["en"] or {"左": "left", "右": "right"}[match["zh"]]
            left = clause.text[max(0, match.start() - _CONTEXT) : match.start()]
            right = clause.text[match.end() : match.end() + _CONTEXT]
            if way and not re.search(rf"{way}(?: ?the)? ?\Z", left):
                continue
            if not turns and not way and (_OTHER_LEFT.search(left) or _OTHER_RIGHT.match(right)):
                continue
            of_another = RELATIVE.match(right) and not (relative and _of_asked(right, question.lower()))
            if of_another or _OF_ANOTHER.search(left):
                continue
            given = denied(
                left[-40:] + match.group() + right[:0], len(left[-40:]), len(left[-40:]) + len(match.group())
            )
            if not given:
                at = clause.start + match.start()
                found.append((side, bool(_ANSWER.search(low[max(0, at - 60) : at])), at))
                reasons += [at] if clause.begins_with.endswith(_REASON) else []
    found = [item for item in found if item[2] not in reasons] or found
    revised = [match.end() for match in REVISION.finditer(low)]
    found = [item for item in found if revised and item[2] >= revised[-1]] or found
    parts = clauses(low)
    named = " ; ".join({(part := clause_at(parts, at)).start: part.text for _, _, at in found}.values())
    if found and (names_another(low, question) or names_another(named, question)):
        return Unparsed("yesno", "no_verdict", text[-200:])
    sides = [side for side, _, _ in found]
    called = [side for side, marked, _ in found if marked]
    if len(set(sides)) == 1:
        return Answer("yesno", sides[0])
    if called and found[-1][1]:
        return Answer("yesno", called[-1])
    beside = _of_subject(low, found, question)
    if beside:
        return Answer("yesno", beside)
    if sides and (called or REVISION.search(low)):
        return Answer("yesno", called[-1] if called else sides[-1])
    return Unparsed("yesno", "several" if sides else no_verdict(text), text[-200:])


def _end_of(way: re.Match[str], question: str, *, turns: bool) -> str:
    """The end of a way between two sides that the question asks for; blank if it asks for neither."""
    start, end = (group for group in way.groups() if group)
    if _ASKS_FROM.search(question):
        return f" on the {start} " if start in SIDES else start
    if turns or _ASKS_TO.search(question):
        return f" on the {end} " if end in SIDES else end
    return " "


def _of_asked(right: str, question: str) -> bool:
    """Whether " of it" or " of the bus" after a side names what the question asks the side of."""
    thing = re.match(r" of (?:the |this |our )?([a-z]{3,})", right)
    return bool(_OF_IT.match(right) or (thing and re.search(rf"\bof (?:the )?[a-z ]{{0,20}}{thing[1]}", question)))


def _asked_way(question: str, low: str) -> str:
    """The preposition of "from which side" (从哪一侧) if the reply uses it with a side, else ""."""
    asked = _WAY_ASKED.search(question)
    way = next((group for group in asked.groups() if group), "") if asked else ""
    return way if way and re.search(rf"{way}(?: the)? ?(?:left|right|[左右])", low) else ""


def _of_subject(low: str, found: list[tuple[str, bool, int]], question: str) -> str | None:
    """The only side in the clauses with the most words of the question; None if no side stands out."""
    words = telling_words(question) | set(re.findall(r"\b(?:bus|car|van|cab|man|dog|cat|boy|sign)\b", question.lower()))
    words -= {"left", "right", "左侧", "右侧", "左边", "右边"}
    parts = clauses(low)
    said: dict[int, set[str]] = {}  # of `words`, by where they stand
    for part in parts:
        said.setdefault(_place(part, question), set()).update(word for word in words if word in part.text)
    scores: dict[str, int] = {}
    for side, _, at in found:
        scores[side] = max(scores.get(side, 0), len(said[_place(clause_at(parts, at), question)]))
    best = max(scores.values(), default=0)
    sides = [side for side, score in scores.items() if score == best]
    # A pair of Chinese characters may also be part of "road" or "vehicle".
    return sides[0] if best > (0 if question.isascii() else 1) and len(sides) == 1 else None


def _place(clause: TextClause, question: str) -> int:
    """The sentence of a clause, since an English clause may go on with "on the right"; in Chinese the clause."""
    return clause.sentence if question.isascii() else clause.start
