"""Places of a text where options are named: by their whole text, or by the words that only one option has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lmms_eval_ad2.parsing.quoted import FILLERS, numerals

_COMMON = frozenset(("the", "and", "one", "with", "for", "are", "that", "this", "its", "from"))
_PROGRESSIVE = re.compile(
    r"(?:\b(?:is|are|was|were|be|been|keeps?|starts?|begins?|and)|'s|'re)(?: \w+ly| now| still| about to be)? \Z"
)
ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|ed|es|s|e)\Z")


@dataclass(frozen=True, slots=True)
class NamedOption:
    """An option named by its text, with its place in the text."""

    letter: str
    start: int
    end: int


def named_options(low: str, options: Mapping[str, str]) -> list[NamedOption]:
    """Where options are named by their whole text, longer texts first; places do not overlap."""
    taken: list[NamedOption] = []
    occupied = bytearray(len(low))
    patterns = {letter: _pattern(option) for letter, option in options.items()}
    shared = Counter(pattern and pattern.pattern for pattern in patterns.values())  # "turn left" and "turning left"
    for letter, _ in sorted(options.items(), key=lambda pair: -len(pair[1])):
        pattern = patterns[letter]
        if pattern is None or shared[pattern.pattern] > 1:
            continue
        for match in pattern.finditer(low):
            if not any(occupied[match.start() : match.end()]) and _stated(low, match, options[letter]):
                occupied[match.start() : match.end()] = b"\x01" * (match.end() - match.start())
                taken.append(NamedOption(letter, match.start(), match.end()))
    return sorted(taken, key=lambda item: item.start)


def _pattern(option: str) -> re.Pattern[str] | None:
    text = numerals(option.lower().strip(" .!?"))
    words = re.findall(r"[a-z0-9_]+|[\u4e00-\u9fff]+", text)
    words = [word for word in words[:-1] if word not in FILLERS] + words[-1:]  # "Object A" ends with a letter
    if not words or len(words) > 40:
        return None
    gap = r"(?:[\s\W]|\b(?:a|an|the|is|are|and)\b){0,6}"
    parts = [_inflected(word) if word.isascii() and word.isalpha() else re.escape(word) for word in words]
    edge_left = r"(?<![a-z0-9_.])" if words[0].isascii() else ""
    edge_right = r"(?![a-z0-9_])(?!\.\d)" if words[-1].isascii() else ""
    return re.compile(edge_left + gap.join(parts) + edge_right)


def _stated(low: str, match: re.Match[str], option: str) -> bool:
    """Whether a match is no gerund that only discusses an option: "is turning left", but not "turning left would …"."""
    form = re.match(r"[a-z]+ing\b", match.group())
    return not form or form.group() in option.lower() or bool(_PROGRESSIVE.search(low[: match.start()][-40:]))


def _inflected(word: str) -> str:
    """A pattern of an English word in its other forms: "turn", "turns", "turning", "turned"; "going", "goes"."""
    if word in ("go", "goes", "going"):
        return "go(?:es|ing)?"
    stem = ENDING.sub("", word)
    if len(stem) < 4 or word.endswith("ss"):
        return re.escape(word) + "(?:s|es|time)?"
    return re.escape(stem) + rf"(?:{re.escape(stem[-1])}?(?:e|es|s|ed|ing)|time)?"


def named_in(said: str, options: Mapping[str, str], question: str) -> dict[str, float]:
    """Letter -> share of its telling words that lower-case text says, of the options of which it says any."""
    words = words_of(said)
    telling = telling_of_options(options, question)
    return {letter: len(own & words) / len(own) for letter, own in telling.items() if own & words}


def telling_of_options(options: Mapping[str, str], question: str) -> dict[str, set[str]]:
    """The words of each option that neither another option nor the question has."""
    words = {letter: words_of(option.lower()) for letter, option in options.items()}
    asked = words_of(question.lower())
    return {
        letter: own - asked - set().union(*(others for other, others in words.items() if other != letter))
        for letter, own in words.items()
    }


def words_of(low: str) -> set[str]:
    """English words without their endings, numbers, and pairs of Chinese characters."""
    english = {ENDING.sub("", word) for word in re.findall(r"[a-z]{3,}|[a-z]?\d+[a-z]?", low)}
    runs = re.findall(r"[\u4e00-\u9fff]+", low)
    return english - _COMMON | {run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))}
