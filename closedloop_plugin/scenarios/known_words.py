"""The words that programs may use for lamps, doors, sides and moments, and checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmms_eval_ad2.core.errors import near_hint
from lmms_eval_ad2.core.numbers import is_number

LAMPS = ("brake", "left", "right", "hazard", "siren", "headlights", "reverse")
DOORS = ("left", "right")
SIDES = ("left", "right")
LANES = ("left", "right", "oncoming")
WHEN = ("time", "distance")  # how the library's behaviours measure `due`, see places.scenic


class UnknownWord(ValueError):
    """A word that a program may not use. `what`: its kind; `word`: as the program has it."""

    def __init__(self, what: str, word: object, known: Iterable[str]) -> None:
        self.what, self.word = what, str(word)
        super().__init__(f"{what} '{word}': no such {what.split()[-1]}{near_hint(self.word, known)}")


def known_word(what: str, word: Any, known: Iterable[str]) -> Any:
    """The word. Raises UnknownWord if it is none of the known ones; `what`: its kind, singular, for the message."""
    names = [str(name) for name in known]
    if str(word) not in names:
        raise UnknownWord(what, word, names)
    return word


def known_words(what: str, words: Iterable[Any], known: Iterable[str]) -> None:
    """Raise UnknownWord for the first word that is none of the known ones."""
    for word in words:
        known_word(what, word, known)


def finite(what: str, value: Any) -> Any:
    """The number. Raises TypeError with its name for anything else, and for nan and infinity."""
    plain = value.item() if hasattr(value, "item") else value  # of numpy
    if not is_number(plain):
        raise TypeError(f"{what}: expected a number, found {value!r}")
    return value
