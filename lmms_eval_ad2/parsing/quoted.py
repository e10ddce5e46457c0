"""Recognise an option by its text: answers that quote an option without its letter."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lmms_eval_ad2.parsing.number_words import ONES

_TEXT_MARK = re.compile(r"(?:\banswer(?: is|:|\"? ?:)|答案(?:是|为|:)|<answer>|\\boxed ?\{)", re.IGNORECASE)
_LETTER_FIRST = re.compile(r"\W{0,4}(?:[A-Za-z]\s?(?:[^\w\s]|\Z)|[A-Z]\s[A-Z])")
FILLERS = frozenset(("a", "an", "the", "and", "it", "is", "are"))
_DOUBT = re.compile(
    r"\b(?:not|no|never|neither|nor|if|whether|unless|might|may|could|maybe|perhaps|possibly|either)\b"
    r"|n't\b|\?|不|没|是否|如果|可能|也许|或许",
    re.IGNORECASE,
)
_LIMIT = 2_000  # characters; no option is longer


_NUMBER_WORDS = {word: str(value) for word, value in ONES.items() if value <= 12}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b")


def numerals(low: str) -> str:
    """Lower-case text with the number words up to twelve as digits."""
    return _NUMBER_WORD.sub(lambda match: _NUMBER_WORDS[match.group()], low)


def _words(text: str) -> list[str]:
    """Lower-case words, digits and ideographs, without filler words, which do not distinguish options."""
    return [word for word in re.sub(r"[\W_]+", " ", text[:_LIMIT].casefold()).split() if word not in FILLERS]


def gist(text: str) -> str:
    """Canonical form for comparing texts: their distinct words in order of first occurrence.

    "It turns left. It is fast." and "It turns left, and is fast" are equal; words are not reordered or replaced.
    """
    return " ".join(dict.fromkeys(_words(text)))


def by_text(texts: Mapping[str, str]) -> dict[str, str]:
    """Option text -> letter, without empty texts, lone letters and texts that two options share."""
    counts: dict[str, int] = {}
    for option in texts.values():
        counts[option] = counts.get(option, 0) + 1
    return {
        option: letter
        for letter, option in texts.items()
        if (len(option) > 1 or not option.isascii()) and counts[option] == 1
    }


def whole_option(text: str, letters: Mapping[str, str]) -> str | None:
    """The letter of the option that equals the whole text, unless the text starts with a letter or is a question."""
    if len(text) > _LIMIT or "?" in text or _LETTER_FIRST.match(text):
        return None
    return letters.get(gist(text))


def quoted_option(text: str, letters: Mapping[str, str]) -> str | None:
    """The letter of the option that follows "the answer is", or that is the last sentence or its end.

    `letters` maps the gist of an option to its letter, see `by_text`. None if two options match.
    """
    tail = " ".join(_words(text[-_LIMIT:]))
    quotes = sum(option in tail for option in letters)
    sentence = re.split(r"(?<=[.!?])\s|\n", text.rstrip()[-600:].rstrip("\"' .!"))[-1]
    candidates: list[str] = []
    marks = list(_TEXT_MARK.finditer(text))
    if marks:
        candidates.append(re.split(r"[\n<}]", text[marks[-1].end() : marks[-1].end() + 600].lstrip())[0])
    if quotes <= 1 and not _DOUBT.search(sentence):
        candidates += [sentence, re.split(r" is |'s ", sentence)[-1], sentence.rpartition('"')[2]]
    found = {letters[key] for key in map(gist, candidates) if key in letters}
    return found.pop() if len(found) == 1 else None
