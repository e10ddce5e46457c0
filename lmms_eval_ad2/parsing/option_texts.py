"""Recognise an option without its letter: by its text, its place, or the number that it states.

Used for replies in which no letter is a verdict. A text that goes through the options one by one, that repeats itself,
or whose writer sees no picture states none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing.clauses import clauses, last_sentence, negations
from lmms_eval_ad2.parsing.count import read_count
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.option_conclusions import concluded_option, one_of_two
from lmms_eval_ad2.parsing.option_mentions import ENUMERATED, LetterMention
from lmms_eval_ad2.parsing.option_statements import remaining, stated_option
from lmms_eval_ad2.parsing.presence import stated, without_quotes
from lmms_eval_ad2.parsing.quoted import by_text, gist, numerals, quoted_option, whole_option
from lmms_eval_ad2.parsing.refusals import is_blind, no_verdict, without_refusals
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.parsing.sides import RIGHT_IDIOM

ANNOUNCED = re.compile(r"\bone by one\b|\bgo through (?:the|each|all)\b|逐一|逐个|逐项", re.IGNORECASE)
UNSETTLED = re.compile(
    r"\b(?:can't|cannot|can not|could not|couldn't|unable to) (?:\w+ )?(?:choose|decide|pick|settle)\b"
    r"|\bno idea\b(?! why| how)"
    r"|(?:无法|难以|没法|不能)(?:抉择|取舍|决定|选择)",
    re.IGNORECASE,
)
_PLACES = (
    *("first", "second", "third", "fourth", "fifth", "sixth"),
    *("one", "two", "three", "four", "five", "six"),
    *"一二三四五六",
)
_CHOSEN = "|".join(
    rf"(?<={verb} the {'.' * width} )" for verb in ("pick", "choose", "select", "take", "with") for width in (5, 6)
)
_PLACE = re.compile(
    r"\b(first|second|third|fourth|fifth|sixth) (?:option|choice|answer|of the (?:four|five|six|options)"
    rf"|(?:{_CHOSEN})one)\b"
    r"|\b(?:option|choice) (one|two|three|four|five|six)\b"
    r"|第([一二三四五六])(?:个)?(?:选项|项|答案)"
)
_RANGE = re.compile(
    r"(?P<above>more than |over |超过|多于)?(?P<low>\d{1,4}) ?[辆个名位条盏人]?"
    r"(?: ?(?:-|~|to|到|至) ?(?P<high>\d{1,4}))?(?P<more> or more|\+|[辆个名位条盏人]?(?:及|或)?(?:以上|更多))?"
    r"(?: (?!m\b|km|second)[a-z]+|[辆个名位条盏人])?"
)
_ASKS_NUMBER = re.compile(r"\bhow many\b|\bnumber of\b|\bcount\b|数量|几[辆个名位条盏只]|多少[辆个名位条盏只人]")
_MOST_COUNTED = 100_000
_OF_TWO = re.compile(r"\bthe (?:former|latter)\b|前者|后者")
_TARGET_ABSENT = re.compile(
    r"\b(?:target|object|item|subject)\b.{0,20}\bnot\b.{0,20}\b(?:image|picture|scene|visible|present|exist)"
    r"|(?:目标|物体|对象).{0,8}(?:不在|没有|不存在|未出现)"
)
# "Cannot be determined": the option that says that the question cannot be answered.
_CANNOT_TELL = re.compile(
    r"\b(?:cannot|can't|can not|not possible to|impossible to) (?:be )?(?:determine|tell|judge|say|know|identif|seen)"
    r"|\b(?:undetermined|not determinable|unclear|unknown)\b|(?:无法|不能)(?:确定|判断)|不确定|看不清"
)
_APOLOGY = re.compile(r"\b(?:sorry|apologi[sz]e|(?:assist|help) with)\b|抱歉|对不起")
# A reply that was cut off before its end: "A. Turn left: the". A reason that is cut off says nothing else.
_UNFINISHED = re.compile(
    r"(?:\A|(?<=[.!?\n])\s)(?![^.!?\n]*\b(?:because|since|so that|due to)\b)[^.!?\n]*"
    r"\b(?:the|an?|is|are|was|were|would|will|should|must|can|be|of|and|or|that|which)\s*\Z"
)
_SHORT = 400  # characters; a longer text may say something else after its first words
_LOOP = 4  # equal clauses
_HEAD_LEFT = re.compile(r"(?:\A|[\n.!?;]\s?)[\s(\[-]*\Z")


@dataclass(frozen=True)
class OfferedOptions:
    """The letters and the texts of a question's options; the texts may be missing."""

    letters: Sequence[str]
    texts: Mapping[str, str]

    @cached_property
    def offered(self) -> frozenset[str]:
        """The letters as capitals."""
        return frozenset(letter.strip().upper() for letter in self.letters)

    @cached_property
    def gists(self) -> dict[str, str]:
        """Letter, as a capital -> gist of its text."""
        return {letter.strip().upper(): gist(option) for letter, option in self.texts.items()}

    @cached_property
    def by_gist(self) -> dict[str, str]:
        """Gist of a text -> letter, see quoted.by_text."""
        return by_text(self.gists)


