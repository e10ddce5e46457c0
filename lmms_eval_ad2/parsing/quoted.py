"""Options chosen by their words: an answer that gives an option's text and no letter."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TEXT_MARK = re.compile(r"(?:\banswer(?: is|:|\"? ?:)|答案(?:是|为|:)|<answer>|\\boxed ?\{)", re.IGNORECASE)
_LETTER_FIRST = re.compile(r"\W{0,4}(?:[A-Za-z]\s?(?:[^\w\s]|\Z)|[A-Z]\s[A-Z])")
_FILLERS = frozenset(("a", "an", "the", "and", "it", "is", "are"))
_DOUBT = re.compile(
    r"\b(?:not|no|never|neither|nor|if|whether|unless|might|may|could|maybe|perhaps|possibly|either)\b"
    r"|n't\b|\?|不|没|是否|如果|可能|也许|或许",
    re.IGNORECASE,
)
_LIMIT = 2_000  # characters; no option is longer


def _words(text: str) -> list[str]:
    """Small letters, digits and ideographs, without the words that tell no two options apart."""
    return [word for word in re.sub(r"[\W_]+", " ", text[:_LIMIT].casefold()).split() if word not in _FILLERS]


def gist(text: str) -> str:
    """What two texts share that say the same in the same order: their words, each at its first place.

    "It turns left. It is fast." and "It turns left, and is fast" are one; nothing is reordered or replaced.
    """
    return " ".join(dict.fromkeys(_words(text)))


def by_text(texts: Mapping[str, str]) -> dict[str, str]:
    """Option text -> letter, without empty texts, lone letters and texts that two options share."""
    counts: dict[str, int] = {}
    for option in texts.values():
        counts[option] = counts.get(option, 0) + 1
    return {option: letter for letter, option in texts.items() if len(option) > 1 and counts[option] == 1}


def whole_option(text: str, letters: Mapping[str, str]) -> str | None:
    """The letter of the option that the whole text is, unless a letter or a question mark says more than its words."""
    if len(text) > _LIMIT or "?" in text or _LETTER_FIRST.match(text):
        return None
    return letters.get(gist(text))


def quoted_option(text: str, letters: Mapping[str, str]) -> str | None:
    """The letter of the option that follows "the answer is", or is the last sentence or the end of that.

    `letters` maps the gist of an option to its letter, see `by_text`. None where two options are meant.
    """
    tail = " ".join(_words(text[-_LIMIT:]))
    quotes = sum(option in tail for option in letters)
    sentence = re.split(r"(?<=[.!?])\s|\n", text.rstrip()[-600:].rstrip("\"' .!"))[-1]
    said: list[str] = []
    marks = list(_TEXT_MARK.finditer(text))
    if marks:
        said.append(re.split(r"[\n<}]", text[marks[-1].end() : marks[-1].end() + 600].lstrip())[0])
    if quotes <= 1 and not _DOUBT.search(sentence):
        said += [sentence, re.split(r" is |'s ", sentence)[-1], sentence.rpartition('"')[2]]
    found = {letters[key] for key in map(gist, said) if key in letters}
    return found.pop() if len(found) == 1 else None
