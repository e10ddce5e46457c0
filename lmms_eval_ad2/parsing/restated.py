"""Answers without yes or no that restate the question: "The truck does block the view.", "so it won't fit"."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.clauses import TextClause, clauses, last_sentence, negations
from lmms_eval_ad2.parsing.option_names import ENDING
from lmms_eval_ad2.parsing.question_words import of_another_road_user, of_the_ego

_FUNCTION = frozenset((
    "the", "an", "and", "any", "some", "there", "here", "this", "that", "these", "those", "its", "his", "her",
    "their", "our", "your", "ego", "own", "it", "he", "she", "they", "them", "him", "we", "us", "you", "vehicle",
    "car", "anybody", "anyone", "someone", "somebody", "nobody", "anything", "something", "who", "which", "does",
    "did", "has", "have", "had", "can", "could", "will", "would", "should", "must", "may", "need", "needs", "are",
    "was", "were", "been", "being", "is", "be", "do", "am", "not", "now", "currently", "yet", "already", "still",
    "with", "for", "from", "into", "onto", "over", "under", "out", "off", "at", "in", "on", "of", "to", "by", "as",
    "because", "image", "picture", "scene", "photo", "frame", "today", "moment", "time", "indeed", "actually",
    "clearly", "safely", "just", "very", "also", "no", "answer", "yes",
))  # fmt: skip
# Questions that a statement with the same words need not answer.
_QUALIFIED = re.compile(
    r"\b(?:all|every|both|each|only|more|less|than|or|either|enough|too|not|never)\b|n't\b|[a-z]er than\b"
)
_NOT_YET = re.compile(
    r"\b(?:about to|almost|nearly|hardly|barely|going to|will soon|used to|too|instead of|rather than|other|another|if"
    r"|seems?|appears?|partly|partially|half)\b"
)
_AUXILIARY = (
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|must|may|needs?|ca|wo)"
    r"(?:n't|not| not| never)?(?: (?:to|be|been|have to|need to|an?|the))?"
)
_FORBIDS = re.compile(r"\b(?:prohibit\w*|forbid\w*|forbidden|banned|illegal|disallowed)\b")
_RULE = re.compile(r"\b(?:must|should|ought to|have to)\b")  # "Pedestrians must use the crosswalk."
_IS_A = re.compile(r"\bit(?:'s| is| was) (?:actually |in fact |really |only |just )*an? (?P<thing>[^.,;]+)")
_ASKS_PERMISSION = re.compile(r"(?:can|may|could|should|is it|would it be)\b")
_PERMITS = re.compile(
    r"\W*(?:no,? |so,? )?(?P<what>[a-z]+ing\b[^.,;]{0,40}?|an? [a-z -]{3,40}?) (?:is|are|would be)(?P<no>n't| not)?"
    r" (?:\w+ly |currently )?(?:possible|allowed|permitted|legal|safe|advisable|(?P<bad>prohibited|forbidden"
    r"|illegal|unsafe"
    r"|dangerous|impossible))\b"
)
_SIDES = re.compile(r"\b(?:left|right)\b")
_INSTRUCTION = re.compile(r"[?？].*\Z", re.DOTALL)  # "Answer yes or no."
_UNDER = re.compile(r",? (?:if|when|while) [^?]*\?")
_ZH_TURN = re.compile(r"请问|现在|目前|此时|图中|画面中?|是否|是不是|吗|么|呢|[?？。.]")
_ZH_REPLY = re.compile(r"(?:[嗯哦啊]|答[:案]?:?|回答:?)[,:]? ?(?=.)")
_ZH_NO = re.compile(r"(?:并没有|并不是|并非|没有|并未|并不|不是|没|未|不)")
_ZH_SO = re.compile(r"(?:所以|因此|故|因而)(?:它|他|她|自车|本车|该车|此处|这里)?([^,.;!?\n]{1,24})")
_SHORT = 10  # characters of a Chinese clause that restates the end of a question


def restated(low: str, question: str) -> str | None:
    """ "yes" or "no" by a clause of lower-case text with the words of `question`; None without one or if two differ."""
    asked = _UNDER.sub("?", _INSTRUCTION.sub("?", question.lower().strip()))
    if not asked.isascii():
        return _in_chinese(low, asked)
    words = _content(asked)
    if not words or _QUALIFIED.search(asked):
        return None
    verdicts = {verdict for part in clauses(low) if (verdict := _of_clause(part, words, asked))}
    verdicts |= _by_prefix(low, asked) | _by_permission(low, words, asked)
    if len(verdicts) == 1:
        return verdicts.pop()
    return None if verdicts else _concluded(low, words, asked) or _mistaken(low, words)


def _by_prefix(low: str, asked: str) -> set[str]:
    """ "The gap is insufficient" where the question ends with "sufficient", in a reply of one sentence."""
    last = re.search(r"\b(?P<word>[a-z]{5,})(?: (?:here|now|there|at [a-z ]+))?\s?\?", asked)
    opposite = re.compile(rf"\b(?:un|in|im|ir|non-?){last['word']}\b") if last else None
    if opposite is None or last_sentence(low):
        return set()
    said = [part for part in clauses(low) if opposite.search(part.text) and _states(part)]
    return {"yes" if negations(opposite.sub(" ", part.text)) % 2 else "no" for part in said}


def _by_permission(low: str, words: set[str], asked: str) -> set[str]:
    """ "Overtaking isn't possible here" to "Can the ego car overtake the tractor?"."""
    if not _ASKS_PERMISSION.match(asked) or "\n" in low:  # a list of conditions
        return set()
    found = [(part, match) for part in clauses(low) if _states(part) and (match := _PERMITS.match(part.text))]
    asked_sides = set(_SIDES.findall(asked))
    return {
        "no" if bool(match["no"]) != bool(match["bad"]) else "yes"
        for part, match in found
        if words & _content(match["what"]) and not set(_SIDES.findall(part.text)) - asked_sides
    }


def _content(low: str) -> set[str]:
    """The words of an English text that have a meaning of their own, without their endings; numbers as they are."""
    found = re.findall(r"[a-z]{3,}|\d+(?:\.\d+)?", low)
    return {ENDING.sub("", word) for word in found if word not in _FUNCTION}


def _states(part: TextClause) -> bool:
    return not (part.open or part.conditional or part.tentative or part.former or _NOT_YET.search(part.text))


def _of_clause(part: TextClause, words: set[str], asked: str) -> str | None:
    """The polarity of a clause that has all words of the question, of which there are at least two."""
    if len(words) < 2 or not words <= _content(part.text) or not _states(part):
        return None
    if of_another_road_user(part.text, asked) or (_RULE.search(part.text) and not _RULE.search(asked)):
        return None
    forbids = bool(_FORBIDS.search(part.text)) and not _FORBIDS.search(asked)
    return "no" if (negations(part.text) + forbids) % 2 else "yes"


def _concluded(low: str, words: set[str], asked: str) -> str | None:
    """ "So it won't fit": the question's verb after a subject that it has too, without anything else, at the end."""
    nouns = "|".join(sorted(re.escape(word) + "[a-z]{0,3}" for word in words if word.isalpha()))
    subject = (
        rf"\b(?:it|he|she|they|we|this|{'there|' if 'there' in asked else ''}(?:the |our )?ego(?: vehicle"
        rf"| car)?|the (?:{nouns})(?: (?:{nouns}))?)"
    )
    pattern = re.compile(rf"{subject} {_AUXILIARY} (?P<rest>[^.!?;]+)")
    verdicts = set()
    for part in last_sentence(low) or clauses(low):
        found = pattern.search(part.text)
        said = _content(found["rest"]) if found else set()
        if found and said and said <= words and _states(part) and not of_the_ego(part.text, asked):
            verdicts.add("no" if negations(part.text) % 2 else "yes")
    return verdicts.pop() if len(verdicts) == 1 else None


