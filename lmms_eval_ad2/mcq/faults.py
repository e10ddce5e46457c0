"""Why a proposed distractor may not stand: the gate between a maker (a language model, or rules) and a question.

A distractor must be a plain option text, wrong where the answer is right, and unlike the other options. What the
answer entails is right too; what contains the whole answer and adds to it may be. Meaning is compared as
mcq/wording.py reads it: words and their order, no model. So the gate stops what is surely bad and lets pass what
only a reader of the image can judge; the reviewer and the evaluator look at that.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from lmms_eval_ad2.data.drivelm_text import read_tags
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.wording import LIMIT, NormalisedStatement, normal, read, within
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer

__all__ = ["FAULTS", "fault", "normal"]

# code -> what it means. The codes stand in cards and reports, so they stay as they are.
FAULTS: dict[str, str] = {
    "equals_answer": "says what the answer says",
    "not_text": "empty, control characters, several lines, a letter or a bullet before it, or markup",
    "too_long": "longer than any option should be",
    "meta_text": "speaks of the question, its options or its maker",
    "none_of_above": "stands for other options (all of the above, both A and B)",
    "tag_unknown": "names an object tag that nobody annotated in the scene",
    "same_verdict": "the same yes or no as the answer",
    "implied_by_answer": "true wherever the answer is true",
    "contains_answer": "holds the whole answer and adds to it",
    "duplicate": "says what another option says",
}

_Part = tuple[str, ...]
_PAIRS = 2_000  # of parts that are compared; the longest answer of DriveLM has a tenth of the parts for so many
_ROOM = 300  # characters that any distractor may have, and three times the answer's besides
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_MARKER = re.compile(
    r"[(\[]?(?:[A-Ha-h]|\d{1,2})[)\]](?=\s|\Z)|[A-H][.:](?=\s|\Z)|[a-h]\.(?=\s)|\d{1,2}\.\s"
    r"|(?:option|answer|choice|distractor) ?(?:[A-H]|\d)?\s?[:.)]|[-*•]\s",
    re.IGNORECASE,
)
# What would be read as an image, a turn or an end by a model's template.
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
_YESNO_QUESTION = re.compile(
    r"\W{0,3}(?:is|are|was|were|will|would|do|does|did|can|could|should|has|have|had|must|may)\b", re.IGNORECASE
)
_ORDERED = re.compile(
    r"\b(?:order|orders|priorit\w{1,12}|rank\w{0,4}|sequence|sequential\w{0,2}|importance|first(?:ly)?|second(?:ly)?|next"
    r"|then|afterwards?)\b",
    re.IGNORECASE,
)
# Words whose coming or going may turn a statement round: no part of an answer is implied across one.
_TURNING = frozenset((
    "not", "no", "none", "never", "neither", "nor", "without", "hardly", "barely", "rarely", "only", "almost", "nearly",
    "very", "slightly", "partially", "too", "if", "unless", "until", "except", "before", "after", "or", "instead",
    "than", "fast", "slowly", "slow", "first", "last", "few",
))  # fmt: skip
# The more general word for a thing or a state, as stems: true wherever the special one is.
_VEHICLE = frozenset(("vehicl", "road_user"))
_GENERAL: dict[str, frozenset[str]] = {
    **dict.fromkeys(("car", "truck", "bus", "van", "suv", "sedan", "trailer", "motorcycl", "ego"), _VEHICLE),
    **{"sedan": _VEHICLE | {"car"}, "suv": _VEHICLE | {"car"}},
    **{"parked": frozenset(("stationary",)), "pedestrian": frozenset(("person", "peopl"))},
}


def fault(text: str, question: OpenQuestion, others: Sequence[str] = ()) -> str | None:
    """A code of `FAULTS`, or None where nothing speaks against `text` as a distractor of `question`.

    others: the distractors that stand already. The answer, and every other reference of the source
    (LingoQA has two), must not be said, implied or contained. Never raises on any text.
    """
    answers = references(question)
    if any(text.strip() == answer.strip() for answer in answers):
        return "equals_answer"
    return (
        _form_fault(text, max(len(answer) for answer in answers))
        or _scene_fault(text, question)
        or next((found for answer in answers if (found := _truth_fault(text, answer, question))), None)
        or ("duplicate" if repeats(text, others, question) else None)
    )


def repeats(text: str, others: Sequence[str], question: OpenQuestion) -> bool:
    """Whether `text` says what one of `others` says."""
    in_order = ordered(question)
    return any(same(text, other, in_order) for other in others)


def references(question: OpenQuestion) -> tuple[str, ...]:
    """The answer as an option prints it, and the source's other reference answers."""
    more = question.record.meta.get("references", ())
    listed = more if isinstance(more, (list, tuple)) else ()
    return (question.answer, *(text for text in listed if isinstance(text, str) and text != question.answer))


def ordered(question: OpenQuestion) -> bool:
    """Whether the order of the answer's parts is part of the answer: rankings, sequences, several questions in one."""
    said = f"{question.subtask}\n{question.text[:LIMIT]}\n{question.answer[:LIMIT]}"
    return bool(_ORDERED.search(said)) or question.text.count("?") > 1


