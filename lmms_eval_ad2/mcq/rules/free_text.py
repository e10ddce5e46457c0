"""Free text, such as LingoQA's: one word is replaced by its contrary.

No annotation shows what is false here, so only words whose contrary excludes them are replaced: colours, sides, states,
actions, numbers, yes and no. "There is a car on the left" is kept: there may be one on the right as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, replaced
from lmms_eval_ad2.mcq.rules.directions import across
from lmms_eval_ad2.mcq.rules.surroundings import NUMBERS

_NUMBERED = rf"(?:{'|'.join(NUMBERS)}|\d{{1,3}})"
_EXISTS = re.compile(
    rf"\bthere (is|are|was|were) (?!no\b|not\b|nothing\b|{_NUMBERED}\b)(?:an? |some |many |several )?", re.IGNORECASE
)
_THERE = re.compile(r"\bthere (?:is|are|was|were)\b(?! no| not| nothing)", re.IGNORECASE)
_NOTHING = re.compile(r"\bnothing(?: in particular| special)?\b", re.IGNORECASE)

# (category, pairs word=contrary that exclude each other, reason)
_CONTRARIES: tuple[tuple[str, str, str], ...] = (
    (SENSOR, "red=green green=red yellow=red amber=red green=yellow red=yellow yellow=green", "The colour is misread."),
    (SENSOR, "white=black black=white blue=red silver=red grey=red gray=red orange=blue brown=blue",
     "The colour is misread."),
    (SENSOR, "empty=crowded clear=blocked wet=dry dry=wet sunny=rainy rainy=sunny day=night night=day",
     "The image is misread."),
    (SENSOR, "sunny=snowy sunny=foggy rainy=snowy snowy=sunny cloudy=sunny cloudy=snowy foggy=sunny foggy=snowy",
     "The image is misread."),
    (DOMAIN, "pedestrian=cyclist cyclist=pedestrian bus=tram truck=bus van=bus lorry=bus taxi=bus motorcycle=bicycle",
     "Neighbouring classes are confused."),
    (DOMAIN, "parked=moving moving=parked stationary=moving stopped=moving", "States of motion are confused."),
    (LOGIC, "accelerating=braking braking=accelerating accelerate=brake brake=accelerate stop=accelerate "
            "stopping=accelerating decelerating=accelerating decelerate=accelerate",
     "The action contradicts its reason."),
    (DOMAIN, "overtake=follow yield=go proceed=wait wait=proceed waiting=proceeding", "Right of way is misjudged."),
    (OVERSIGHT, "near=far far=near close=far low=high high=low fast=slowly slowly=fast increasing=decreasing "
                "decreasing=increasing empty=crowded affect=improve improve=affect",
     "Distance, speed or amount is computed wrongly."),
    (READING, "next=previous behind=before oncoming=following before=after after=before",
     "Another place or time is meant."),
)  # fmt: skip
# Phrases: word by word, "slow down" would become "speed down".
_PACE = {"slow down": "speed up", "slowing down": "speeding up", "slows down": "speeds up", "speed up": "slow down",
         "speeding up": "slowing down", "speeds up": "slows down", "slowed down": "sped up"}  # fmt: skip
_PACED = re.compile(rf"\b({'|'.join(_PACE)})\b", re.IGNORECASE)
_VERB = re.compile(r"\b(is|are|am|was|were|will|should|can|must|has|have|would|could)\b(?! not\b|n't)", re.IGNORECASE)
_DENIED = re.compile(r"\b(is|are|am|was|were|will|should|can|must|has|have|would|could)(?: not|n't)\b", re.IGNORECASE)
_VERDICT = re.compile(r"\A(yes|no)\b,?", re.IGNORECASE)
_CAUSE = re.compile(r"\b(because|as|since)\b(?! (?:well|of|soon|long|far|if|usual))", re.IGNORECASE)
_COUNT = re.compile(rf"\b({'|'.join(NUMBERS[1:])}|\d{{1,3}})\b(?! (?:of|more))", re.IGNORECASE)


def contraries(case: RuleCase) -> Iterator[Distractor]:
    """The answer with one word replaced by its contrary, or negated."""
    answer = case.answer
    exists = bool(_THERE.search(answer))
    yield from _verdict(answer)
    yield from _negated(answer)
    yield from _question_denied(case)
    if not exists and (mirrored := across(answer)):
        yield Distractor(mirrored, SENSOR, "Left and right are swapped.")
    for category, table, why in _CONTRARIES:
        # Other objects may exist as well, so existence statements keep classes, colours and states.
        if exists and category in (SENSOR, DOMAIN):
            continue
        for pair in table.split():
            word, contrary = pair.split("=")
            for found in re.finditer(rf"\b{word}\b", answer, re.IGNORECASE):
                yield Distractor(replaced(answer, found, contrary.replace("_", " ")), category, why)
    for found in _PACED.finditer(answer):
        yield Distractor(replaced(answer, found, _PACE[found[1].lower()]), LOGIC, "The action contradicts its reason.")
    for found in _COUNT.finditer(answer):
        for step in (1, 2):
            yield Distractor(replaced(answer, found, _counted(found[1], step)), OVERSIGHT, "Miscounted.")


def _verdict(answer: str) -> Iterator[Distractor]:
    found = _VERDICT.match(answer)
    if not found:
        return
    other = "No" if found[1].lower() == "yes" else "Yes"
    yield Distractor(f"{other}.", SENSOR, f"What is seen is misread; the annotated verdict is {found[1].lower()}.")
    rest = answer[found.end() :].strip()
    if rest and (negated := _negation(rest)):
        yield Distractor(f"{other}, {negated}", LOGIC, "Verdict and statement are both turned round.")


def _negation(text: str) -> str:
    """The statement negated, or affirmed if it is a negation; "" without a known verb."""
    if denied := _DENIED.search(text):
        return text[: denied.start()] + denied[1] + text[denied.end() :]
    if verb := _VERB.search(text):
        return text[: verb.end()] + " not" + text[verb.end() :]
    return ""


def _negated(answer: str) -> Iterator[Distractor]:
    if _VERDICT.match(answer):
        return
    exists = _EXISTS.search(answer)
    if exists:
        # The negation of "There is a car" is "There is no car".
        text = f"{answer[: exists.start()]}{exists[0].split()[0]} {exists[1]} no {answer[exists.end() :]}"
        yield Distractor(text, SENSOR, "What is there is overlooked.")
    if nothing := _NOTHING.search(answer):
        yield Distractor(replaced(answer, nothing, "a lot"), SENSOR, "Things are seen where nothing is annotated.")
        yield Distractor(
            replaced(answer, nothing, "just one thing"), OVERSIGHT, "One is counted where none is annotated."
        )
    elif not (exists and exists.start() == 0) and (negated := _negation(answer)):
        yield Distractor(negated, LOGIC, "What is annotated is denied.")
    if (so := re.search(r"[,;] so\b", answer)) and (end := _negation(answer[so.end() :])):
        yield Distractor(answer[: so.end()] + end, LOGIC, "The contrary is concluded from the same ground.")
    if (cause := _CAUSE.search(answer)) and not exists and (ground := _negation(answer[cause.end() :])):
        yield Distractor(answer[: cause.end()] + ground, READING, "The ground is turned round.")


def _question_denied(case: RuleCase) -> Iterator[Distractor]:
    """The answer "Nothing ..." to a "what" question, unless the right answer contains "nothing"."""
    if _NOTHING.search(case.answer):
        return
    if re.match(r"What(?:'s| is| are| will| can)\b", case.question.text, re.IGNORECASE) and not _NOTHING.search(
        case.answer
    ):
        text = "Nothing in this scene calls for attention." if len(case.answer) > 30 else "Nothing in this scene."
        yield Distractor(text, LOGIC, "That nothing has happened yet does not carry the conclusion.")


def _counted(number: str, step: int) -> str:
    if number.isdigit():
        return str(int(number) + step)
    place = NUMBERS.index(number.lower()) + step
    return NUMBERS[place] if place < len(NUMBERS) else "a dozen"
