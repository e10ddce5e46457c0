"""Checks of a proposed distractor, whether it comes from a language model or from rules.

A distractor must be a plain option text, wrong if the answer is right, and different from the other options. A text
that the answer entails is right as well; a text that contains the whole answer and adds to it may be right. Texts are
compared in the normal form of mcq/wording.py (words and their order, no model). The checks therefore refuse only what
is certainly faulty; what needs the image is left to the reviewer and the evaluator.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from lmms_eval_ad2.data.drivelm_text import read_tags
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.wording import (
    GENERAL,
    LIMIT,
    REVERSING,
    NormalisedStatement,
    after_verdict,
    read,
    verdict,
    within,
)

# code -> meaning. The codes are stored in cards and reports and must not change.
FAULTS: dict[str, str] = {
    "equals_answer": "same meaning as the answer",
    "not_text": "empty, control characters, several lines, a leading letter or bullet, or markup",
    "too_long": "longer than an option should be",
    "meta_text": "refers to the question, its options or its maker",
    "none_of_above": "refers to other options (all of the above, both A and B)",
    "tag_unknown": "names an object tag that is not annotated in the scene",
    "no_verdict": "neither yes nor no, although the answer is one of them",
    "same_verdict": "same yes or no as the answer, which states no reason that could differ",
    "denies": "the answer or another option with a negation added",
    "several_claims": "more sentences than the answer",
    "implied_by_answer": "true whenever the answer is true",
    "contains_answer": "contains the whole answer and adds to it",
    "duplicate": "same meaning as another option",
}

_Part = tuple[str, ...]
_PAIRS = 2_000  # maximum number of pairs of parts compared; ten times what DriveLM's longest answer needs
_BASE_LENGTH = 300  # characters allowed for a distractor, in addition to three times the length of the answer
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))  # none of them is printable
LETTER_OR_DIGIT = re.compile(r"[^\W_]")  # as str.isalnum
_MARKER = re.compile(
    r"[(\[]?(?:[A-Ha-h]|\d{1,2})[)\]](?=\s|\Z)|[A-H][.:](?=\s|\Z)|[a-h]\.(?=\s)|\d{1,2}\.\s"
    r"|(?:option|answer|choice|distractor) ?(?:[A-H]|\d)?\s?[:.)]|[-*•]\s",
    re.IGNORECASE,
)
# Special tokens of chat templates: images, turns, ends.
_MARKUP = re.compile(
    r"<\|[^|\n]{0,40}\|>|</?s>|</?(?:image|img|video|audio|im_start|im_end)\b|```|\[/?inst\]", re.IGNORECASE
)
_META = re.compile(
    r"\b(?:distractors?|(?:in)?correct (?:options?|answers?|choices?)|wrong (?:options?|answers?|choices?)"
    r"|(?:right|marked) (?:options?|answers?|choices?)|multiple[- ]choice|as an ai|language model"
    r"|error category|ground truth|this option)\b",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"\b(?:all|none|any|some|both|either|neither|each|two) of (?:the |these |those )?"
    r"(?:above|below|(?:other |listed |given )?(?:options?|choices?|answers?|alternatives?))\b"
    r"|\A(?:all|none) of (?:these|those)[.!]?\Z|\bthe above\b|\bnot (?:listed|given) (?:above|here)\b",
    re.IGNORECASE,
)
_LETTERS = re.compile(
    r"\b(?i:both|either|neither|options?|answers?|choices?) \(?[A-H]\)?(?:,? (?i:and|or|nor) \(?[A-H]\b|\Z|[.,])"
)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9>)]{2}[.!?])\s+(?=[A-Z<])")  # not after "St." or "No."
_WORD = re.compile(r"\w+")
_NEGATIONS = frozenset(("not", "no", "never"))
_YESNO_QUESTION = re.compile(
    r"\W{0,3}(?:is|are|was|were|will|would|do|does|did|can|could|should|has|have|had|must|may)\b", re.IGNORECASE
)
_ORDERED = re.compile(
    r"\b(?:order|orders|priorit\w{1,12}|rank\w{0,4}|sequence|sequential\w{0,2}|importance|first(?:ly)?|second(?:ly)?|next"
    r"|then|afterwards?)\b",
    re.IGNORECASE,
)


def fault(text: str, question: OpenQuestion, others: Sequence[str] = ()) -> str | None:
    """Check `text` as a distractor of `question`: a code of `FAULTS`, or None.

    others: distractors accepted before. The answer and the other references of the source (LingoQA has two) must not be
    repeated, implied or contained. Never raises, whatever the text.
    """
    answers = references(question)
    if any(text.strip() == answer.strip() for answer in answers):
        return "equals_answer"
    return (
        _form_fault(text, max(len(answer) for answer in answers))
        or _scene_fault(text, question)
        or next((found for answer in answers if (found := _truth_fault(text, answer, question))), None)
        or ("several_claims" if _sentences(text) > max(map(_sentences, answers)) else None)
        or ("denies" if any(denies(text, other) for other in (question.answer, *others)) else None)
        or ("duplicate" if repeats(text, others, question) else None)
    )


def repeats(text: str, others: Sequence[str], question: OpenQuestion) -> bool:
    """Compare the claim of `text` with those of `others`; "No." is the claim of "No, ..." without its reason."""
    in_order = _is_ordered(question)
    return any(
        _same(text, other, in_order) or _only_verdict(text, other) or _only_verdict(other, text) for other in others
    )


def _only_verdict(text: str, other: str) -> bool:
    return bool(verdict(text)) and not after_verdict(text) and verdict(text) == verdict(other)


def denies(text: str, other: str) -> bool:
    """Return whether one text is the other with a negation added: "It is not moving." and "It is moving.".

    A verdict is not compared: the options of a yes-or-no question contradict each other.
    """
    if verdict(text) and verdict(other):
        text, other = after_verdict(text), after_verdict(other)
    (negations, words), (others, other_words) = _without_negations(text), _without_negations(other)
    return negations != others and words == other_words != ()


@lru_cache(maxsize=8_192)  # each option is compared with all others of its question
def _without_negations(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of negations, and the other words."""
    words = _WORD.findall(text[:LIMIT].casefold().replace("n't", " not"))
    kept = tuple(word for word in words if word not in _NEGATIONS)
    return len(words) - len(kept), kept


