"""Verdicts on the letters of options: mentions that a text marks as its answer, and letters that it denies.

A mention is a verdict if its context marks it as one ("the answer is", "I choose", a line of its own, "is correct").
Articles, pronouns, denied, conditional and former mentions are not verdicts. Joined mentions ("A and C") are one
verdict with two letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lmms_eval_ad2.parsing.clauses import FORCED, TextClause, clause_at, clauses, exception, negations, without_idioms
from lmms_eval_ad2.parsing.option_lists import OFFERED
from lmms_eval_ad2.parsing.option_mentions import OPENERS, LetterMention, groups
from lmms_eval_ad2.parsing.question_words import WORST, asks_for_the_worst, superlatives

_LEFT, _RIGHT = 100, 60  # characters of context before and after a mention
_DRESS = r"(?:the )?(?:option|choice|letter|选项)?\s?[(\[{<\"']{0,3}\Z"
_UNDRESS = re.compile(r"(?:\bthe )?(?:\boption|\bchoice|\bletter|选项)? ?[(\[{<\"']{0,3}\Z")
_CLAUSE_END = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:\Z|[.,;:!\n<)\]}(]|because\b|since\b|rather than\b|instead of\b|as (?:my|the)\b"
    r"|over\b|given\b|for (?:me|this|sure)\b|then\b|here\b|as in\b|(?:and )?not\b|final answer\b"
    r"|(?:选?项)?(?:吧|呢|了|哦|哈|啊|呀|啦|嘛|无疑))"
)
_CLAUSE_STOP = re.compile(r"[)\]}>\"']{0,3}\s?(?:\Z|[.,;!\n])")
_ADVERBS = (
    r"(?:most likely|probably|likely|clearly|definitely|certainly|therefore|simply|actually|indeed|either|both|still"
    r"|,| )*"
)
_IS = (
    r"(?:is|are|was|would be|should be|must be|has to be|will be|could be|might be|may be|'s|seems to be|appears to be)"
)
_ZH_IS = r"(?:应该是|应该为|应该选|应为|应是|应选|是|为|选|即)"
_NOUN = (
    r"(?:(?<![a-z])ans(?:wers?)?|(?<!in)correct|verdict|conclusion|exception|odd one(?: out)?|selection|selected|chosen"
    r"|prediction|pick|final"
    r"|action input|decision|recommendation|决策|判断|最终|letter|choice|option|选项|答案|回答|作答|结论|选择)"
)
_STRONG = re.compile(
    rf"(?:{_NOUN}[\"'\]]?(?: \([^)]{{0,20}}\))? ?(?:{_IS}|[:=-]|{_ZH_IS})[:= }}]*|(?:\banswer\]? |答案 ?)"
    rf"|\b(?:answers?|option|choice|match|description|statement|response)\b[^\n]{{0,70}}?\b{_IS}\b ?"
    r"|\b(?:cho(?:o)?se|select|pick(?:ed)?|go(?:ing)? with|went with|opt(?:ed)? for|recommend|suggest"
    r"|prefer|favou?r|vote for|lean(?:ing)? towards?|stick(?:ing)? (?:with|to)|stay with"
    r"|choosing|selecting|settled? (?:on|for)|guess|answer(?:ing)? with|corresponds? to|points? to"
    r"|(?:this|that|which|it) (?:best )?(?:match(?:es)?|fits|supports)|falls? (?:in|into|under|within)"
    r"|leaves?(?: us with)?"
    r"|leaving(?: us with)?|only remaining|from (?:option )?[a-z] to"
    r"|switch(?:ing)? to|chang\w+ my mind to|chang(?:e|ing)(?: my answer| it)? to)\b[,: ]*"
    r"|(?:应选|故选|选择|我选|维持|坚持|猜|改成|改为|改选|只剩下?|剩下的?(?:就)?是?|选)[: ]*"
    r"|\A\W?(?:(?:so|thus|hence|therefore),? )?only |\A\W?(?:因此|所以)?,?只有"
    r"|\b(?:1st|first|top|primary|best)(?: place| pick| choice)?: ?|首选(?:是|为)?[: ]*"
    r"|第[一1](?:选择|名|位)?(?:是|为|:) ?|(?:最佳|最优|最好的?)(?:选项|答案|选择)[: ]*"
    r"|最可能(?:的)?(?:是|为|选)? ?"
    r"|\\boxed ?\{[{ ]*|<answer> ?|\[(?:答案|answer|结论)\] ?|(?:->|=>|→|⇒|➜|➡) ?|对应(?:的)?(?:是|为)?(?:选项)?)"
    rf"{_ADVERBS}[: ]*\Z"
)
# These introduce a verdict only if the clause ends after the letter: "so C." but not "so C is ahead".
_WEAK = re.compile(
    rf"(?:\b(?:it|this|that|guess)(?: {_IS}|'s)(?: an?)?[: ]*|\bone\b[^\n]{{0,70}}?\b{_IS}\b ?"
    r"|\b(?:say|think|believe|therefore|thus|hence|so|no|wait|correction|reflection|rather|most likely|most probably"
    r"|maybe|perhaps|possibly|probably|definitely|thoughts?|mean|meant|actually|sorry|oops|finally"
    r"|first|ultimately|clearly|obviously|surely|undoubtedly|(?:gotta|got to|has to|have to|must) be"
    r"|without (?:a |any )?(?:question|doubt)|no question|no doubt|mak(?:es|ing) it)\b[,: ]*"
    rf"|(?:因此|所以|故|综上|认为|那就|更正|纠正|不对|还是|其实|最终|{_ZH_IS})[,: ]*)"
    rf"{_ADVERBS}[: ]*\Z"
)
# "The proper action is A.": any subject, if the clause ends after a capital letter.
_SUBJECT_IS = re.compile(rf"\b[a-z]{{2,}} {_IS}[: ]*\Z")
_ANSWER_AHEAD = re.compile(r"\banswer\b|答案")
_SO_IS = re.compile(rf"\bso (?:is|are) {_DRESS}")
_CONTRAST = re.compile(rf"(?:\bbut(?: rather)?|而是|\bit's|\bit is|,),? ?{_DRESS}")
_NEGATED_LEFT = re.compile(
    r"(?:\bnot|n't(?: be)?|\bnever|\brather than|\binstead of|\bover|\bexclud\w{1,4}|\beliminat\w{1,4}|\brul\w{1,4} out"
    r"|\bagainst|\bunlike|不是|不选|不应选|不会是|不为|排除|而非)"
    r"(?: be| either| both)?\s?"
    + _DRESS
    + r"|(?:n't|\bnot|\bnever)(?: \w+)? (?:think|believe|say|choose|pick|select|agree|go with)\b[^,]*\Z"
    r"|\b(?:unlikely|doubt)\b[^,]*\Z|不(?:认为|觉得|应该?选|能选)[^,]*\Z"
    r"|\b(?:wrong|incorrect|false|inappropriate|improper|unsuitable|invalid)(?: answers?| options?| choices?"
    r"| ones?)\b[^.]*\Z|\bdistractors?\b[^.]*\Z"
    r"|错误(?:的)?(?:答案|选项)[^.]*\Z|干扰(?:选?项)[^.,;]*\Z"
)
NEGATED_RIGHT = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:(?:is|are|was|were|can be|would be|has been) ?)?(?:also |clearly |both |all |therefore )?"
    r"(?:not\b|n't\b|incorrect|wrong|false|invalid|ruled out|eliminated|excluded|can't|cannot|does not|doesn't"
    r"|do not|don't"
    r"|都?(?:不|错|可以排除|排除)|(?:也|选项)?(?:不对|不正确|错误|不符合|不是))"
)
_CONDITION = re.compile(
    r"\bif\b(?! (?:i|we) (?:had|have|must|were)\b| forced)|\b(?:whether|unless|suppose)\b[^,]*\Z"
    r"|(?:如果|若|假如)(?!必须|一定要|非要|只能)|只有[^,.;]{1,16}[才时]|是否[^,]*\Z"
)
OPEN = re.compile(
    r"\b(?:might|may|could|maybe|perhaps|possibly|either|between)\b[^,]*\Z|(?<!最)(?<!最有)(?:可能|也许|或许)[^,]*\Z"
)
_CONFIRMED = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:选?项)?(?:first(?=\s?(?:[.,;]|\Z))|(?:优先|首选|排?第一)(?=\s?(?:[,.;]|\Z))|(?:is"
    r"|as|would be) (?:my|the) (?:first"
    r"|top) (?:choice|pick|preference)\b"
    r"|the (?:right|correct|best) (?:one|answer|choice|option)\b"
    r"|(?:best |also best |clearly )?(?:describes|matches|fits|remains|prevails|wins"
    r"|it is\b|it must be|is it(?=\s?[.!]|\Z)|is what i(?:'d| would| will|'ll)? (?:\w+ )?"
    r"(?:select|choose|pick|go with|answer|say)"
    r"|(?:is|would be) (?:clearly |by far |certainly )?the (?:most (?!un|in|im)\w+|best|safest|\w+est)(?: (?:choice"
    r"|option|answer|one|match))\b|(?:stays|stands as) (?:my|the)\b"
    r"|is (?:clearly |therefore )?the only (?:\w+ )?(?:choice|option|answer|one)\b"
    r"|is not (?:just|only|merely)|is what (?:the|we|you|i) |is the way to go|does(?=\s?[.!]|\Z)"
    r"|is (?:the |a )?(?:better|best|safer|safest|stronger|closest|closer|only) (?:one|choice|option|fit|match|answer))"
    r"|(?:is|are|was) (?:the )?(?:only )?(?:one )?(?:left|remaining|the one)\b|is the (?:reason|cause)\b"
    r"|(?:is|as|would be|seems"
    r"|remains) (?:by far |clearly |still |then )?(?:my|the) (?:\w+ )?(?:answer|choice|pick|selection"
    r"|guess)\b|(?:is|seems|appears|looks)(?: to be)? (?:the )?(?:more|most) (?:likely|probable|plausible)\b"
    r"|(?:is|are|would be|should be|must be|seems|appears|looks)\b(?: to be)?"
    r"(?P<also> also)?(?: both| clearly| definitely| most likely| probably| indeed| therefore| obviously)*"
    r"(?: the)?(?: most| only| single)? (?:correct|right|best|accurate|appropriate|answer|true)"
    r"|(?P<zh_also>也)?(?:都)?(?:是|为)[^,.;\n]{0,12}最[^,.;\n]{1,8}的|(?:也)?(?:都)?(?:是"
    r"|为)?(?:最)?(?:才是?)?(?:最)?(?:正确|正解|对的|对[,.]|佳|合适|符合|吻合|正确答案)|(?:与|和"
    r"|跟)[^,.;]{1,14}(?:最|更)?(?:吻合|一致"
    r"|相符|匹配|符合)|(?:选?项)?(?:更|最)(?:贴切|合适|准确|符合|恰当|合理|贴近|好)|没有?问题)"
)
_CALLED_TRUE = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:选?项)?(?:也|都)?(?:是)?(?:正确|对的?|符合|属实|成立|没错)(?!答案|选项|的答案|的选项)"
    r"|[)\]}>\"']{0,3} (?:is|are) (?:also |both |clearly )?(?:correct|true|right|accurate|fine|visible|present)"
    r"(?! (?:answer|option|choice|one))"
)
QUESTION = re.compile(r"[^.!\n]{0,40}\?")


_NO_BETTER = re.compile(
    r"(?:\b(?:no|nothing|none|not|isn't|n't)\b[^.;\n]{0,30} (?:better|more \w+"
    r"|\w+er)(?: \w+){0,2} than|\bnothing beats|\bnone of [^.;\n]{0,30} (?:close|near) to"
    r"|没有?比)(?: the)? " + _DRESS[:-2] + r"\Z"
    r"|没有?比(?:选项)?\Z"
)
_CALLED_WORST = re.compile(
    rf"(?:{WORST.pattern})[^.;\n]{{0,40}}(?:\b(?:is|are|would be)\b|是|为) ?[\"'(]{{0,2}}(?:option "
    rf"|statement |选项)?[\"'(]{{0,2}}\Z"
)
_SUPERLATIVE_WORST = re.compile(r"\b(?:least|worst|most (?:un|in|im)(?!port|min|term|tens|dic)\w+)\b|最不|最差|最坏")
# "I would not rule out A": possible, and no verdict.
_NOT_EXCLUDED = re.compile(
    r"(?:\bnot|n't|cannot|never) (?:\w+ ){0,2}(?:rul(?:e|ed)|exclud|eliminat|dismiss|reject)|(?:不能|无法|没有?)排除"
)
_TRUNCATED = re.compile(r"(?i)[.!?] (?:option|choice|选项)\s?\Z")


_DECIDED = re.compile(r"\b(?:settled?|decided?|chose|choose|prefer|picked|went) \w+\s?[\"'(]{0,2}(?:option )?\Z")
_DESCRIPTION = re.compile(
    r"[.,;:!?\n)]|\b(?:that|who|which|with|without|and|or|nor|where|when|as|because|since|rather than"
    r"|instead of|not|than|over|but|although|though|while|so)\b|而不是|而非|因为|由于|但|[也又](?=[不没非])"
)
CONDITION_AFTER = re.compile(
    r"[)\]}>\"']{0,3},? (?:(?:would|could|might|may|should|will|is|was)(?: \w+){1,3} )?(?:only )?(?:if|unless|provided"
    r"|assuming)\b(?! (?:i|we) (?:had|have|must|were)| forced)"
    r"|[)\]}>\"']{0,3},? otherwise\b"
)
_RESTATED = re.compile(
    r"\b(?:answer|choice|option) (?:is|would be|:)[^,]*\Z|\b(?:so|therefore|hence|thus)\b[^,]*\Z|(?:答案"
    r"|选择)(?:是|为)[^,]*\Z|(?:所以|因此|故)[^,]*\Z"
)


@dataclass(frozen=True, slots=True)
class LetterVerdict:
    """Letters that a text marks as its answer."""

    letters: frozenset[str]
    mention: LetterMention
    open: bool = False  # "A or B", "maybe B"
    also: bool = False  # "C is also correct"
    alone: bool = False  # it is the whole line
    said: str = ""  # its sentence since the mention before


def find_verdicts(
    text: str, mentions: Sequence[LetterMention], question: str = ""
) -> tuple[list[LetterVerdict], set[str]]:
    """The verdicts of plain `text` in order, and the letters that it denies somewhere."""
    found: list[LetterVerdict] = []
    no: set[str] = set()
    parts = clauses(text)
    previous_end = 0
    negated_before = -1  # end of the last negated mention: "not A but B"
    asks_worst = asks_for_the_worst(question)
    for group, either in groups(text, mentions):
        first, last = group[0], group[-1]
        clause = clause_at(parts, first.start)
        left = sentence_before(text, first.start)
        right = text[last.end : last.end + _RIGHT]
        apart = _first_apart(text, group)
        denied_rest = not apart and len(group) > 1 and _says_no(right) and _split_off(text, group, left)
        if denied_rest:
            no |= {mention.letter for mention in group[1:]}
        if apart or denied_rest:
            group, last, either, right = [first], first, False, text[first.end : first.end + _RIGHT]
        letters = frozenset(mention.letter for mention in group)
        affirmed, is_denied = _polarity(clause, text, first, last, left, right, asks_worst=asks_worst)
        if asks_worst and not affirmed and _CALLED_TRUE.match(right.lower()):  # "which is wrong?": "A is correct"
            is_denied = True
        if is_denied:
            negated_before = last.end
            no |= letters
            continue
        offered = OFFERED.search(text[max(0, first.start - _LEFT) : first.start].lower())
        if offered or _is_open(clause, left, text[clause.start : first.start].lower(), right):
            continue
        no -= letters
        alone = _alone(text, first, last) or _ends_text(text, clause, first, last)
        confirmed = _CONFIRMED.match(right.lower())
        contrast = 0 <= first.start - negated_before <= 30 and _CONTRAST.search(left) and _CLAUSE_END.match(right)
        if not (affirmed or alone or confirmed or contrast or _marked(left, right, first)):
            continue
        tentative = OPEN.search(left) and not _DECIDED.search(left)
        is_open = (either and len(letters) > 1) or (bool(tentative) and not affirmed)
        joins = _SO_IS.search(left)  # "C is possible, and so is D"
        if joins and not found:
            continue
        also = bool(joins or (confirmed and (confirmed["also"] or confirmed["zh_also"])))
        found.append(LetterVerdict(letters, first, is_open, also, alone, left[-max(1, first.start - previous_end) :]))
        previous_end = last.end
    return _that_restate(found, question), no


def _that_restate(verdicts: list[LetterVerdict], question: str) -> list[LetterVerdict]:
    """Of verdicts for several letters, those that repeat a superlative of the question: "the closest one is A"."""
    asked = superlatives(question)
    restating = [verdict for verdict in verdicts if any(word in verdict.said for word in asked)]
    return restating if restating and len({v.letters for v in verdicts}) > 1 else verdicts


def _is_open(clause: TextClause, left: str, own_left: str, right: str) -> bool:
    """Whether a mention is in a condition, a question, or told as what the writer thought before."""
    if clause.forced or FORCED.search(left):
        return False
    if QUESTION.match(right) or _CONDITION.search(own_left):
        return True
    if len(_CONDITION.findall(left)) > 1 and not clause.concludes:  # "if …, A; if …, B; in front, C"
        return True
    after = CONDITION_AFTER.match(right)
    return bool(clause.conditional or after or (clause.former and not clause.revises))


def _says_no(right: str) -> bool:
    return bool(NEGATED_RIGHT.match(without_idioms(right.lower())))


def _polarity(
    clause: TextClause, text: str, first: LetterMention, last: LetterMention, left: str, right: str, *, asks_worst: bool
) -> tuple[bool, bool]:
    """Whether a mention is affirmed by its wording alone, and whether it is denied."""
    own_left = text[max(clause.start, first.start - _LEFT) : first.start].lower() if first.start >= clause.start else ""
    own_right = _DESCRIPTION.split(right.lower())[0]
    if _NO_BETTER.search(own_left):
        return True, False
    if _NOT_EXCLUDED.search(own_left):
        return False, True
    excepted = exception(own_left, right)
    if excepted is not None:
        return excepted, not excepted
    if _SUPERLATIVE_WORST.search(left if clause.begins_with == ":" else own_left):
        return asks_worst, not asks_worst
    if asks_worst and (_CALLED_WORST.search(own_left) or _says_no(right)):
        return True, False
    count = negations(own_left) + negations(own_right)
    if count and count % 2 == 0:
        return bool(negations(own_left)), False
    if _NEGATED_LEFT.search(without_idioms(left)) or _says_no(right):
        return False, True
    return False, bool(count % 2) and not _RESTATED.search(own_left)


def _first_apart(text: str, group: Sequence[LetterMention]) -> bool:
    """ "B,A、C、D": Chinese joins the letters of a list by another sign than the clauses."""
    return (
        len(group) > 2
        and text[group[0].end : group[1].start].strip() == ","
        and "、" in text[group[1].end : group[-1].start]
    )


def _split_off(text: str, group: Sequence[LetterMention], left: str) -> bool:
    """ "I choose C, A and B are wrong": the first letter of the group is chosen, and only the others are negated."""
    return text[group[0].end : group[1].start].startswith(",") and _marked(left, ",", group[0])


def sentence_before(text: str, start: int) -> str:
    """Lower-case text between the end of the previous sentence and `start`."""
    left = text[max(0, start - _LEFT) : start]
    cut = max(left.rfind(sign) for sign in ("\n", "! ", "? ", ". ", "; "))
    return left[cut + 1 :].lower()


def _marked(left: str, right: str, mention: LetterMention) -> bool:
    """Whether the words before a mention mark it as the answer, and its form allows that."""
    bare, ends = _UNDRESS.sub("", left), bool(_CLAUSE_END.match(right))
    if _STRONG.search(bare) or _STRONG.search(left):
        return ends or mention.dressed or not (mention.lower or mention.letter == "I")
    if _WEAK.search(bare):
        return ends
    if not mention.lower and _SUBJECT_IS.search(bare) and not re.search(r"\b(?:second|other|next)\b", bare):
        return bool(_CLAUSE_STOP.match(right))
    return mention.dressed and left[-1:] in tuple(OPENERS) and bool(_ANSWER_AHEAD.search(left))


def _ends_text(text: str, clause: TextClause, first: LetterMention, last: LetterMention) -> bool:
    """Whether the mention is all of the last clause: "given the reflections, B."."""
    before, after = text[clause.start : first.start], text[last.end :][:40]
    if not after and _TRUNCATED.search(text[: first.start][-24:]):
        return False
    if clause.begins_with == ":" and len(text[: clause.start].split("\n")[-1].split()) < 2:  # "Grade: A"
        return False
    return (
        not re.sub(r"(?i)option|choice|选项|[\W_]", "", before) and not re.sub(r"[\W_]", "", after) and clause.start > 0
    )


def _alone(text: str, first: LetterMention, last: LetterMention) -> bool:
    """Whether the mention is all of the first or the last line, or the last sentence of the text."""
    before = text[max(0, first.start - 24) : first.start]
    after = text[last.end : last.end + 8]
    ends = re.fullmatch(r"(?:选?项)?[)\]}>\"']{0,3}\s?[.!]?[)\]}>\"']?", after) is not None
    line_ends = ends or re.match(r"[)\]}>\"']{0,3}\s?[.!:]?\s?\n", after) is not None
    opening = r"\s?(?:- )?[\[({<\"'-]{0,3}(?:(?:option|choice|letter|选项|选)[: _-]?)?[\[({<\"']{0,3}"
    at_start = len(before) == first.start and re.fullmatch(opening, before.lower()) is not None
    at_line = re.search(rf"\n{opening}\Z", before.lower()) is not None
    at_sentence = re.search(rf"[.!?]\s{opening}\Z", before.lower()) is not None
    if at_sentence and not after and _TRUNCATED.search(before):
        return False
    return (at_start and line_ends) or (ends and (at_line or at_sentence))


def last_verdict(text: str, verdicts: Sequence[LetterVerdict]) -> LetterVerdict | None:
    """The last verdict, joined with the one before it if the two are adjacent or the last one has "also"."""
    if not verdicts:
        return None
    last = verdicts[-1]
    if len(verdicts) > 1:
        before = verdicts[-2]
        between = text[before.mention.end : last.mention.start]
        adjacent = before.alone and last.alone and not any(character.isalnum() for character in between[:200])
        if last.also or adjacent:
            return LetterVerdict(before.letters | last.letters, last.mention, before.open or last.open)
    return last
