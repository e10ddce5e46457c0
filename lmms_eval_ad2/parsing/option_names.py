"""Places of a text where options are named: by their whole text, or by the words that only one option has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lmms_eval_ad2.parsing.quoted import FILLERS, numerals

_COMMON = frozenset(("the", "and", "one", "with", "for", "are", "that", "this", "its", "from"))
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
    for letter, option in sorted(options.items(), key=lambda pair: -len(pair[1])):
        pattern = _pattern(option)
        if pattern is None:
            continue
        for match in pattern.finditer(low):
            if not any(occupied[match.start() : match.end()]):
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
    plural = r"(?:s|es|time)?"
    parts = [re.escape(word) + (plural if word.isascii() and word.isalpha() else "") for word in words]
    edge_left = r"(?<![a-z0-9_.])" if words[0].isascii() else ""
    edge_right = r"(?![a-z0-9_])(?!\.\d)" if words[-1].isascii() else ""
    return re.compile(edge_left + gap.join(parts) + edge_right)


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
