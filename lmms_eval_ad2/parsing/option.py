"""Parse a multiple-choice answer: the offered letter that a text decides for.

A mention is a letter that is not part of a word. A mention is a verdict if its context marks it as one ("the answer
is", "I choose", a line of its own, "is correct"). Articles, pronouns, negated and conditional mentions are not
verdicts. Joined mentions ("A and C") are one verdict with two letters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from lmms_eval_ad2.parsing.clauses import clauses, negations
from lmms_eval_ad2.parsing.normalise import ANSWER_LINE, is_blind, no_verdict, plain, without_refusals
from lmms_eval_ad2.parsing.option_mentions import LetterMention, find_mentions
from lmms_eval_ad2.parsing.option_statements import remaining, stated_option
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
from lmms_eval_ad2.parsing.presence import stated, without_quotes
from lmms_eval_ad2.parsing.question_words import asks_for_the_worst
from lmms_eval_ad2.parsing.quoted import by_text, gist, quoted_option, whole_option
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.parsing.sides import RIGHT_IDIOM
from lmms_eval_ad2.parsing.verdict_tables import rated_in_json, rated_in_rows, with_ticks
from lmms_eval_ad2.records import Answer, Unparsed

_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", *"一二三四五六")
_CHOSEN = "|".join(
    rf"(?<={verb} the {'.' * width} )" for verb in ("pick", "choose", "select", "take", "with") for width in (5, 6)
)
_PLACE = re.compile(
    r"\b(first|second|third|fourth|fifth|sixth) (?:option|choice|answer|of the (?:four|five|six|options)"
    rf"|(?:{_CHOSEN})one)\b"
    r"|第([一二三四五六])(?:个)?(?:选项|项|答案)"
)
_DEPENDS = re.compile(r"\bdepend(?:s|ing)? on\b|取决于|视[^,.]{1,12}而定", re.IGNORECASE)
_UNSETTLED = re.compile(
    r"\b(?:can't|cannot|can not|could not|couldn't|unable to) (?:\w+ )?(?:choose|decide|pick|settle)\b"
    r"|(?:无法|难以|没法|不能)(?:抉择|取舍|决定|选择)",
    re.IGNORECASE,
)
_TARGET_ABSENT = re.compile(
    r"\b(?:target|object|item|subject)\b.{0,20}\bnot\b.{0,20}\b(?:image|picture|scene|visible|present|exist)"
    r"|(?:目标|物体|对象).{0,8}(?:不在|没有|不存在|未出现)"
)
_CANNOT_TELL = re.compile(
    r"\b(?:cannot|can't|can not|not possible to|impossible to) (?:be )?(?:determine|tell|judge|say|know|identif|seen)"
    r"|\b(?:undetermined|not determinable|unclear|unknown)\b|(?:无法|不能)(?:确定|判断)|不确定|看不清"
)
_APOLOGY = re.compile(r"\b(?:sorry|apologi[sz]e|(?:assist|help) with)\b|抱歉|对不起")
_CALLED = re.compile(
    r"\b(?:correct|final|right|best) (?:answer|option|choice)\b|\banswer is\b|(?:正确|最终)?(?:答案|选项)(?:是|为)"
)
_TAKEN_BACK = re.compile(
    r"\b(?:but|however|although|though|yet|while|no|not|wrong|incorrect|again|final|first|initial)|n't\b|但|不过|然而|不",
    re.IGNORECASE,
)
_BOTH = re.compile(r"\bboth (?:are|of|answers?|options?|would|seem)\b|(?:两者|两个|二者)都", re.IGNORECASE)
_SHORT = 400  # characters; a longer text may say something else after its first words
_LOOP = 4  # equal clauses
_RIGHT = 60  # characters of context after a mention
_ENUMERATED = re.compile(r"[)\]]?[.):、]\s?[^\s.,;)]")
_HEAD_RIGHT = re.compile(
    r"项,| as in\b|[)\]}>\"']?\s?(?:[.):、,]|- )|[)\]}>]| (?:because|since|rather than|instead of|over)\b"
)
_HEAD_LEFT = re.compile(r"(?:\A|[\n.!?;]\s?)[\s(\[-]*\Z")
_BESIDE = re.compile(r"[)\]}>\"']{0,3}\s?[.):,、-]?\s?[(\"']{0,2}(?P<text>[^\n<\"]{1,400})")
_LETTERS_ONLY = re.compile(r"[A-Z]{2,8}\.?")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|if|whether|unless)\b|n't\b|\?|不|没|是否|如果", re.IGNORECASE)


def read_option(text: str, letters: Sequence[str], options: Mapping[str, str], question: str = "") -> Answer | Unparsed:
    """The letter that plain `text` decides for; `options` maps letters to texts, and may be empty."""
    offered = {letter.strip().upper() for letter in letters}
    texts = {letter.strip().upper(): gist(option) for letter, option in options.items()}
    letters_of = by_text(texts)
    whole = whole_option(text, letters_of)
    if whole:
        return Answer("mc", whole, "by its text")
    text = _without_restated(text, options)
    headed = _heading_option(text, letters_of)
    text = with_ticks(text)
    best = rated_in_json(text, offered)
    if best is None:
        best = rated_in_rows(text, offered, worst=asks_for_the_worst(question))
    if best is not None:
        return Answer("mc", best[0], "by its rating") if len(best) == 1 else Unparsed("mc", "several", text[-200:])
    text = text.replace("✓", " ").replace("✗", " ")
    said = set(re.findall(r"\w+", text.upper()))
    if len(said) == 1 and said <= offered and "?" not in text:  # "A A A A"
        return Answer("mc", said.pop())
    if _LETTERS_ONLY.fullmatch(text) and set(text.rstrip(".")) <= offered:
        return Unparsed("mc", "several", text)
    text = ANSWER_LINE.sub(r"\1: ", text)
    mentions = find_mentions(_without_option_texts(text, options))
    verdicts, no = find_verdicts(text, mentions, question)
    verdict = last_verdict(text, verdicts) or _from_heads(text, mentions, texts) or _from_brackets(text, mentions)
    if verdict is None:
        known = _distinct(options, texts)
        if is_blind(text):
            return Unparsed("mc", "refusal", text[-200:])
        kept, undecided = without_refusals(without_quotes(text.lower()))
        low = RIGHT_IDIOM.sub(" ", kept)
        found = (
            (None if REVISION.search(low) or len(low) > _SHORT else headed)
            or _by_number(low, letters)
            or (_undetermined(options) if undecided and not _APOLOGY.search(text.lower()) else None)
            or quoted_option(without_quotes(text), letters_of)
            or (None if _lists_options(text, mentions) or _repeats(low) else stated_option(low, known, no, question))
            or remaining(offered, no)
            or _absent_target(low, options)
        )
        return Answer("mc", found, "by its text") if found else Unparsed("mc", no_verdict(text), text[-200:])
    if _contradicts(text, verdicts):
        return Unparsed("mc", "contradiction", text[-200:])
    if _DEPENDS.search(text) and len({letter for found in verdicts for letter in found.letters}) > 1:
        return Unparsed("mc", "hedged", text[-200:])
    if _UNSETTLED.search(text[verdict.mention.end :]):
        return Unparsed("mc", "hedged", text[-200:])
    if _BOTH.search(text[verdict.mention.end :]) and len(verdicts) > 1 and verdicts[-2].letters != verdict.letters:
        return Unparsed("mc", "several", text[-200:])
    return _checked(text, verdict, offered, texts)


def _without_restated(text: str, options: Mapping[str, str]) -> str:
    """`text` without a list of all options by letter and text, if it says something else: "Options: A. … B. …"."""
    if len(options) < 3:
        return text
    parts = [
        rf"{letter.strip()}\s?[.):、,-]\s?{re.escape(plain(option).strip(' .'))}" for letter, option in options.items()
    ]
    found = re.search(r"[\s;,.\"')]{0,4}".join(parts), text, re.IGNORECASE)
    rest = text[: found.start()] + "\n" + text[found.end() :] if found else text
    return rest if re.search(r"\w", rest) else text


def _absent_target(low: str, options: Mapping[str, str]) -> str | None:
    """The option "the target is not in the image" (F of AD2-Bench) if the reply is one sentence that says so."""
    letters = [letter for letter, option in options.items() if _TARGET_ABSENT.search(option.lower())]
    return letters[0].strip().upper() if len(letters) == 1 and stated(low, "", alone=True) == "no" else None


def _undetermined(options: Mapping[str, str]) -> str | None:
    """The only option that says that the question cannot be answered: "Cannot be determined"."""
    letters = [letter for letter, option in options.items() if _CANNOT_TELL.search(option.lower())]
    return letters[0].strip().upper() if len(letters) == 1 else None


def _contradicts(text: str, verdicts: Sequence[LetterVerdict]) -> bool:
    """Whether the last two verdicts are both called the answer, differ, and nothing takes the first one back."""
    called = [verdict for verdict in verdicts if _CALLED.search(verdict.said)]
    if len(called) < 2 or called[-1].also or called[-1].letters == called[-2].letters:
        return False
    between = text[called[-2].mention.end : called[-1].mention.start]
    return not (REVISION.search(between.lower()) or _TAKEN_BACK.search(between))


def _heading_option(text: str, letters_of: Mapping[str, str]) -> str | None:
    """The letter of the option that is the whole text up to the first sign, unless it begins a list of options."""
    opening, sign, rest = re.split(r"([.,;:!\n]|\Z)", text, maxsplit=1)[:3]
    listed = sign == "," and any(option in gist(re.split(r"[.;!?\n]", rest)[0]) for option in letters_of)
    return None if listed else whole_option(opening, letters_of)


def _without_option_texts(text: str, options: Mapping[str, str]) -> str:
    """`text` with blanks for the texts of options that hold a lone capital ("Object B"), which names no option."""
    for option in options.values():
        if re.search(r"(?<![A-Za-z0-9])[A-H](?![A-Za-z0-9])", option.strip()) and len(option.strip()) > 1:
            text = re.sub(re.escape(option.strip()), lambda m: " " * len(m.group()), text, flags=re.IGNORECASE)
    return text


def _by_number(low: str, letters: Sequence[str]) -> str | None:
    """The letter that a text names by its place: "the second option", 第二个选项."""
    places = {_PLACES.index(next(group for group in match.groups() if group)) % 6 for match in _PLACE.finditer(low)}
    if (
        len(places) != 1
        or len(low) > 200
        or any(negations(part.text) for part in clauses(low) if _PLACE.search(part.text))
    ):
        return None
    place = places.pop()
    return letters[place].strip().upper() if place < len(letters) else None


def _distinct(options: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    """Options without empty texts, lone letters and texts that two options share."""
    shared = Counter(texts.values())
    distinct = {letter: texts[letter.strip().upper()] for letter in options}
    return {k: options[k] for k, text in distinct.items() if shared[text] == 1 and (len(text) > 1 or text.isdigit())}


def _checked(text: str, verdict: LetterVerdict, offered: set[str], texts: Mapping[str, str]) -> Answer | Unparsed:
    tail = text[-200:]
    if verdict.open:
        return Unparsed("mc", "hedged", tail)
    if len(verdict.letters) > 1:
        return Unparsed("mc", "several", tail)
    letter = verdict.mention.letter
    if letter not in offered:
        return Unparsed("mc", "not_offered", f"{letter} is not among {', '.join(sorted(offered))}")
    beside = _text_after(text, verdict.mention)
    if beside and texts.get(letter, "") != beside and beside in texts.values():
        return Unparsed("mc", "contradiction", tail)
    return Answer("mc", letter)


def _lists_options(text: str, mentions: Sequence[LetterMention]) -> bool:
    """Whether the text goes through the options one by one, without a conclusion after them: "(A) … (B) …"."""
    heads = [
        mention
        for mention in mentions
        if _ENUMERATED.match(text, mention.end) and _HEAD_LEFT.search(text[max(0, mention.start - 4) : mention.start])
    ]
    after = re.split(r"[.!?\n]\s", text[heads[-1].end :])[2:] if heads else []
    several = len({mention.letter for mention in heads}) > 1
    return several and not any(part.strip() for part in after) and not REVISION.search(text.lower())


def _repeats(low: str) -> bool:
    """Whether a text repeats a clause again and again, as a model does that has got into a loop."""
    said = Counter(part.text.strip() for part in clauses(low) if len(part.text.strip()) > 8)
    return max(said.values(), default=0) >= _LOOP


def _from_heads(text: str, mentions: Sequence[LetterMention], texts: Mapping[str, str]) -> LetterVerdict | None:
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
            if (named or _HEAD_RIGHT.match(right)) and not (
                NEGATED_RIGHT.match(right) or QUESTION.match(right) or CONDITION_AFTER.match(right)
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
