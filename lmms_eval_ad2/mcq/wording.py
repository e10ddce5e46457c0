"""Normal form of short driving statements, for comparing options by meaning rather than by wording (wording.yaml).

Ignored are case, punctuation, articles, "1" or "one", plural s, "-ing", "the ego car" or "the ego vehicle", blanks in
object tags, and the difference between a few synonymous phrases. Directions ("front left"), object tags and brackets
are one word. This applies to English; other languages are compared word for word. Time is linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import yaml

from lmms_eval_ad2.parsing.normalise import plain

LIMIT = 8_000  # characters that are read; a longer text is rejected as an option

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_NUMBER_WORDS = {word: number for number, word in enumerate(_ONES)} | _TENS
_TWO_WORDS = re.compile(rf"\b({'|'.join(_TENS)})[- ]({'|'.join(_ONES[1:10])})\b")

_WORDING = yaml.safe_load(resources.files(__package__).joinpath("wording.yaml").read_text("utf-8"))
_PHRASES: Sequence[Sequence[str]] = _WORDING["phrases"]
_SYNONYMS = tuple((re.compile(rf"(?<![\w-])(?:{phrase})(?![\w-])"), f" {meaning} ") for phrase, meaning in _PHRASES)
# Most options contain none of them: one search instead of a dozen.
_ANY_PHRASE = re.compile(rf"(?<![\w-])(?:{'|'.join(f'(?:{phrase})' for phrase, _ in _PHRASES)})(?![\w-])")
_NOT = (("can't", "can not"), ("won't", "will not"), ("n't", " not"))
_DIRECTION = re.compile(r"\b(front|back|rear)[- ](left|right)\b|\b(left|right)[- ](front|rear|back)\b")
# The place of all parts of an enumeration, given once at its end: "one truck and one barrier in front of the ego car".
_PLACE = re.compile(
    r" (?:(?:to|on|at|in) )?(?:the )?((?:front|back)(?:_left|_right)?|left|right)(?: side)? of (?:the )?ego ?[.!]?\Z"
)
_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?"
_WHOLE_NUMBER = re.compile(_NUMBER)
_TOKEN = re.compile(
    rf"<[^<>\n]{{1,80}}>|\([^()\n]{{1,400}}\)|\[[^\[\]\n]{{1,400}}\]|{_NUMBER}(?:st|nd|rd|th)?\b|\w+(?:[_'-]\w+)*|[,.;:!?]"
)
_VERDICT = re.compile(r"\W{0,3}(yes|no)\b(?! (?:entry|parking|stopping|turning|such)\b)(?=\W|\Z)", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))
_SEPARATORS = frozenset((",", ".", ";", ":", "!", "?", "and", "but", "while", "plus", "then"))
_BE = frozenset(("is", "are", "was", "were", "be", "been", "being", "am"))
_SPELLINGS: Mapping[str, str] = _WORDING["spellings"]
_NOT_STEMMED = frozenset(_WORDING["not_stemmed"])
REVERSING = frozenset(_WORDING["reversing"])
GENERAL: Mapping[str, Sequence[str]] = _WORDING["general"]


@dataclass(frozen=True, slots=True)
class NormalisedStatement:
    """words: all words, without punctuation and conjunctions. items: words split at those (parts of enumerations)."""

    words: tuple[str, ...]
    items: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=8_192)  # each option is compared with all others of its question
def verdict(text: str) -> str:
    """ "yes" or "no" if `text` begins with that verdict, as "Yes, two cars."; else ""."""
    found = _VERDICT.match(text)
    # "No cars are moving." is a statement, "No, ..." and "No because ..." are verdicts.
    if not found or (
        found[1].lower() == "no" and not re.match(r"\s*(?:[,.;:!\u2013-]|because|as|since|\Z)", text[found.end() :])
    ):
        return ""
    return found[1].lower()


def after_verdict(text: str) -> str:
    """The statement of an option after its verdict: "two cars." of "Yes, two cars."; "" if it is only a verdict."""
    found = _VERDICT.match(text)
    return text[found.end() :].strip(" ,.;:!-") if found and verdict(text) else ""


def normal(text: str) -> str:
    """Normal form of `text`: equal for texts with the same meaning in the same order; "" if it has no words."""
    return " ".join(read(text).words)


# Enough for the options of the paper's 15,400 questions, which `ad2 mcq check` reads several times.
@lru_cache(maxsize=65_536)
def read(text: str) -> NormalisedStatement:
    """Normalise the first `LIMIT` characters of `text`. Never raises."""
    folded = plain(text[:LIMIT]).casefold()
    for short, full in _NOT:
        folded = folded.replace(short, full)
    folded = _TWO_WORDS.sub(lambda m: str(_NUMBER_WORDS[m[1]] + _NUMBER_WORDS[m[2]]), folded)
    if _ANY_PHRASE.search(folded):
        for phrase, meaning in _SYNONYMS:
            folded = phrase.sub(meaning, folded)
    folded = _PLACE.sub(r", @\1 ", _DIRECTION.sub(_direction, " ".join(folded.split())))
    items: list[list[str]] = [[]]
    for token in _TOKEN.findall(folded):
        if token in _SEPARATORS:
            items.append([])
        elif token not in _ARTICLES:
            items[-1].append(_word(token))
    kept = tuple(tuple(item) for item in items if item)
    return NormalisedStatement(tuple(word for item in kept for word in item), kept)


def _direction(found: re.Match[str]) -> str:
    """ "front left", "left front" and "front-left" are one word."""
    along, across = (found[1], found[2]) if found[1] else (found[4], found[3])
    return f"{'back' if along == 'rear' else along}_{across}"


def _word(token: str) -> str:
    if token[0] in "<([":
        return "".join(token.split())
    if token in _NUMBER_WORDS:
        return str(_NUMBER_WORDS[token])
    if not token.isalpha() and _WHOLE_NUMBER.fullmatch(token):
        return f"{float(token):g}" if len(token) < 7 else token
    if token in _BE:
        return "be"
    return _stem(_SPELLINGS.get(token, token))


def _stem(word: str) -> str:
    """Light stemming: removes plural and third-person s, "-ing" and a final e. Tenses differ: parked is not parking."""
    if word in _NOT_STEMMED or not word.isascii() or len(word) <= 3:
        return word
    if word.endswith("ing") and len(word) > 5:
        base = word[:-3]
        doubled = base[-1] == base[-2] and base[-1] in "bdgmnprt"
        return _without_final_e(base[:-1] if doubled else base)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "buses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return _without_final_e(word[:-1])
    return _without_final_e(word)


def _without_final_e(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def within(part: Sequence[str], whole: Sequence[str], general: Mapping[str, Sequence[str]] | None = None) -> bool:
    """Return whether `part` is a subsequence of `whole`.

    general: word of `whole` -> more general words that match it in `part`.
    """
    table = general or {}
    rest = iter(whole)
    return all(any(word == other or word in table.get(other, ()) for other in rest) for word in part)
