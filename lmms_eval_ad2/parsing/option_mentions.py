"""Letters of options in a text, and groups of them that are joined ("A and C")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MOST = 500  # mentions examined, the last ones of the text; more occur only if a model repeats itself endlessly

_MENTION = re.compile(
    r"(?<![A-Za-z0-9])(?<![A-Za-z]['.])(?<!km/)(?P<letter>[A-Za-z])(?![A-Za-z0-9]|'[A-Za-z]|-[A-Za-z]|\.[a-z])"
)
OPENERS, CLOSERS = "([{<\"'", ")]}>\"'"
_LABEL = re.compile(r"(?:\boption|\bchoice|\bletter|选项)[\s_]?[(\[{<\"']{0,3}\Z")
# "A" and "I" before a word are an article and a pronoun, unless the word belongs to a verdict.
_ARTICLE = re.compile(
    r" (?!(?:because|since|as|and|or|nor|is|are|was|due|given|which|but|would be|should be|must be"
    r"|matches|fits|describes|would|could|should|can|cannot|will|must|may|might|has|had|does|doesn't|were|seems|remains"
    r"|appears|looks|it is)\b)[a-z0-9]"
)
_PRONOUN = re.compile(
    r" (?!(?:because|since|as|and|or|nor|is|are|given|which|but|would be|matches|fits|describes|it is)\b)[a-z]"
)
_JOIN = re.compile(
    rf"[{re.escape(CLOSERS)}]{{0,3}}\s?(?P<word>,? ?(?:and also|and|or|as well as)"
    r"|,|;|/|&|\+|、|和|与|及|以及|或者|或|还是)"
    rf"\s?(?:option |choice |选项)?[{re.escape(OPENERS)}]{{0,3}}"
)
# After a letter: it begins an entry of a list.
ENUMERATED = re.compile(r"[)\]]?[.):、]\s?[^\s.,;)]")
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
        if raw in "AaIi" and not dressed and (_ARTICLE if raw in "Aa" else _PRONOUN).match(text, end):
            continue
        found.append(LetterMention(raw.upper(), start, end, raw.islower(), dressed))
    return found[-_MOST:]


def groups(text: str, mentions: Sequence[LetterMention]) -> Iterator[tuple[list[LetterMention], bool]]:
    """Groups of mentions joined by "and", "or" or a comma; the flag is True if one of the joining words is "or"."""
    group: list[LetterMention] = []
    either = False
    for mention in mentions:
        joint = _JOIN.fullmatch(text[group[-1].end : mention.start][:24]) if group else None
        if joint and joint["word"] == ";" and re.match(r" [a-z]", text[mention.end :]):  # "not B or C; A is right"
            joint = None
        if joint and mention.start - group[-1].end <= 24 and (not mention.lower or mention.dressed):
            group.append(mention)
            either = either or bool(_OR.search(joint["word"]))
            continue
        if group:
            yield group, either
        group, either = [mention], False
    if group:
        yield group, either
