"""The last sentence of a longer reply: which option it comes to, told by the words that only this option has.

A long reply describes other vehicles, other lanes and rejected options before it decides. So an option that is named
only on the way is not the answer, and one that the last sentence names in part ("so the taxi goes first") is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lmms_eval_ad2.parsing.clauses import CONCLUSION, last_sentence, negations
from lmms_eval_ad2.parsing.option_names import named_in, named_options, telling_of_options, words_of
from lmms_eval_ad2.parsing.question_words import other_superlatives, telling_words
from lmms_eval_ad2.parsing.quoted import numerals

_LEAST_SHARE = 1 / 3  # of an option's telling words, for the sentence to name it
_SHORT = 60  # characters; a longer last sentence without a sign at its end is cut off
# Words with which a sentence decides without a word of the question.
_DECIDES = re.compile(
    r"\b(?:it is|it's|should|must|needs? to|pick|response|way to go|one|ego|our own)\b|自车|本车|应当?|必须|倾向|需要?"
)
_AFTERWARDS = re.compile(r"\bfollowed by\b|\band then\b|其次|然后|再次")  # the first of an order is meant
# "Even closer than the van", 比行人还近: what it is compared with.
_EVEN_MORE = re.compile(
    r"(?<=\beven )[a-z]+er than (?:the )?[^,.;]{1,30}|比[^,.;比]{1,10}?还(?:要)?(?=[近远快慢高大小多少])"
)
_OF_TWO = re.compile(r"\bthe former\b|\bthe latter\b|前者|后者")
_LIST_ITEM = re.compile(r"\s*(?:[-•*·]|\(?\d{1,2}[.)]|\(?[a-h][.):、])\s?")


def one_of_two(low: str, options: Mapping[str, str]) -> str | None:
    """The option that the last sentence calls the former or the latter, of two that the text names before it."""
    sentence = last_sentence(low)
    of_two = [(part, word) for part in sentence for word in _OF_TWO.findall(part.text)]
    if len(of_two) != 1 or negations(of_two[0][0].text) or of_two[0][0].open:
        return None
    telling = telling_of_options(options, "")
    places = {
        letter: min((at for word in words if (at := low.find(word)) >= 0), default=-1)
        for letter, words in telling.items()
    }
    named = sorted((at, letter) for letter, at in places.items() if 0 <= at < sentence[0].start)
    return named[0 if of_two[0][1] in ("the former", "前者") else 1][1] if len(named) == 2 else None


def concluded_option(low: str, options: Mapping[str, str], question: str) -> str | None:
    """The only option that the last sentence names by its telling words, if that sentence answers the question."""
    sentence = last_sentence(low)
    cut_off = not re.search(r"[.!)\"'\]]\s*\Z", low) and sum(len(part.text) for part in sentence) > _SHORT
    listed = _LIST_ITEM.match(low, low.rfind("\n") + 1)
    if not sentence or cut_off or listed or "?" in sentence[-1].ends_with:
        return None
    whole = _EVEN_MORE.sub(" ", _AFTERWARDS.split("".join(f"{part.begins_with} {part.text}" for part in sentence))[0])
    answers = CONCLUSION.search(whole) or _DECIDES.search(whole) or any(w in whole for w in telling_words(question))
    other = other_superlatives(whole, question)
    named = named_in(whole, options, question)
    named |= {item.letter: 1.0 for item in named_options(numerals(whole), options)}
    if not answers or other or len(named) != 1 or min(named.values()) < _LEAST_SHARE:
        return None
    letter = next(iter(named))
    words = telling_of_options(options, question)[letter]
    of_it = [part for part in sentence if words & words_of(part.text)] or sentence
    stands = not any(part.open or part.conditional or part.tentative or part.former for part in of_it)
    return letter if stands and not any(negations(part.text) for part in of_it) else None