def references(question: OpenQuestion) -> tuple[str, ...]:
    """The answer in the form of an option, and the source's other reference answers.

    A reference to which the option adds a statement ("Moving." of "The white van is moving.") is left out: a distractor
    that differs in the added statement is wrong, although it contains that reference.
    """
    more = question.record.meta.get("references", ())
    listed = more if isinstance(more, (list, tuple)) else ()
    others = (text for text in listed if isinstance(text, str) and text != question.answer)
    return (question.answer, *(text for text in others if not _adds_to(question.answer, text)))


def _adds_to(answer: str, reference: str) -> bool:
    if verdict(answer):
        return _only_verdict(reference, answer)
    words = read(reference).words
    return bool(words) and len(read(answer).words) > len(words) and within(words, read(answer).words)


def _is_ordered(question: OpenQuestion) -> bool:
    return _ordered(question.subtask, question.text, question.answer)


@lru_cache(maxsize=512)  # asked for every option of a question
def _ordered(subtask: str, text: str, answer: str) -> bool:
    """Does the order of the answer's parts matter: rankings, sequences, several questions in one?"""
    return bool(_ORDERED.search(f"{subtask}\n{text[:LIMIT]}\n{answer[:LIMIT]}")) or text.count("?") > 1


def _same(text: str, other: str, in_order: bool) -> bool:
    """Equal meaning of two options; unless `in_order`, parts of an enumeration may be in any order."""
    left, right = read(text), read(other)
    if left.words == right.words:
        return True
    return not in_order and len(left.items) > 1 and Counter(left.items) == Counter(right.items)


def _form_fault(text: str, answer_length: int) -> str | None:
    bare = text.strip()
    if len(bare) > min(LIMIT, _BASE_LENGTH + 3 * answer_length):
        return "too_long"
    if not bare.isprintable() and any(unicodedata.category(character) in _INVISIBLE for character in bare):
        return "not_text"
    if _MARKER.match(bare) or _MARKUP.search(bare) or not LETTER_OR_DIGIT.search(bare):
        return "not_text"
    if _META.search(bare):
        return "meta_text"
    return "none_of_above" if _ABOVE.search(bare) or _LETTERS.search(bare) else None


def _sentences(text: str) -> int:
    return len(_SENTENCE_END.findall(text.strip()[:LIMIT])) + 1


