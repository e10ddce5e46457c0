"""Driving actions in text (actions.yaml): found in any wording, written in the imperative or with "-ing"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase, in_form, replaced

_REASON = re.compile(
    r"\bto (?:follow (?:the )?traffic rules|maintain a safe distance|avoid a collision)"
    r"|(?:\bthat )?\bthere (?:is|are) no safety issues?",
    re.IGNORECASE,
)
_PROBABILITY = re.compile(r"\b(high|low|medium)\b", re.IGNORECASE)
_LIKELY = {"high": ("low", "medium"), "low": ("high", "medium"), "medium": ("low", "high")}


@dataclass(frozen=True, slots=True)
class DrivingAction:
    """A driving action. `excludes`: actions that contradict it."""

    do: str
    doing: str
    excludes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActionMention:
    """An action named in a text. `gerund`: written as "turning left"."""

    key: str
    found: re.Match[str]
    gerund: bool


@cache
def actions() -> Mapping[str, DrivingAction]:
    return {key: DrivingAction(row["do"], row["doing"], tuple(row["not"])) for key, row in _rows().items()}


def mentions(text: str) -> list[ActionMention]:
    """All actions in `text`, in order; of overlapping wordings the longest."""
    pattern, keys = _pattern()
    return [ActionMention(keys[m[0].lower()], m, "ing" in m[0].split()[0]) for m in pattern.finditer(text)]


def named(text: str) -> list[str]:
    """The keys of the actions in `text`, each once."""
    return list(dict.fromkeys(mention.key for mention in mentions(text)))


def say(keys: Iterable[str], gerund: bool = False) -> str:
    """Actions as text: "turn left, back up"."""
    return ", ".join(actions()[key].doing if gerund else actions()[key].do for key in keys)


@cache
def _rows() -> Mapping[str, Any]:
    return yaml.safe_load(resources.files(__package__).joinpath("actions.yaml").read_text("utf-8"))


@cache
def _pattern() -> tuple[re.Pattern[str], dict[str, str]]:
    keys = {text.lower(): key for key, row in _rows().items() for text in (row["do"], row["doing"], *row["says"])}
    longest_first = sorted(keys, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE), keys


def wrong_keys(case: RuleCase, truth: str) -> list[str]:
    """Actions excluded by the true one that are neither annotated as safe nor another answer to this question."""
    given = {key for text in case.facts.answers_to(case.question.text) for key in named(text)}
    kept = given | set(named(case.facts.safe)) | {truth}
    return [key for key in actions()[truth].excludes if key not in kept]


_WHY = {
    SENSOR: "The distance to the object is misread.", DOMAIN: "The rules of the road are misjudged.",
    LOGIC: "The action does not follow from the scene.", OVERSIGHT: "The time to reach the object is computed wrongly.",
    READING: "The action of another vehicle, or at another moment, is given.",
}  # fmt: skip


_REASONS = (
    (SENSOR, "to keep clear of a vehicle on the left", "A vehicle is seen where none matters."),
    (DOMAIN, "to use the right of way", "No right of way asks for this action."),
    (LOGIC, "to save time", "The reason does not carry the action."),
    (OVERSIGHT, "to stop within 2 m", "The stopping distance is computed wrongly."),
    (READING, "to let the vehicle behind pass", "Another road user's reason is given."),
)
_GROUNDS = (
    (SENSOR, ", as the brake lights show", "The image is misread."),
    (DOMAIN, ", having the right of way", "No right of way asks for it."),
    (LOGIC, ", because the others do so", "What others do does not carry the conclusion."),
    (OVERSIGHT, " within 2 seconds", "The time is computed wrongly."),
    (READING, ", as the vehicle behind does", "Another vehicle is looked at."),
)


def wrong_action(case: RuleCase) -> Iterator[Distractor]:
    """The answer with another action, also with another reason or another probability."""
    found = mentions(case.answer)
    if not found:
        yield from _no_action(case)
        return
    first, keys = found[0], wrong_keys(case, found[0].key)
    wrong = {key: replaced(case.answer, first.found, say([key], first.gerund)) for key in keys}
    for key in dict.fromkeys(key for text in case.facts.answers_to_similar(case.question.text) for key in named(text)):
        if key in wrong:
            yield Distractor(wrong[key], READING, "The action for another object of the scene.")
    if "probab" in case.question.text.lower():
        yield from _less_likely(case.answer, f"Annotated is: {case.answer}")
    for turn, (category, why) in enumerate(_WHY.items()):
        for key in (*keys[turn:], *keys[:turn]):
            yield Distractor(wrong[key], category, f"{why} Not annotated: {actions()[key].do}.")
    for text in wrong.values():
        if _REASON.search(text):
            for category, reason, why in _REASONS:
                yield Distractor(_with_reason(text, reason), category, f"{why} The action is wrong too.")
            yield from _less_likely(text, "Both action and probability are wrong.")
        else:
            for category, ground, why in _GROUNDS:
                text_with = in_form(text.rstrip(". ") + ground, case.answer)
                yield Distractor(text_with, category, f"{why} The action is wrong too.")


def _less_likely(text: str, why: str) -> Iterator[Distractor]:
    if found := _PROBABILITY.search(text):
        for other in _LIKELY[found[1].lower()]:
            yield Distractor(replaced(text, found, other), OVERSIGHT, f"The probability is computed wrongly. {why}")


def _with_reason(text: str, reason: str) -> str:
    found = _REASON.search(text)
    if not found:
        return text
    # "because there is ..." needs a clause, all other wordings take "to ...".
    lead = text[: found.start()].rstrip().lower()
    return text[: found.start()] + ("it has " if lead.endswith("because") else "") + reason + text[found.end() :]


_NONE = re.compile(r"\bnone\b", re.IGNORECASE)


def _no_action(case: RuleCase) -> Iterator[Distractor]:
    """ "The action is none": any action contradicts it."""
    found = _NONE.search(case.answer)
    if not found:
        return
    rows = ((SENSOR, "turn_left"), (DOMAIN, "brake_stop"), (LOGIC, "accelerate"), (OVERSIGHT, "back"),
            (READING, "stationary"), (SENSOR, "turn_right"), (LOGIC, "brake_hard"))  # fmt: skip
    for category, key in rows:
        yield Distractor(replaced(case.answer, found, f"to {say([key])}"), category, "No action is annotated.")
