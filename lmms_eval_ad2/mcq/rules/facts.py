"""Facts stated by the records of one key frame: objects, objects by direction, answers, safe actions.

DriveLM's questions are templates, so that the answer to one is a fact for the others. Answers that cannot be parsed are
skipped: without a fact, the distractors that need it are not offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.data.drivelm_text import ObjectTag, read_tags
from lmms_eval_ad2.records import Record

_BRACKETS = re.compile(r"<[^<>]{3,80}>")
_ABOUT = re.compile(r"What are objects to the ([a-z ]{4,11}) of the ego (?:car|vehicle)\?", re.IGNORECASE)
_SAFE = re.compile(r"what are safe actions", re.IGNORECASE)
_DANGEROUS = re.compile(r"what are dangerous actions", re.IGNORECASE)
_STATE = re.compile(r"What is the (?:moving status|observed status|future state) of", re.IGNORECASE)
_ODD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class KeyObject:
    """A key object. `text` is its tag as written; missing annotations are ""; `box` is (x1, y1, x2, y2) in pixels."""

    text: str
    tag: ObjectTag
    category: str = ""
    appearance: str = ""
    status: str = ""
    box: tuple[float, ...] = ()

    @property
    def is_sign(self) -> bool:
        return self.category == "Traffic element"


@dataclass(slots=True)
class FrameFacts:
    """The facts of one key frame.

    objects: by the text of the tag, in the order of ids. around: direction -> answer that lists the objects there.
    answers: question (see `bare`) -> all its answers in the frame. templates: the same, with object tags removed from
    the question. states: text of the tag -> answers about its motion.
    """

    objects: dict[str, KeyObject] = field(default_factory=dict)
    around: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    states: dict[str, list[str]] = field(default_factory=dict)
    templates: dict[str, list[str]] = field(default_factory=dict)
    safe: str = ""
    dangerous: str = ""

    def answers_to_similar(self, text: str) -> list[str]:
        """The answers to this question and to questions that differ from it only in the objects."""
        return self.templates.get(_template(text), [])

    def answers_to(self, text: str) -> list[str]:
        """All answers to this question in the frame."""
        return self.answers.get(bare(text), [])

    def counts(self) -> list[str]:
        """The answers to the frame's "How many ..." questions."""
        return [answer for text, answers in self.answers.items() if text.startswith("how many") for answer in answers]

    def others(self, *texts: str) -> list[KeyObject]:
        """The key objects whose tags do not occur in `texts`."""
        named = {tag for text in texts for tag in read_tags(text)}
        return [one for one in self.objects.values() if one.tag not in named]


def _template(text: str) -> str:
    return bare(_BRACKETS.sub(" ", text))


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
        for found in _BRACKETS.finditer(f"{question}\n{answer}"):
            for tag in read_tags(found[0]):
                texts.setdefault(tag, found[0])
        for entry in _entries(record):
            info = entry.get("info")
            if isinstance(info, dict):
                infos.update(dict.fromkeys(read_tags("<{id},{camera},{x},{y}>".format_map(entry)), info))
        _note(facts, question, answer)
    for tag in sorted(texts, key=lambda tag: (len(tag.id), tag.id)):
        facts.objects[texts[tag]] = _key_object(texts[tag], tag, infos.get(tag, {}))
    return facts


def _entries(record: Record) -> list[dict[str, Any]]:
    entries = record.meta.get("objects", ())
    keys = ("id", "camera", "x", "y")
    return (
        [e for e in entries if isinstance(e, dict) and all(k in e for k in keys)] if isinstance(entries, list) else []
    )


def _key_object(text: str, tag: ObjectTag, info: dict[str, Any]) -> KeyObject:
    def value_of(name: str) -> str:
        value = info.get(name)
        return value.strip().rstrip(".") if isinstance(value, str) else ""

    box = info.get("2d_bbox")
    corners = tuple(float(v) for v in box if isinstance(v, int | float)) if isinstance(box, list) else ()
    return KeyObject(
        text=text,
        tag=tag,
        category=value_of("Category"),
        appearance=value_of("Visual_description"),
        status=value_of("Status"),
        box=corners if len(corners) == 4 else (),
    )


def _note(facts: FrameFacts, question: str, answer: str) -> None:
    if not answer:
        return
    facts.answers.setdefault(bare(question), []).append(answer)
    facts.templates.setdefault(_template(question), []).append(answer)
    if about := _ABOUT.match(question):
        facts.around[about[1].lower()] = answer
    elif _SAFE.search(question):
        facts.safe = answer
    elif _DANGEROUS.search(question):
        facts.dangerous = answer
    elif _STATE.match(question) and (tag := _BRACKETS.search(question)):
        facts.states.setdefault(tag[0], []).append(answer)
