"""Clauses of plain text, and whether something that is named in one is affirmed or denied there.

Polarity is a count: each negation whose scope covers the name turns it round, so "it would be wrong to say that there
is no bus" affirms the bus. Scopes end with the clause. Clauses that are conditions or questions say nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lmms_eval_ad2.parsing.revisions import REVISION

# Words that look like negations and are none.
_NO_NEGATION = re.compile(
    r"\b(?:no|without(?: any| a)?) (?:doubt|question|wonder|problem|matter)\b|\bnot (?:only|just|merely|to mention)\b"
    r"|\bwhether or not\b|\bno (?:fewer|less|more) than\b|不如|\bno[- ](?:parking|entry|stopping|passing"
    r"|overtaking|u-turn|left turn|right turn|turn)\b"
    r"|\b(?:nothing|anything) (?:wrong|unusual)\b|\bnone other than\b|\bno less than\b|\bno sooner\b"
    r"|不(?:仅|但|只|少|远|久|同|过|禁|断|错|妨|得不|止|光|到(?= ?[0-9一二三四五六七八九十]))"
    r"|无(?:论|障碍|人(?:车|机|配送|驾)|疑|轨|线)|非(?:机动|常|凡)|未来"
    r"|没(?:有)?问题|没错|毫无疑问|差不多|是不是|有没有|是否(?!定|认)|能不能|会不会"
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|cannot|without|nowhere|zero|far from)\b|n't\b"
    r"|\b(?:rul(?:e|es|ed|ing) out|exclud\w+|eliminat\w+|reject\w*|discard\w*|dismiss\w*|den(?:y|ies"
    r"|ied|ying)|disagree\w*"
    r"|doubt\w*|lack\w*|miss(?:es|ing)?|overlook\w*|absent|absence|wrong|incorrect|false|untrue|invalid|impossible"
    r"|unlikely|implausible|inconceivable|contradict\w*|cross(?:ed|es|ing)? out|fails? to|free of"
    r"|devoid|unsuitable|(?:is|are) out(?! of| in| on| there)|mistaken|mistake|error"
    r"|inaccurate|improbable|inconsistent)\b"
    r"|不可能|不存在|不正确|不合适|不符合|不对|不是|不能|不会|并非|没有|没能|未能|否认|否定|排除|错误|错的"
    r"|错了|矛盾|缺乏|缺少|忽视|忽略"
    r"|与其|[不没无非未]"
)
_NEITHER = re.compile(r"[不没无][^,.;]{1,14}(?=[也又][不没无])")
_CONDITION = re.compile(
    r"\bhad there been\b|\b(?:if|unless|whether|suppos(?:e|ing)|assuming|provided that|in case|were it|had it)\b"
    r"|如果|若是|若(?!干)|假如|假设|(?<!主)(?<!只)要是|除非|倘若|是否(?!定|认|[.,;!]|\Z)|是不是|有没有"
    r"|能不能|能否(?!认)|可否(?!认)|取决于"
    r"|\bdepend(?:s|ing)? on\b|\A\W*(?:were|had) (?:it|the|there|this|that|we|i)\b"
)
_TENTATIVE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|could(?! (?:be (?:identified|seen|found|detected|made out)"
    r"|not)\b)|may|not sure|unsure|uncertain|unclear|can't tell|cannot tell|hard to)\b"
    r"|(?<!不)(?<!最有)(?<!最)可能|也许|或许|不确定|说不准|不清楚|难以|无法"
)
_OTHERWISE = re.compile(r"\A\s*(?:\w+ )?(?:otherwise|or else|else)\b|\A\s*(?:否则|不然)")
_CONSEQUENCE = re.compile(r"就|那么|则|会|将|便")  # the consequence of a condition, within its clause
_CONTRAST = re.compile(r"\b(?:but|however|yet)\b|但|不过|然而|而是")
# What the writer thought before.
_FORMER = re.compile(
    r"\b(?:at first|at a first glance|at first glance|initially|originally|previously|earlier|normally"
    r"|first,? i (?:said|answered|chose|picked)|usually"
    r"|(?:about|going|wanted|meant) to say|almost said"
    r"|i (?:first |had |once )?thought|i (?:first|had|once) (?:took|believed|assumed|mistook|read|counted)"
    r"|first thought|seemed|i was inclined|i assumed|considered"
    r"|was considering|thought about|was tempted|question (?:suggests|implies|assumes)|my first(?! (?:choice"
    r"|pick|preference)\b(?! was))|(?:you"
    r"|one|some|many|people|others)(?: people)? (?:might|may|could|would)|i'd have (?:said|agreed"
    r"|thought)|i would have)\b"
    r"|\b(?:many|some|most|other|any|an?|the) (?:\w+ )?(?:drivers?|people|persons?|viewers?|observers?|readers?"
    r"|passengers?)(?: \w+ing(?: [^.,;]{1,40})?)? (?:might|may|could|would|will|says?|thinks?|claims?|suggests?)\b"
    r"|有(?:些)?人(?:会|可能)?(?:说|认为|觉得)|以为|一开始|起初|最初|原本|原先|本来|乍一看|一度|之前|看着像"
    r"|看似|看起来像"
)
CONCLUSION = re.compile(
    r"\b(?:so|therefore|thus|hence|consequently|in fact|actually|in conclusion|overall|finally"
    r"|as a result|ultimately|in short|which means)\b|\bit is\Z"
    r"|所以|因此|其实|实际(?:上|为)?|综上|故|那就|可见|最终|总之|由此|因而|说明"
)
_BREAK = re.compile(
    r"[.!?;\n]+(?=\s|\Z|[\u4e00-\u9fff])|\n|[,:]\s?|\s-+\s|\s\|\s|\s?\((?!(?:option|choice"
    r"|letter)s? )(?=[a-z]+ [a-z])|\((?!选项|答案)(?=[\u4e00-\u9fff]{2})"
    r"|\b(?:and|yet) (?=(?:it|he|she|they|there|i|we|you|this|that) (?:is|are|was|were|do|does|did|has"
    r"|have|had|can|could|will|would|should|must|need|may|might|won't)\w*|(?:isn't|aren't)\b)"
    r"|\band (?=(?:do|does|did|is|are"
    r"|was|were|can|could|should|would|will)(?:n't| not)\b|cannot\b|not\b|never\b|neither\b|(?:the"
    r"|my) (?:\w+ )?answer\b)"
    r"|\bso\b(?! (?:many|much|far|as|long|that)\b)"
    r"|(?<!anything )(?<!nothing )(?<!everything )(?<!all )(?<!none )(?<!option )(?<!options )(?<!choice )(?<!answer )"
    r"\bbut\b"
    r"|\byet\b|\b(?:however|although|though|whereas|while|(?<!not )(?<!but )because|since|given"
    r"|so that|therefore|thus|hence|which|who|except that)\b"
    r"|(?:但是|但|而是|不过|然而|虽然|尽管|因为|由于|所以|因此)"
)


# "Anything but A": what is said of all others, and so the opposite of A.
_EXCEPTION = re.compile(
    r"\b(?P<all>anything|everything|every(?: other)? \w+|all(?: \w+){0,3}|each \w+"
    r"|any \w+)?(?P<none>nothing|none|no \w+)? ?"
    r"\b(?:other than|but|except(?: for)?|besides|apart from|aside from|excluding) (?:for )?(?:the |a "
    r"|an )?(?:option |choice |选项)?[\"'(]{0,2}\Z|(?P<zh>(?<![排清消])除了?)(?:选项)?[\"'(]{0,2}\Z"
)
_WEAK_NEGATIVE = re.compile(
    r"\b(?:would|will|could)\b[^.;\n]{0,20}\b(?:cause|crash|collide|be dangerous|be unsafe|be illegal"
    r"|risk)\w*|\b(?:blocked|illegal|dangerous|unsafe|forbidden|closed)\b|危险|违规|违法|碰撞|说不通"
)


FORCED = re.compile(
    r"\b(?:if|were) (?:i|we) (?:had|have|must|were|to|need)\b|\bif (?:i|we) (?:\w+ )(?:had|have|must"
    r"|were)\b|\bif (?:forced|pressed|pushed|required|i'm forced|made to)\b|\bforced to\b|硬要|(?:如果|若"
    r"|假如|要是)(?:必须|一定要|非要|只能|非得)"
)


_COURTESY = re.compile(
    r"\b(?:hope|let me know|feel free|please|happy to|if you(?:'d| would| have| need))\b"
    r"|希望|如果您|如有|欢迎|请注意|祝"
)


@dataclass(frozen=True)
class TextClause:
    """`text` in lower case; `start` in the whole text; `sentence`: number of its sentence, from 0."""

    text: str
    start: int
    sentence: int
    ends_with: str  # the sign or word that ends it
    conditional: bool  # a clause before it in its sentence is a condition that covers it
    begins_with: str  # the word before it

    @cached_property
    def open(self) -> bool:
        """Whether it is a condition or a question, which states nothing."""
        return "?" in self.ends_with or bool(_CONDITION.search(self.text) and not self.forced)

    @cached_property
    def former(self) -> bool:
        """Whether it tells what the writer thought before."""
        return bool(_FORMER.search(self.text))

    @cached_property
    def forced(self) -> bool:
        """Whether it is a guess that the writer makes because an answer is asked for: "if I had to guess"."""
        return bool(FORCED.search(self.text))

    @cached_property
    def revises(self) -> bool:
        """Whether it takes back what was said before."""
        return bool(REVISION.search(self.text))

    @cached_property
    def concludes(self) -> bool:
        """Whether it is drawn as a conclusion."""
        return bool(CONCLUSION.search(self.begins_with + self.text))

    @cached_property
    def tentative(self) -> bool:
        """Whether it is said with doubt."""
        return bool(_TENTATIVE.search(_NO_NEGATION.sub(" ", self.text)))


@lru_cache(maxsize=8)
def clauses(text: str) -> tuple[TextClause, ...]:
    """The clauses of plain text, in order. Kept: a reader asks for those of the same reply many times."""
    return tuple(_clauses(text))


def _clauses(text: str) -> Iterator[TextClause]:
    low, start, sentence, conditional, word = text.lower(), 0, 0, False, ""
    for match in (*_BREAK.finditer(low), None):
        stop = match.start() if match else len(low)
        if low[start:stop].strip():
            sign = match.group().strip() if match else ""
            head = word + " " + low[start : start + 8]
            conditional = conditional or bool(_OTHERWISE.search(low[start : start + 14]))
            conditional = conditional and not (_CONTRAST.search(head) or CONCLUSION.search(head))
            clause = TextClause(low[start:stop], start, sentence, sign, conditional, word)
            yield clause
            conditional = conditional or (clause.open and not _CONSEQUENCE.search(clause.text))
        if match is None:
            return
        if re.search(r"[.!?;\n]", match.group()):
            sentence, conditional = sentence + 1, False
        sign = match.group().strip()
        start, word = match.end(), sign if low[start:stop].strip() else f"{word} {sign}"[-40:]


def last_sentence(low: str) -> list[TextClause]:
    """The clauses of the last sentence of lower-case text that is no courtesy; empty if it is the only one."""
    sentences: list[list[TextClause]] = []
    before: TextClause | None = None
    for part in clauses(low):
        if before is None or (part.sentence != before.sentence and before.ends_with != ";"):
            sentences.append([])
        sentences[-1].append(part)
        before = part
    kept = [group for group in sentences if not any(_COURTESY.search(part.text) for part in group)]
    return kept[-1] if len(kept) > 1 else []


def clause_at(parts: Sequence[TextClause], position: int) -> TextClause:
    """The clause of `parts`, in order, that covers `position`, or the last one before it."""
    return parts[max(0, bisect_right(parts, position, key=lambda part: part.start) - 1)]


def without_idioms(text: str) -> str:
    """Lower-case text without words that look like negations and are none."""
    return _NO_NEGATION.sub(" ", text)


def negations(text: str) -> int:
    """The number of negations in lower-case text. "Neither A nor B" is one, as is 既不左转也不右转."""
    found = _NEGATION.findall(_NEITHER.sub("", without_idioms(text)))
    nor = found.count("nor")
    return len(found) - (nor if nor < len(found) else nor - 1 if nor else 0)


def denied(clause: str, start: int, end: int) -> bool:
    """Whether the words at [start, end) of a lower-case clause are denied there: an odd number of negations."""
    return bool(negations(clause[:start] + " … " + clause[end:]) % 2)


def exception(left: str, right: str) -> bool | None:
    """Whether a thing is affirmed ("nothing but A", "anything but A is wrong") or denied ("anything but A").

    `left` and `right` are the lower-case texts before and after it. None if it is no exception.
    """
    found = _EXCEPTION.search(left)
    if not found:
        return None
    # Chinese names what holds for the others after a comma: 除了B,其他都对.
    said = re.split(r"[.!?;\n]" if found["zh"] else r"[.,!?;\n]", right.lower())[0]
    bad = negations(said) + bool(_WEAK_NEGATIVE.search(said)) + (1 if found["none"] else negations(left))
    return bool(bad % 2)
