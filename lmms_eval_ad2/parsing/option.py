"""Parse a multiple-choice answer: the offered letter that a text decides for.

A mention is a letter that is not part of a word. A mention is a verdict if its context marks it as one ("the answer
is", "I choose", a line of its own, "is correct"). Articles, pronouns, negated and conditional mentions are not
verdicts. Joined mentions ("A and C") are one verdict with two letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing.attributed import without_attributed
from lmms_eval_ad2.parsing.clauses import negations
from lmms_eval_ad2.parsing.normalise import ANSWER_LINE
from lmms_eval_ad2.parsing.option_lists import (
    first_of_ranking,
    without_enumeration,
    without_lower_places,
    without_numbered,
)
from lmms_eval_ad2.parsing.option_mentions import ENUMERATED, LetterMention, find_mentions
from lmms_eval_ad2.parsing.option_names import named_in
from lmms_eval_ad2.parsing.option_statements import claims_by_text
from lmms_eval_ad2.parsing.option_texts import (
    ANNOUNCED,
    UNSETTLED,
    OfferedOptions,
    option_by_text,
    without_option_texts,
    without_restated,
)
from lmms_eval_ad2.parsing.option_verdicts import (
    CONDITION_AFTER,
    NEGATED_RIGHT,
    OPEN,
    QUESTION,
    LetterVerdict,
    find_verdicts,
    last_verdict,
    sentence_before,
)
from lmms_eval_ad2.parsing.question_words import asks_for_the_worst
from lmms_eval_ad2.parsing.quoted import gist, whole_option
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.parsing.verdict_tables import rated_in_json, rated_in_rows, with_ticks

_DEPENDS = re.compile(r"\bdepend(?:s|ing)? on\b|取决于|视[^,.]{1,12}而定", re.IGNORECASE)
_CALLED = re.compile(
    r"\b(?:correct|final|right|best) (?:answer|option|choice)\b|\banswer(?: is\b| ?:)|(?:正确|最终)?(?:答案"
    r"|选项)(?:是|为)"
)
_TAKEN_BACK = re.compile(
    r"\b(?:but|however|although|though|yet|while|no|not|wrong|incorrect|again|final|first|initial)|n't\b|但"
    r"|不过|然而|不",
    re.IGNORECASE,
)
_BOTH = re.compile(r"\bboth (?:are|of|answers?|options?|would|seem)\b|(?:两者|两个|二者)都", re.IGNORECASE)
_RIGHT = 60  # characters of context after a mention
_HEAD_RIGHT = re.compile(
    r"项,| as in\b| ?\((?:confidence|certainty|probability|置信度|\d{1,3} ?%)|[)\]}>\"']?\s?(?:[.):、,]|- )"
    r"|[)\]}>]| (?:because|since|rather than|instead of|over)\b"
)
_JOINED = re.compile(
    r"[)\]\"']{0,2}\s?(?:,|、|and\b|和)\s?(?:and )?[(\[\"']?[A-H](?![A-Za-z])"
)  # "A, C and D are wrong"
_BESIDE = re.compile(r"[)\]}>\"']{0,3}\s?[.):,、-]?\s?[(\"']{0,2}(?P<text>[^\n<\"]{1,400})")
_LETTERS_ONLY = re.compile(r"[A-Z]{2,8}\.?")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|if|whether|unless)\b|n't\b|\?|不|没|是否|如果", re.IGNORECASE)


def read_option(text: str, letters: Sequence[str], options: Mapping[str, str], question: str = "") -> Answer | Unparsed:
    """The letter that plain `text` decides for; `options` maps letters to texts, and may be empty."""
    given = OfferedOptions(letters, options)
    if whole := whole_option(text, given.by_gist):
        return Answer("mc", whole, "by its text")
    text = with_ticks(without_attributed(without_restated(text, options)))
    if (first := first_of_ranking(text)) in given.offered:
        return Answer("mc", first, "by its rank")
    listed, text = text, without_numbered(text)
    rated = _by_rating(text, given, question)
    if isinstance(rated, Answer) or (rated is not None and not _CALLED.search(text.lower())):
        return rated
    text = ANSWER_LINE.sub(r"\1: ", text.replace("✓", " ").replace("✗", " "))
    text = without_enumeration(without_lower_places(text))
    if not re.search(r"\w", text):
        return Unparsed("mc", "several", listed[-200:])
    mentions = find_mentions(without_option_texts(text, options))
    verdicts, denied = find_verdicts(text, mentions, question)
    verdict = last_verdict(text, verdicts) or _from_heads(text, mentions, given.gists)
    verdict = verdict or _from_brackets(text, mentions)
    if verdict is None:
        return option_by_text(text, given, mentions, denied, question)
    after = text[verdict.mention.end :]
    several = len({letter for found in verdicts for letter in found.letters}) > 1
    if _contradicts(text, verdicts) or _states_another(text, verdict, given, question):
        return Unparsed("mc", "contradiction", text[-200:])
    if UNSETTLED.search(after) or (several and _DEPENDS.search(text)):
        return Unparsed("mc", "hedged", text[-200:])
    if len(verdicts) > 1 and verdicts[-2].letters != verdict.letters and _BOTH.search(after):
        return Unparsed("mc", "several", text[-200:])
    return _checked(text, verdict, given)


def _by_rating(text: str, given: OfferedOptions, question: str) -> Answer | Unparsed | None:
    """The option that a table or JSON rates best, or the letter that is all of the text; None without either."""
    best = rated_in_json(text, given.offered)
    if best is None:
        best = rated_in_rows(text, given.offered, worst=asks_for_the_worst(question))
    if best is not None:
        return Answer("mc", best[0], "by its rating") if len(best) == 1 else Unparsed("mc", "several", text[-200:])
    bare = text.replace("✓", " ").replace("✗", " ")
    said = set(re.findall(r"\w+", bare.upper()))
    if len(said) == 1 and said <= given.offered and "?" not in bare:  # "A A A A"
        return Answer("mc", said.pop())
    if _LETTERS_ONLY.fullmatch(bare) and set(bare.rstrip(".")) <= given.offered:
        return Unparsed("mc", "several", bare)
    return None


def _contradicts(text: str, verdicts: Sequence[LetterVerdict]) -> bool:
    """Whether the last two verdicts are both called the answer, differ, and nothing takes the first one back."""
    called = [verdict for verdict in verdicts if _CALLED.search(verdict.said)]
    if len(called) < 2 or called[-1].also or called[-1].letters == called[-2].letters:
        return False
    between = text[called[-2].mention.end : called[-1].mention.start]
    between = _CALLED.sub(" ", between.lower())
    return not (REVISION.search(between) or _TAKEN_BACK.search(between))


def _states_another(text: str, verdict: LetterVerdict, given: OfferedOptions, question: str) -> bool:
    """Whether a short reply describes only another option: "The light is red, so the answer is B (green)."."""
    low = text.lower()
    if len(text) > _RIGHT * 4 or negations(low) or len({mention.letter for mention in find_mentions(text)}) > 1:
        return False
    named = set(named_in(low, given.texts, question))
    return len(named) == 1 and named == set(claims_by_text(low, given.texts, question).affirmed) - verdict.letters


def _checked(text: str, verdict: LetterVerdict, given: OfferedOptions) -> Answer | Unparsed:
    tail = text[-200:]
    if verdict.open:
        return Unparsed("mc", "hedged", tail)
    if len(verdict.letters) > 1:
        return Unparsed("mc", "several", tail)
    letter = verdict.mention.letter
    if letter not in given.offered:
        return Unparsed("mc", "not_offered", f"{letter} is not among {', '.join(sorted(given.offered))}")
    beside = _text_after(text, verdict.mention)
    if beside and given.gists.get(letter, "") != beside and beside in given.gists.values():
        return Unparsed("mc", "contradiction", tail)
    return Answer("mc", letter)


def _from_heads(text: str, mentions: Sequence[LetterMention], texts: Mapping[str, str]) -> LetterVerdict | None:
    """ "B. The blue truck": the only letter at the start of a line, unless the text lists several options."""
    enumerated = {mention.letter for mention in mentions if ENUMERATED.match(text, mention.end)}
    if len(enumerated) > 1 or ANNOUNCED.search(text):
        return None
    heads: list[LetterMention] = []
    for mention in mentions:
        line = text[max(0, mention.start - 16) : mention.start]
        at_head = re.search(r"(?:\A|\n)\s?[(\[{<\"'-]{0,3}(?:option |choice |选项)?[(\[\"']?\Z", line.lower())
        if at_head and (mention.start <= 16 or "\n" in line) and mention.letter != "I":
            right = text[mention.end : mention.end + _RIGHT]
            named = texts.get(mention.letter) and _text_after(text, mention) == texts[mention.letter]
            if (named or _HEAD_RIGHT.match(right)) and not (
                _JOINED.match(right)
                or NEGATED_RIGHT.match(right)
                or QUESTION.match(right)
                or CONDITION_AFTER.match(right)
            ):
                heads.append(mention)
    if len({mention.letter for mention in heads}) != 1:
        return None
    return LetterVerdict(frozenset({heads[0].letter}), heads[0])


def _from_brackets(text: str, mentions: Sequence[LetterMention]) -> LetterVerdict | None:
    """ "... is turning left (C).": the text has only one letter in brackets, and a clause ends with it."""
    bracketed = [
        m
        for m in mentions
        if m.dressed
        and re.search(r"\((?:option |choice |选项)?\Z", text[max(0, m.start - 9) : m.start].lower())
        and text[m.end : m.end + 1] == ")"
    ]
    if len({mention.letter for mention in bracketed}) != 1:
        return None
    last = bracketed[-1]
    left = sentence_before(text, last.start)
    closed = re.match(r"\)(?:[.!,;]|\s?\Z|\s?\n)", text[last.end : last.end + 3]) is not None
    if not closed or _NEGATION.search(left) or OPEN.search(left):
        return None
    return LetterVerdict(frozenset({last.letter}), last)


def _text_after(text: str, mention: LetterMention) -> str:
    """The gist of the text after a letter, up to the end of its line."""
    rest = _BESIDE.match(text, mention.end)
    return gist(rest["text"]) if rest else ""
