"""Facts stated by the records of one key frame: objects, what is in each direction, answers, safe actions.

DriveLM's questions are templates, so that the answer to one is a fact for the others. Answers that cannot be parsed are
skipped: without a fact, the options that need it are not made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.drivelm_text import ObjectTag, read_tags
from lmms_eval_ad2.mcq.rules import words

TAG = re.compile(r"<[^<>]{3,80}>")
_AROUND = re.compile(r"What are objects to the ([a-z ]{4,11}) of the ego (?:car|vehicle)\?", re.IGNORECASE)
_STATUS = re.compile(
    r"What is the status of the ([a-z ]{3,40}?) that (?:is|are) to the ([a-z ]{4,11}) of", re.IGNORECASE
)
_LISTED = re.compile(
    r"There (?:is|are) (.{3,300}?) (?:to the|on the|at the|in front of|behind)\b[a-z ]{0,20}"
    r"(?:ego (?:car|vehicle)|it)\.?",
    re.IGNORECASE,
)
_COUNTED = re.compile(rf"({words.any_of(words.NUMBERS)}) ([a-z ]{{3,40}})", re.IGNORECASE)
_ODD = re.compile(r"[^a-z0-9]+")
_MOST_WORDS = 4  # of the looks of an object; longer descriptions are no short reason

Items = tuple[tuple[str, str], ...]  # ("two", "car"), ("one", "bus")


@dataclass(frozen=True, slots=True)
class KeyObject:
    """A key object. text: its tag as written. looks: "white sedan", "red light", or "" if not annotated or long."""

    text: str
    tag: ObjectTag
    is_sign: bool = False
    looks: str = ""


@dataclass(slots=True)
class FrameFacts:
    """The facts of one key frame.

    objects: by tag. around: direction -> objects there. status: (class, direction) -> answers about their status.
    answers: question (see `bare`) -> all its answers in the frame.
    """

    objects: dict[ObjectTag, KeyObject] = field(default_factory=dict)
    around: dict[str, Items] = field(default_factory=dict)
    status: dict[tuple[str, str], str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    safe: str = ""

    def answers_to(self, text: str) -> list[str]:
        """All answers to this question in the frame."""
        return self.answers.get(bare(text), [])

    def classes_at(self, direction: str) -> set[str]:
        return {kind for _, kind in self.around.get(direction, ())}

    def object_of(self, text: str) -> KeyObject | None:
        tag = next(iter(read_tags(text)), None)
        return self.objects.get(tag) if tag else None


def bare(text: str) -> str:
    """A question reduced to lower-case words and numbers, for comparison."""
    return _ODD.sub(" ", text.lower()).strip()


def facts_of(scene: Sequence[Record]) -> FrameFacts:
    """Collect the facts of a key frame from all its records."""
    facts = FrameFacts()
    infos: dict[ObjectTag, dict[str, Any]] = {}
    texts: dict[ObjectTag, str] = {}
    for record in scene:
        question, answer = record.question.get("en"), record.answer.get("en")
        for found in TAG.finditer(f"{question}\n{answer}"):
            for tag in read_tags(found[0]):
                texts.setdefault(tag, found[0])
        for entry in _entries(record):
            infos.update(dict.fromkeys(read_tags("<{id},{camera},{x},{y}>".format_map(entry)), entry["info"]))
        if answer:
            _note(facts, question, answer)
    for tag in sorted(texts, key=lambda tag: (len(tag.id), tag.id)):
        info = infos.get(tag, {})
        sign = info.get("Category") == "Traffic element"
        facts.objects[tag] = KeyObject(texts[tag], tag, sign, looks_of(info.get("Visual_description")))
    return facts


def looks_of(description: object) -> str:
    """ "White sedan car." -> "white sedan", "No entry" -> "no entry sign"; "" if it is no short description."""
    if not isinstance(description, str):
        return ""
    found = " ".join(description.strip().rstrip(".").split()).lower().replace("suv", "SUV")
    found = re.sub(r"(sedan|SUV|truck|van) car\Z", r"\1", found)
    found = f"{found} sign" if found == "no entry" else found
    return found if found and len(found.split()) <= _MOST_WORDS and not TAG.search(found) else ""


def _entries(record: Record) -> list[dict[str, Any]]:
    entries = record.meta.get("objects", ())
    if not isinstance(entries, list):
        return []
    keys = ("id", "camera", "x", "y")
    return [e for e in entries if isinstance(e, dict) and all(k in e for k in keys) and isinstance(e.get("info"), dict)]


def _note(facts: FrameFacts, question: str, answer: str) -> None:
    facts.answers.setdefault(bare(question), []).append(answer)
    if about := _AROUND.match(question):
        facts.around[about[1].lower()] = read_items(answer)
    elif about := _STATUS.match(question):
        facts.status[words.singular(about[1].lower()), about[2].lower()] = answer
    elif "what are safe actions" in question.lower():
        facts.safe = answer


def read_items(text: str) -> Items:
    """ "There are two cars and one bus behind the ego car." -> (("two", "car"), ("one", "bus")); () if not read."""
    whole = _LISTED.fullmatch(text.strip())
    parts = [_COUNTED.fullmatch(part.strip()) for part in re.split(r",? and |, ", whole[1])] if whole else []
    return tuple((p[1].lower(), words.singular(p[2].lower())) for p in parts if p) if all(parts) else ()


def say_items(items: Sequence[tuple[str, str]]) -> str:
    """(("two", "car"), ("one", "bus")) -> "two cars and one bus"."""
    parts = [f"{count} {words.plural(kind, count)}" for count, kind in items]
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
