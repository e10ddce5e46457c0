"""Recognise an option by what a text states: the only option whose text is affirmed, or the only one not denied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmms_eval_ad2.parsing.clauses import TextClause, clauses, denied, exception, last_sentence
from lmms_eval_ad2.parsing.option_names import NamedOption, named_in, named_options
from lmms_eval_ad2.parsing.question_words import (
    asks_for_the_worst,
    of_another_road_user,
    other_superlatives,
    superlatives,
)
from lmms_eval_ad2.parsing.quoted import numerals
from lmms_eval_ad2.parsing.revisions import REVISION

_LIMIT = 20_000  # characters examined, the last ones of the text
_HEAD, _FIRST = 400, 10  # characters of the head of a reply; of what may stand before an option that begins it
# "The taxi is farther away than the sedan" answers the question which one is farther, and no other.
_COMPARATIVE = re.compile(r"\b(?!rath|oth|lat|earl)([a-z]+er|more [a-z]+|less [a-z]+|fewer)(?: [a-z]+){0,3} than\b")
_PREFERRED = re.compile(
    r"(?:\b(?:rather than|instead of|as opposed to|more than(?: just)?|not|over|than|unlike|nor"
    r"|(?:away|far|apart|different|differs?|distinct) from)|而不是"
    r"|而非|不是|并非)"
    r"(?: (?:the|a|an|any|because of|on|in|at|for|to))*\s?[\"'(]{0,2}\Z"
)
# What follows a name describes it, and does not deny it.
_DESCRIPTION = re.compile(
    r"\b(?:that|who|which|with|without|and|or|where|when|as|rather than|instead of|than|over)\b|而不是|而非|和|或"
    r"|\b(?<!is )(?<!are )(?<!was )(?<!were )(?<!do )(?<!does )(?<!can )not\b"
)
_EXCEPTED = re.compile(r" (?:other than|but|except|besides|apart from)\b")
_CALLED_NO = re.compile(
    r"\s?[:：]\s?(?:no|nope|not|none|wrong|incorrect|ruled out|absent|missing"
    r"|i (?:do not|don't|cannot|can't) (?:see|find|spot)|否|不|错)\b"
)
_ANOTHER = re.compile(r"\b(?:other(?! than)|another)\b|另(?:一|外)|其他")
_OR = re.compile(r"\s?,? ?(?:or (?!else\b)|还是|或者?)")
_OR_BEFORE = re.compile(r"(?:\bor |还是|或者?)(?:the |an? )?\s?\Z")
_JOINED = re.compile(r"[\s,]*(?:or|and|nor|或者?|和|、)?\s*(?:in |on |at |from )?(?:the |a |an )?")


@dataclass(frozen=True, slots=True)
class OptionClaims:
    """What a text says of the options: letters in the order in which they are affirmed and denied."""

    affirmed: tuple[str, ...]
    denied: frozenset[str]
    doubted: frozenset[str]
    concluded: str  # the letter that the last conclusion or revision affirms, or ""


def claims_by_text(text: str, options: Mapping[str, str], question: str = "") -> OptionClaims:
    """The claims of lower-case plain text about options that it names by their texts."""
    asked = superlatives(question)
    low = numerals(text.lower()[-_LIMIT:]).replace("最为", "最")
    found = clauses(low)
    affirmed: list[str] = []
    no: set[str] = set()
    doubted: set[str] = set()
    concluded = ""
    compared = {part.sentence for part in found if _compares(part.text, question)}
    revised = [match.start() for match in REVISION.finditer(low)]
    for clause, named in _by_clause(found, named_options(low, options)):
        letters = []
        compares = (
            other_superlatives(clause.text, question)
            or _compares(clause.text, question)
            or (clause.sentence in compared and not clause.concludes)
        )
        of_another = named[0].start > clause.start + 4 and of_another_road_user(clause.text, question)
        preferred_end = -1  # end of a name that "rather than" denies: "rather than the left or the right lane"
        for item in named:
            if _EXCEPTED.match(low, item.end):  # "no vehicle other than the bus"
                continue
            joined = 0 <= preferred_end <= item.start and _JOINED.fullmatch(low[preferred_end : item.start])
            if joined or _PREFERRED.search(low[clause.start : item.start]):
                preferred_end = item.end
            if joined:
                no.add(item.letter)
                continue
            another = _ANOTHER.search(low[clause.start : item.start])
            of_another = of_another or bool(another and another.group() not in question.lower())
            either = _OR.match(low, item.end) or _OR_BEFORE.search(low[clause.start : item.start])
            if (
                compares
                or of_another
                or either
                or clause.open
                or clause.conditional
                or clause.tentative
                or clause.former
            ):
                doubted.add(item.letter)
            elif _CALLED_NO.match(low, item.end) or _is_denied(clause, low, item, named):
                no.add(item.letter)
            else:
                letters.append(item.letter)
        affirmed += letters
        after_revision = any(position <= clause.start + len(clause.text) for position in revised)
        restates = any(word in clause.text for word in asked)
        if len(set(letters)) == 1 and (clause.concludes or after_revision or restates):
            concluded = letters[0]
    return OptionClaims(tuple(affirmed), frozenset(no), frozenset(doubted), concluded)


def _compares(low: str, question: str) -> bool:
    """Whether lower-case text compares by another word than the question: "shorter than" for "Which is longer?"."""
    return any(match[1] not in question.lower() for match in _COMPARATIVE.finditer(low))


def stated_option(
    text: str, options: Mapping[str, str], denied_letters: Iterable[str] = (), question: str = ""
) -> str | None:
    """The letter of the option that `text` states; None for none or several.

    `denied_letters`: those that the text denies by letter. An option that is denied and affirmed counts as affirmed
    only in a conclusion.
    """
    claims = claims_by_text(text, options, question)
    no = claims.denied | set(denied_letters)
    yes = [letter for letter in dict.fromkeys(claims.affirmed) if letter not in no]
    if asks_for_the_worst(question) and len(yes) > 1 and len(no) == 1:  # "which is not visible?": the denied one
        return next(iter(no))
    if claims.concluded and (len(yes) != 1 or yes[0] != claims.concluded):
        return claims.concluded
    if len(yes) == 1:
        return yes[0] if claims.concluded or _stands_at_end(text, options, question, yes[0]) else None
    if not yes:
        return remaining(options, no, claims.doubted)
    return None


def _stands_at_end(low: str, options: Mapping[str, str], question: str, letter: str) -> bool:
    """Whether a reply of several sentences begins with the option `letter`, or names it in its last sentence."""
    last = last_sentence(low)
    if not last:
        return True
    said = low[last[0].start : last[-1].start + len(last[-1].text)]
    at_head = [item.letter for item in named_options(numerals(low[:_HEAD]), options) if item.start < _FIRST]
    named = [item.letter for item in named_options(numerals(said), options)]
    return letter in {*at_head, *named, *named_in(said, options, question)}


def remaining(offered: Iterable[str], no: Iterable[str], doubted: Iterable[str] = ()) -> str | None:
    """The only offered letter that is not denied, of at least three."""
    letters = set(offered)
    left = letters - set(no)
    return left.pop() if len(letters) >= 3 and len(left) == 1 and not left & set(doubted) else None


def _by_clause(
    found: Sequence[TextClause], named: Sequence[NamedOption]
) -> Iterable[tuple[TextClause, list[NamedOption]]]:
    index = 0
    for position, clause in enumerate(found):
        stop = found[position + 1].start if position + 1 < len(found) else clause.start + len(clause.text) + 1_000_000
        group = []
        while index < len(named) and named[index].start < stop:
            group.append(named[index])
            index += 1
        if group:
            yield clause, group


def _is_denied(clause: TextClause, low: str, item: NamedOption, named: Sequence[NamedOption]) -> bool:
    """By the negations in its clause, without the names of options, and without what describes another option."""
    left = _without_names(low, clause.start, item.start, named)
    right = _without_names(low, item.end, max(clause.start + len(clause.text), item.end), named)
    excepted = exception(left, right)
    if excepted is not None:
        return not excepted
    if _PREFERRED.search(left):
        return True
    right = _DESCRIPTION.split(right)[0] if not re.match(r"\s?(?:,|and|or|和|或|…)", right) else right
    return denied(left + " … " + right, len(left), len(left) + 3)


def _without_names(low: str, start: int, stop: int, named: Sequence[NamedOption]) -> str:
    """`low[start:stop]` with a sign in place of each name."""
    parts = []
    for other in named:
        if start <= other.start and other.end <= stop:
            parts.append(low[start : other.start])
            start = other.end
    return " … ".join([*parts, low[start:stop]])
