"""Parse a multiple-choice answer: the offered letter that a text decides for.

A mention is a letter that is not part of a word. A mention is a verdict if its context marks it as one ("the answer
is", "I choose", a line of its own, "is correct"). Articles, pronouns, negated and conditional mentions are not
verdicts. Joined mentions ("A and C") are one verdict with two letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lmms_eval_ad2.parsing.normalise import no_verdict
from lmms_eval_ad2.parsing.quoted import by_text, gist, quoted_option, whole_option
from lmms_eval_ad2.records import Answer, Unparsed

_LEFT, _RIGHT = 100, 60  # characters of context before and after a mention
_DRESS = r"(?:the )?(?:option|choice|letter|选项)?\s?[(\[{<\"']{0,3}\Z"
_UNDRESS = re.compile(r"(?:\bthe )?(?:\boption|\bchoice|\bletter|选项)? ?[(\[{<\"']{0,3}\Z")
_CLAUSE_END = re.compile(r"[)\]}>\"']{0,3}\s?(?:\Z|[.,;:!\n<)\]}]|because\b|since\b|吧|呢|了)")
_ADVERBS = (
    r"(?:most likely|probably|likely|clearly|definitely|certainly|therefore|simply|actually|indeed|either|both|still"
    r"|,| )*"
)
_IS = (
    r"(?:is|are|was|would be|should be|must be|has to be|will be|could be|might be|may be|'s|seems to be|appears to be)"
)
_ZH_IS = r"(?:应该是|应该为|应该选|应为|应是|应选|是|为|选|即)"
_NOUN = r"(?:(?<![a-z])ans(?:wers?)?|verdict|conclusion|selection|letter|choice|option|选项|答案|结论|选择)"
_STRONG = re.compile(
    rf"(?:{_NOUN}[\"'\]]?(?: \([^)]{{0,20}}\))? ?(?:{_IS}|[:=-]|{_ZH_IS})[:= }}]*|(?:\banswer\]?|答案) "
    rf"|\b(?:answers?|option|choice|match|description|statement|response)\b[^\n]{{0,70}}?\b{_IS}\b ?"
    r"|\b(?:choose|select|pick|go with|going with|opt for|recommend|suggest"
    r"|choosing|selecting|settle on|guess|answer with)\b[,: ]*"
    r"|(?:应选|故选|选择|我选|选)[: ]*|\\boxed ?\{[{ ]*|<answer> ?)"
    rf"{_ADVERBS}[: ]*\Z"
)
# These introduce a verdict only if the clause ends after the letter: "so C." but not "so C is ahead".
_WEAK = re.compile(
    rf"(?:\b(?:it|this|that|guess)(?: {_IS}|'s)[: ]*|\bone\b[^\n]{{0,70}}?\b{_IS}\b ?"
    r"|\b(?:say|think|believe|therefore|thus|hence|so|maybe|perhaps|possibly|probably|definitely)\b[,: ]*"
    rf"|(?:因此|所以|故|综上|认为|{_ZH_IS})[,: ]*)"
    rf"{_ADVERBS}[: ]*\Z"
)
_ANSWER_AHEAD = re.compile(r"\banswer\b|答案")
_CONTRAST = re.compile(rf"(?:\bbut(?: rather)?|而是|\bit's|\bit is),? ?{_DRESS}")
_NEGATED_LEFT = re.compile(
    r"(?:\bnot|n't(?: be)?|\bnever|\brather than|\binstead of|\bover|\bexclud\w{1,4}|\beliminat\w{1,4}|\brul\w{1,4} out"
    r"|\bagainst|\bunlike|不是|不选|不应选|不会是|不为|排除|而非)"
    r"(?: be| either| both)?\s?"
    + _DRESS
    + r"|(?:n't|\bnot|\bnever)(?: \w+)? (?:think|believe|say|choose|pick|select|agree|go with)\b[^,]*\Z"
    r"|\b(?:unlikely|doubt)\b[^,]*\Z|不(?:认为|觉得|应该?选|能选)[^,]*\Z"
    r"|\b(?:wrong|incorrect|false)(?: answers?| options?| choices?| ones?)\b[^.]*\Z|错误(?:的)?(?:答案|选项)[^.]*\Z"
)
_NEGATED_RIGHT = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:(?:is|are|was|were|can be|would be|has been) ?)?(?:also |clearly |both |all |therefore )?"
    r"(?:not\b|n't\b|incorrect|wrong|false|invalid|ruled out|eliminated|excluded|can't|cannot|does not|doesn't"
    r"|do not|don't"
    r"|都?(?:不|错|可以排除|排除)|(?:也|选项)?(?:不对|不正确|错误|不符合|不是))"
)
_CONDITION = re.compile(
    r"\bif\b(?! (?:i|we) (?:had|have|must|were)\b| forced)|\b(?:whether|unless|suppose)\b[^,]*\Z"
    r"|(?:如果|若|假如)(?!必须|一定要|非要|只能)|是否[^,]*\Z"
)
_OPEN = re.compile(
    r"\b(?:might|may|could|maybe|perhaps|possibly|either|between)\b[^,]*\Z|(?<!最)(?<!最有)(?:可能|也许|或许)[^,]*\Z"
)
_CONFIRMED = re.compile(
    r"[)\]}>\"']{0,3}\s?(?:选?项)?(?:(?:best )?(?:describes|matches|fits)\b"
    r"|(?:is|are|would be|should be|must be|seems|appears|looks)\b(?: to be)?"
    r"(?P<also> also)?(?: both| clearly| definitely| most likely| probably| indeed| therefore| obviously)*"
    r"(?: the)?(?: most| only| single)? (?:correct|right|best|accurate|appropriate|answer|true)"
    r"|(?P<zh_also>也)?(?:都)?(?:是|为)?(?:最)?(?:正确|对的|对[,.]|佳|合适|符合|正确答案))"
)
_QUESTION = re.compile(r"[^.!\n]{0,40}\?")
_ENUMERATED = re.compile(r"[)\]]?[.):、]\s?[^\s.,;)]")
_HEAD_RIGHT = re.compile(r"[)\]}>\"']?\s?(?:[.):、,]|- )|[)\]}>]| (?:because|since|rather than|instead of|over)\b")
_BESIDE = re.compile(r"[)\]}>\"']{0,3}\s?[.):,、-]?\s?[(\"']{0,2}(?P<text>[^\n<\"]{1,400})")
_LETTERS_ONLY = re.compile(r"[A-Z]{2,8}\.?")
_ANSWER_LINE = re.compile(r"(\banswer|答案|结论)[:：]?\s*\n+\s*", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|if|whether|unless)\b|n't\b|\?|不|没|是否|如果", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Verdict:
    letters: frozenset[str]
    mention: LetterMention
    open: bool = False  # "A or B", "maybe B"
    also: bool = False  # "C is also correct"
    alone: bool = False  # it is the whole line


def read_option(text: str, letters: Sequence[str], options: Mapping[str, str]) -> Answer | Unparsed:
    """The letter that plain `text` decides for; `options` maps letters to texts, and may be empty."""
    offered = {letter.strip().upper() for letter in letters}
    texts = {letter.strip().upper(): gist(option) for letter, option in options.items()}
    letters_of = by_text(texts)
    whole = whole_option(text, letters_of)
    if whole:
        return Answer("mc", whole, "by its text")
    if _LETTERS_ONLY.fullmatch(text) and set(text.rstrip(".")) <= offered:
        return Unparsed("mc", "several", text)
    text = _ANSWER_LINE.sub(r"\1: ", text)
    mentions = find_mentions(text)
    verdict = (
        _last(text, _verdicts(text, mentions)) or _from_heads(text, mentions, texts) or _from_brackets(text, mentions)
    )
    if verdict is None:
        quoted = quoted_option(text, letters_of)
        return Answer("mc", quoted, "by its text") if quoted else Unparsed("mc", no_verdict(text), text[-200:])
    return _checked(text, verdict, offered, texts)


def _checked(text: str, verdict: _Verdict, offered: set[str], texts: Mapping[str, str]) -> Answer | Unparsed:
    tail = text[-200:]
    if verdict.open:
        return Unparsed("mc", "hedged", tail)
    if len(verdict.letters) > 1:
        return Unparsed("mc", "several", tail)
    letter = verdict.mention.letter
    if letter not in offered:
        return Unparsed("mc", "not_offered", f"{letter} is not among {', '.join(sorted(offered))}")
    stated = _text_after(text, verdict.mention)
    if stated and texts.get(letter, "") != stated and stated in texts.values():
        return Unparsed("mc", "contradiction", tail)
    return Answer("mc", letter)


def _verdicts(text: str, mentions: Sequence[LetterMention]) -> list[_Verdict]:
    found: list[_Verdict] = []
    negated_before = -1  # end of the last negated mention: "not A but B"
    for group, either in groups(text, mentions):
        first, last = group[0], group[-1]
        left = _sentence_before(text, first.start)
        right = text[last.end : last.end + _RIGHT]
        if _NEGATED_RIGHT.match(right) and len(group) > 1 and _split_off(text, group, left):
            group, last, either, right = [first], first, False, text[first.end : first.end + _RIGHT]
        if _NEGATED_LEFT.search(left) or _NEGATED_RIGHT.match(right):
            negated_before = last.end
            continue
        if _CONDITION.search(left) or _QUESTION.match(right):
            continue
        letters = frozenset(mention.letter for mention in group)
        alone = _alone(text, first, last)
        confirmed = _CONFIRMED.match(right)
        contrast = 0 <= first.start - negated_before <= 30 and _CONTRAST.search(left)
        if not (alone or confirmed or contrast or _marked(left, right, first)):
            continue
        is_open = (either and len(letters) > 1) or bool(_OPEN.search(left))
        also = bool(confirmed and (confirmed["also"] or confirmed["zh_also"]))
        found.append(_Verdict(letters, first, is_open, also, alone))
    return found


def _split_off(text: str, group: Sequence[LetterMention], left: str) -> bool:
    """ "I choose C, A and B are wrong": the first letter of the group is chosen, and only the others are negated."""
    return text[group[0].end : group[1].start].startswith(",") and _marked(left, ",", group[0])


def _sentence_before(text: str, start: int) -> str:
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
    return mention.dressed and left[-1:] in tuple(OPENERS) and bool(_ANSWER_AHEAD.search(left))


def _alone(text: str, first: LetterMention, last: LetterMention) -> bool:
    """Whether the mention is all of the first or the last line, or the last sentence of the text."""
    before = text[max(0, first.start - 24) : first.start]
    after = text[last.end : last.end + 8]
    ends = re.fullmatch(r"(?:选?项)?[)\]}>\"']{0,3}\s?[.!]?[)\]}>\"']?", after) is not None
    line_ends = ends or re.match(r"[)\]}>\"']{0,3}\s?[.!:]?\s?\n", after) is not None
    opening = r"\s?(?:- )?[\[({<\"'-]{0,3}(?:(?:option|choice|选项|选)[: ]?)?[\[({<\"']{0,3}"
    at_start = len(before) == first.start and re.fullmatch(opening, before.lower()) is not None
    at_line = re.search(rf"\n{opening}\Z", before.lower()) is not None
    at_sentence = re.search(rf"[.!?]\s{opening}\Z", before.lower()) is not None
    return (at_start and line_ends) or (ends and (at_line or at_sentence))


def _last(text: str, verdicts: Sequence[_Verdict]) -> _Verdict | None:
    """The last verdict, joined with the one before it if the two are adjacent or the last one has "also"."""
    if not verdicts:
        return None
    last = verdicts[-1]
    if len(verdicts) > 1:
        before = verdicts[-2]
        between = text[before.mention.end : last.mention.start]
        adjacent = before.alone and last.alone and not any(character.isalnum() for character in between[:200])
        if last.also or adjacent:
            return _Verdict(before.letters | last.letters, last.mention, before.open or last.open)
    return last


def _from_heads(text: str, mentions: Sequence[LetterMention], texts: Mapping[str, str]) -> _Verdict | None:
    """ "B. The blue truck": the only letter at the start of a line, unless the text lists several options."""
    enumerated = {mention.letter for mention in mentions if _ENUMERATED.match(text, mention.end)}
    if len(enumerated) > 1:
        return None
    heads: list[LetterMention] = []
    for mention in mentions:
        line = text[max(0, mention.start - 16) : mention.start]
        at_head = re.search(r"(?:\A|\n)\s?[(\[{<\"'-]{0,3}(?:option |choice |选项)?[(\[\"']?\Z", line.lower())
        if at_head and (mention.start <= 16 or "\n" in line) and mention.letter != "I":
            right = text[mention.end : mention.end + _RIGHT]
            named = texts.get(mention.letter) and _text_after(text, mention) == texts[mention.letter]
            if (named or _HEAD_RIGHT.match(right)) and not _NEGATED_RIGHT.match(right) and not _QUESTION.match(right):
                heads.append(mention)
    if len({mention.letter for mention in heads}) != 1:
        return None
    return _Verdict(frozenset({heads[0].letter}), heads[0])


def _from_brackets(text: str, mentions: Sequence[LetterMention]) -> _Verdict | None:
    """ "... is turning left (C).": the text has only one letter in brackets, and a clause ends with it."""
    bracketed = [
        m for m in mentions if m.dressed and text[m.start - 1 : m.start] == "(" and text[m.end : m.end + 1] == ")"
    ]
    if len({mention.letter for mention in bracketed}) != 1:
        return None
    last = bracketed[-1]
    left = _sentence_before(text, last.start)
    closed = re.fullmatch(r"\)[.!]?", text[last.end : last.end + 3]) is not None
    if not closed or _NEGATION.search(left) or _OPEN.search(left):
        return None
    return _Verdict(frozenset({last.letter}), last)


def _text_after(text: str, mention: LetterMention) -> str:
    """The gist of the text after a letter, up to the end of its line."""
    rest = _BESIDE.match(text, mention.end)
    return gist(rest["text"]) if rest else ""


# Mentions: single letters, and groups of them.
_MOST = 2_000  # mentions examined, the last ones of the text; more occur only if a model repeats itself endlessly

_MENTION = re.compile(
    r"(?<![A-Za-z0-9])(?<![A-Za-z]['.])(?P<letter>[A-Za-z])(?![A-Za-z0-9]|'[A-Za-z]|-[A-Za-z]|\.[a-z])"
)
OPENERS, CLOSERS = "([{<\"'", ")]}>\"'"
_LABEL = re.compile(r"(?:\boption|\bchoice|选项)\s?[(\[{<\"']{0,3}\Z")
# "A" and "I" before a word are an article and a pronoun, unless the word belongs to a verdict.
_ARTICLE = re.compile(
    r" (?!(?:because|since|as|and|or|is|are|was|due|given|which|but|would be|should be|must be"
    r"|matches|fits|describes)\b)[a-z0-9]"
)
_JOIN = re.compile(
    rf"[{re.escape(CLOSERS)}]{{0,3}}\s?(?P<word>,? ?(?:and also|and|or|as well as)"
    r"|,|;|/|&|\+|、|和|与|及|以及|或者|或|还是)"
    rf"\s?(?:option |choice |选项)?[{re.escape(OPENERS)}]{{0,3}}"
)
_OR = re.compile(r"or|/|或|还是")


@dataclass(frozen=True, slots=True)
class LetterMention:
    """A single letter, as a capital, and its position in the text."""

    letter: str
    start: int
    end: int
    lower: bool
    dressed: bool  # in brackets or quotes, or after "option"


def find_mentions(text: str) -> list[LetterMention]:
    """All single letters, without articles and pronouns."""
    found: list[LetterMention] = []
    for match in _MENTION.finditer(text):
        start, end = match.span()
        around = text[start - 1 : start] in tuple(OPENERS) and text[end : end + 1] in tuple(CLOSERS)
        dressed = around or bool(_LABEL.search(text[max(0, start - 12) : start].lower()))
        raw = match["letter"]
        if raw in "AaIi" and not dressed and _ARTICLE.match(text, end):
            continue
        found.append(LetterMention(raw.upper(), start, end, raw.islower(), dressed))
    return found[-_MOST:]


def groups(text: str, mentions: Sequence[LetterMention]) -> Iterator[tuple[list[LetterMention], bool]]:
    """Groups of mentions joined by "and", "or" or a comma; the flag is True if one of the joining words is "or"."""
    group: list[LetterMention] = []
    either = False
    for mention in mentions:
        joint = _JOIN.fullmatch(text[group[-1].end : mention.start][:24]) if group else None
        if joint and mention.start - group[-1].end <= 24 and (not mention.lower or mention.dressed):
            group.append(mention)
            either = either or bool(_OR.search(joint["word"]))
            continue
        if group:
            yield group, either
        group, either = [mention], False
    if group:
        yield group, either