def option_by_text(
    text: str, options: OfferedOptions, mentions: Sequence[LetterMention], denied: Iterable[str], question: str
) -> Answer | Unparsed:
    """The option that plain `text` states without a verdict on a letter; `denied`: letters that it denies."""
    if is_blind(text):
        return Unparsed("mc", "refusal", text[-200:])
    if UNSETTLED.search(text):
        return Unparsed("mc", "hedged", text[-200:])
    if _UNFINISHED.search(text):
        return Unparsed("mc", "no_verdict", text[-200:])
    kept, undecided = without_refusals(without_quotes(text.lower()))
    low = RIGHT_IDIOM.sub(" ", kept)
    unread = undecided and _only_declines(text.lower())
    lists = unread or _lists_options(text, mentions) or _repeats(low) or bool(ANNOUNCED.search(text))
    distinct = _distinct(options.texts, options.gists)
    found = (
        _counted_option(text, options.texts, question)
        or (None if REVISION.search(low) or len(low) > _SHORT else heading_option(text, options.by_gist))
        or _by_number(low, options.letters)
        or (_only_option(_CANNOT_TELL, options.texts) if undecided and not _APOLOGY.search(text.lower()) else None)
        or quoted_option(without_quotes(text), options.by_gist)
        or (None if lists else stated_option(low, distinct, denied, question))
        or one_of_two(low, distinct)
        or concluded_option(low, distinct, question)
        or remaining(options.offered, denied)
        or _absent_target(low, options.texts)
    )
    return Answer("mc", found, "by its text") if found else Unparsed("mc", no_verdict(text), text[-200:])


def _only_declines(low: str) -> bool:
    """Whether the last of several sentences says that the question cannot be answered, and nothing else."""
    last = last_sentence(low)
    kept, undecided = without_refusals(low[last[0].start :]) if last else ("", False)
    return undecided and not re.search(r"\w", kept)


def without_restated(text: str, options: Mapping[str, str]) -> str:
    """`text` without a list of all options by letter and text: "Options: A. … B. …"."""
    low = text.lower()
    texts = {letter.strip(): plain(option).strip(" .") for letter, option in options.items()}
    if len(options) < 3 or any(option.lower() not in low for option in texts.values()):
        return text
    parts = [rf"{letter}\s?[.):、,-]?\s?{re.escape(option)}" for letter, option in texts.items()]
    found = re.search(r"[\s;,.\"')]{0,4}".join(parts), text, re.IGNORECASE)
    return text[: found.start()] + "\n" + text[found.end() :] if found else text


def _absent_target(low: str, options: Mapping[str, str]) -> str | None:
    """The option "the target is not in the image" (F of AD2-Bench) if the reply is one sentence that says so."""
    return _only_option(_TARGET_ABSENT, options) if stated(low, "", alone=True) == "no" else None