def same(text: str, other: str, in_order: bool) -> bool:
    """Whether two options say the same; unless `in_order`, the parts of an enumeration may change places."""
    left, right = read(text), read(other)
    if left.words == right.words:
        return True
    return not in_order and len(left.items) > 1 and Counter(left.items) == Counter(right.items)


def _form_fault(text: str, answer_length: int) -> str | None:
    bare = text.strip()
    if len(bare) > min(LIMIT, _ROOM + 3 * answer_length):
        return "too_long"
    hidden = any(unicodedata.category(character) in _INVISIBLE for character in bare)
    if hidden or _MARKER.match(bare) or _MARKUP.search(bare) or not any(c.isalnum() for c in bare):
        return "not_text"
    if _META.search(bare):
        return "meta_text"
    return "none_of_above" if _ABOVE.search(bare) or _LETTERS.search(bare) else None


def _scene_fault(text: str, question: OpenQuestion) -> str | None:
    """An invented tag gives itself away; without the scene's records nobody can tell."""
    tags = set(read_tags(text))
    if not tags or not question.scene:
        return None
    said = (part for record in question.scene for part in (record.question.get("en"), record.answer.get("en")))
    known = {tag for part in (question.text, question.answer, *said) if "<" in part for tag in read_tags(part)}
    return None if tags <= known else "tag_unknown"


def _truth_fault(text: str, answer: str, question: OpenQuestion) -> str | None:
    said, truth = read(text), read(answer)
    if said.words == truth.words:
        return "equals_answer"
    if _same_verdict(text, answer, question):
        return "same_verdict"
    if not said.words or not truth.words:
        return None
    in_order = ordered(question)
    if _entails(truth, said, in_order):
        return "implied_by_answer"
    return "contains_answer" if _holds(said, truth, in_order) else None


def _same_verdict(text: str, answer: str, question: OpenQuestion) -> bool:
    """Yes or no is the whole question: another reason for the same verdict does not make it wrong."""
    asked = question.record.form == "yesno" or (question.text.count("?") <= 1 and _YESNO_QUESTION.match(question.text))
    if not asked or not re.match(r"\W{0,3}(?:yes|no)\b(?! (?:entry|parking|stopping))", answer, re.IGNORECASE):
        return False
    right, read_as = parse(answer[:400], "yesno"), parse(text[:400], "yesno")
    return isinstance(right, Answer) and isinstance(read_as, Answer) and right.value == read_as.value


def _entails(truth: NormalisedStatement, said: NormalisedStatement, in_order: bool) -> bool:
    """Whether every part of `said` is a part of `truth`, or less than one: "1 truck" of "1 truck and 1 barrier"."""
    if in_order:
        # The head of a sequence, word for word; another choice or order of its parts is another answer.
        return len(said.items) < len(truth.items) and truth.items[: len(said.items)] == said.items
    return _each(said.items, lambda part: any(_less(part, whole) for whole in truth.items), truth.items)


def _each(parts: Sequence[_Part], holds: Callable[[_Part], bool], others: Sequence[_Part]) -> bool:
    """Whether `holds` for each of `parts`, as it does where it stands in `others` word for word. Where too many would
    have to be compared with each other, no."""
    rest = set(parts) - set(others)
    return len(rest) * len(others) <= _PAIRS and all(map(holds, rest))


def _less(part: Sequence[str], whole: Sequence[str]) -> bool:
    """A part with words left out, or more general ones: "1 car moving" of "1 white sedan moving"."""
    turns = _turns(whole)
    del turns["only"]  # what holds for just one holds for one
    kept = _turns(part) in (turns, _turns(whole)) and _numbers(part) in (Counter(), _numbers(whole))
    return kept and within(part, whole, _GENERAL)


def _holds(said: NormalisedStatement, truth: NormalisedStatement, in_order: bool) -> bool:
    """Whether `said` holds all of `truth` and adds what does not turn it round, or leaves it open ("2 or 3")."""
    if "or" in said.words:
        return within(truth.words, said.words)
    if len(truth.words) == 1:
        return _holds_word(said, truth.words[0])
    if _more(said.words, truth.words):
        return True
    return not in_order and _each(truth.items, lambda part: any(_more(whole, part) for whole in said.items), said.items)


def _more(whole: Sequence[str], part: Sequence[str]) -> bool:
    """`part` with words put in: "1 white car moving" of "1 car moving"."""
    return _turns(whole) == _turns(part) and _numbers(whole) == _numbers(part) and within(part, whole)


def _holds_word(said: NormalisedStatement, word: str) -> bool:
    """The same for an answer of one word. Another statement may name it in passing: it must head or make up a part."""
    counted = not word[0].isdigit() and set(_numbers(said.words)) - {"1"}  # "two vehicles, a bus and a van"
    if counted or _turns(said.words) != _turns((word,)):
        return False
    return any(item[0] == word or (len(item) == 2 and item[1] == word) for item in said.items)


def _turns(words: Sequence[str]) -> Counter[str]:
    return Counter(word for word in words if word in _TURNING)


def _numbers(words: Sequence[str]) -> Counter[str]:
    return Counter(word for word in words if word[0].isdigit())