def _scene_fault(text: str, question: OpenQuestion) -> str | None:
    """Object tags must occur in the records of the scene; not checked without such records."""
    tags = set(read_tags(text))
    if not tags or not question.scene:
        return None
    texts = (part for record in question.scene for part in (record.question.get("en"), record.answer.get("en")))
    known = {tag for part in (question.text, question.answer, *texts) if "<" in part for tag in read_tags(part)}
    return None if tags <= known else "tag_unknown"


def _truth_fault(text: str, answer: str, question: OpenQuestion) -> str | None:
    statement, truth = read(text), read(answer)
    if statement.words == truth.words:
        return "equals_answer"
    if is_polar(question.text, answer, question.record.form):
        return _polar_fault(text, answer, question)
    if not statement.words or not truth.words:
        return None
    in_order = _is_ordered(question)
    if _entails(truth, statement, in_order):
        return "implied_by_answer"
    return "contains_answer" if _holds(statement, truth, in_order) else None


def is_polar(question: str, answer: str, form: str = "") -> bool:
    """Return whether a question asks for yes or no, and its right option says so."""
    asked = form == "yesno" or (question.count("?") <= 1 and _YESNO_QUESTION.match(question))
    return bool(asked) and bool(verdict(answer))


def _polar_fault(text: str, answer: str, question: OpenQuestion) -> str | None:
    """An option of a yes-or-no question has a verdict; with the right verdict it is wrong only by its reason."""
    if not verdict(text):
        return "no_verdict"
    if verdict(text) != verdict(answer):
        return None
    reason, right = after_verdict(text), after_verdict(answer)
    if not right:
        return "same_verdict"
    if not reason:
        return "implied_by_answer"
    return _truth_fault(reason, right, replace(question, record=replace(question.record, form="vqa")))


def _entails(truth: NormalisedStatement, statement: NormalisedStatement, in_order: bool) -> bool:
    """Check that every part of `statement` equals or weakens one of `truth`: "1 truck" of "1 truck and 1 bus"."""
    if in_order:
        # Only the beginning of a sequence is entailed; another choice or order of its parts is another answer.
        return len(statement.items) < len(truth.items) and truth.items[: len(statement.items)] == statement.items
    return _all_hold(statement.items, lambda part: any(_weakens(part, whole) for whole in truth.items), truth.items)


def _all_hold(parts: Sequence[_Part], holds: Callable[[_Part], bool], others: Sequence[_Part]) -> bool:
    """Return whether `holds` for each of `parts`; those contained in `others` word for word are not tested.

    False if more than _PAIRS comparisons would be needed.
    """
    rest = set(parts) - set(others)
    return len(rest) * len(others) <= _PAIRS and all(map(holds, rest))


def _weakens(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Check that `part` weakens `whole`: words left out or generalised, as "1 car moving" of "1 white sedan moving"."""
    reversing = _reversing(whole)
    without_only = [word for word in reversing if word != "only"]  # "only one" entails "one"
    if _reversing(part) not in (without_only, reversing):
        return False
    return _numbers(part) in ([], _numbers(whole)) and within(part, whole, GENERAL)


def _holds(statement: NormalisedStatement, truth: NormalisedStatement, in_order: bool) -> bool:
    """Check that `statement` contains all of `truth`, without reversing words, or as an alternative ("2 or 3")."""
    if "or" in statement.words:
        return within(truth.words, statement.words)
    if len(truth.words) == 1:
        return _holds_word(statement, truth.words[0])
    if _extends(statement.words, truth.words):
        return True
    return not in_order and _all_hold(
        truth.items, lambda part: any(_extends(whole, part) for whole in statement.items), statement.items
    )


def _extends(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Return whether `whole` is `part` with words added: "1 white car moving" of "1 car moving"."""
    return _reversing(whole) == _reversing(part) and _numbers(whole) == _numbers(part) and within(part, whole)


def _holds_word(statement: NormalisedStatement, word: str) -> bool:
    """`_holds` for an answer of one word: it must be the first word of a part, or the second of two."""
    counted = not word[0].isdigit() and set(_numbers(statement.words)) - {"1"}  # "two vehicles, a bus and a van"
    if counted or _reversing(statement.words) != _reversing((word,)):
        return False
    return any(item[0] == word or (len(item) == 2 and item[1] == word) for item in statement.items)


def _reversing(words: Sequence[str]) -> list[str]:
    return sorted([word for word in words if word in REVERSING])


def _numbers(words: Sequence[str]) -> list[str]:
    return sorted([word for word in words if word[0].isdigit()])