def _counted_option(text: str, options: Mapping[str, str], question: str) -> str | None:
    """Where all options are numbers or ranges of them: the one that the count falls into that the text gives."""
    ranges = {letter: _range_of(numerals(plain(option).lower().strip(" ."))) for letter, option in options.items()}
    bare = all(option.strip(" .").isdecimal() for option in options.values())
    if not ranges or None in ranges.values() or not (bare or _ASKS_NUMBER.search(question.lower())):
        return None
    count = read_count(text, question)
    letters = [letter for letter, held in ranges.items() if held and isinstance(count, Answer) and count.value in held]
    return letters[0].strip().upper() if len(letters) == 1 else None


def _range_of(option: str) -> range | None:
    """The numbers that an option such as "7", "4-6", "more than 10" or 10辆及以上 stands for."""
    found = _RANGE.fullmatch(option)
    if not found:
        return None
    low = int(found["low"]) + (found["above"] is not None)
    if found["above"] or found["more"]:
        return range(low, _MOST_COUNTED)
    return range(low, int(found["high"] or low) + 1)


def _only_option(pattern: re.Pattern[str], options: Mapping[str, str]) -> str | None:
    """The letter of the only option whose text matches `pattern`."""
    letters = [letter for letter, option in options.items() if pattern.search(option.lower())]
    return letters[0].strip().upper() if len(letters) == 1 else None


def heading_option(text: str, letters_of: Mapping[str, str]) -> str | None:
    """The letter of the option that is the whole text up to the first sign, unless it begins a list of options."""
    opening, sign, rest = re.split(r"([.,;:!\n]|\Z)", text, maxsplit=1)[:3]
    listed = sign == "," and any(option in gist(re.split(r"[.;!?\n]", rest)[0]) for option in letters_of)
    listed = listed or any(gist(re.split(r"[.,;:]", line)[0]) in letters_of for line in rest.split("\n")[1:])
    return None if listed else whole_option(opening, letters_of)


def without_option_texts(text: str, options: Mapping[str, str]) -> str:
    """`text` with blanks for the texts of options that hold a lone capital ("Object B"), which names no option."""
    for option in options.values():
        if re.search(r"(?<![A-Za-z0-9])[A-H](?![A-Za-z0-9])", option.strip()) and len(option.strip()) > 1:
            text = re.sub(re.escape(option.strip()), lambda m: " " * len(m.group()), text, flags=re.IGNORECASE)
    return text


def _by_number(low: str, letters: Sequence[str]) -> str | None:
    """The letter that a text names by its place: "the second option", "the latter" of two, 第二个选项."""
    pair = list(_OF_TWO.finditer(low)) if len(letters) == 2 else []
    if len(pair) == 1 and not any(negations(part.text) for part in clauses(low) if _OF_TWO.search(part.text)):
        return letters[0 if pair[0].group() in ("the former", "前者") else 1].strip().upper()
    ends = re.search(r"[.;,!?\n]\s?((?:so|hence|thus|therefore|因此|所以)[^.!?\n]{1,60}[.!]?)\s*\Z", low)
    low = ends[1] if ends else low
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


def _lists_options(text: str, mentions: Sequence[LetterMention]) -> bool:
    """Whether the text goes through the options one by one, without a conclusion after them: "(A) … (B) …"."""
    heads = [
        mention
        for mention in mentions
        if ENUMERATED.match(text, mention.end) and _HEAD_LEFT.search(text[max(0, mention.start - 4) : mention.start])
    ]
    after = re.split(r"[.!?\n]\s", text[heads[-1].end :])[2:] if heads else []
    several = len({mention.letter for mention in heads}) > 1
    return several and not any(part.strip() for part in after) and not REVISION.search(text.lower())


def _repeats(low: str) -> bool:
    """Whether a text repeats a clause again and again, as a model does that has got into a loop."""
    said = Counter(part.text.strip() for part in clauses(low) if len(part.text.strip()) > 8)
    return max(said.values(), default=0) >= _LOOP