def _mistaken(low: str, words: set[str]) -> str | None:
    """ "It looked like a bag at first, but it is a cat": a former belief in the question's words, and another thing."""
    parts = clauses(low)
    believed = [part for part in parts if part.former and len(words & _content(part.text)) >= min(2, len(words))]
    if not believed:
        return None
    found = [_IS_A.search(part.text) for part in parts if part.start > believed[-1].start and _states(part)]
    things = [match["thing"] for match in found if match]
    return "no" if things and not any(words & _content(thing) for thing in things) else None


def _in_chinese(low: str, asked: str) -> str | None:
    """By the first clause or a conclusion that repeats the end of the question, perhaps denied: 亮了, 不能左转."""
    end = _ZH_TURN.sub("", asked).rstrip("了的着")
    if _ZH_NO.search(end):
        return None
    first = re.split(r"[,.;!\n]", _ZH_REPLY.sub("", low.strip(), count=1))[0].strip()
    said = ([first] if len(first) <= _SHORT else []) + _ZH_SO.findall(low)
    verdicts = {verdict for clause in said if (verdict := _repeats_end(clause.strip(), end))}
    return verdicts.pop() if len(verdicts) == 1 else None


def _repeats_end(clause: str, end: str) -> str | None:
    no = _ZH_NO.match(clause)
    rest = (clause[no.end() :] if no else clause).rstrip("了的着呢哦啊")
    if _ZH_TURN.search(clause) or not re.fullmatch(r"[\u4e00-\u9fff]+", rest):
        return None
    if end.endswith(rest) or ((no or clause.endswith("了")) and rest in end):
        return "no" if no else "yes"
    return None
