"""What the records of one key frame state, by kind of fact: objects, counts a direction, answers, safe actions.

DriveLM's questions are templates, so that the answers to one are facts for the others. What does not fit the
notation is left out: a missing fact only means that a distractor which would need it is not offered.
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
    """A key object. `text` is its tag as written; the annotations are "" where there are none; box in pixels."""

    text: str
    tag: ObjectTag
    category: str = ""
    looks: str = ""
    status: str = ""
    box: tuple[float, ...] = ()

    @property
    def is_sign(self) -> bool:
        return self.category == "Traffic element"


@dataclass(slots=True)
class FrameFacts:
    """things: by the tag's text, in the order of their ids. around: direction -> the answer that lists what is there.
    answers: question, bare -> all its answers in the frame;
    templates: the same without objects. states: tag's text -> what was said of its motion.
    """

    things: dict[str, KeyObject] = field(default_factory=dict)
    around: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    states: dict[str, list[str]] = field(default_factory=dict)
    templates: dict[str, list[str]] = field(default_factory=dict)
    safe: str = ""
    dangerous: str = ""

    def alike(self, text: str) -> list[str]:
        """The answers to this question and to those that differ from it in the objects only."""
        return self.templates.get(_template(text), [])

    def answers_to(self, text: str) -> list[str]:
        """Every answer that the frame's records give to this question."""
        return self.answers.get(bare(text), [])

    def counts(self) -> list[str]:
        """The answers to the frame's "How many ..." questions."""
        return [answer for text, answers in self.answers.items() if text.startswith("how many") for answer in answers]

    def others(self, *texts: str) -> list[KeyObject]:
        """The key objects that none of `texts` names."""
        said = {tag for text in texts for tag in read_tags(text)}
        return [thing for thing in self.things.values() if thing.tag not in said]


def _template(text: str) -> str:
    return bare(_BRACKETS.sub(" ", text))


def bare(text: str) -> str:
    """A question by its words and numbers alone, for comparing."""
    return _ODD.sub(" ", text.lower()).strip()


def facts_of(scene: Sequence[Record]) -> FrameFacts:
    """Read once for all questions of a key frame."""
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
        facts.things[texts[tag]] = _thing(texts[tag], tag, infos.get(tag, {}))
    return facts


def _entries(record: Record) -> list[dict[str, Any]]:
    entries = record.meta.get("objects", ())
    keys = ("id", "camera", "x", "y")
    return (
        [e for e in entries if isinstance(e, dict) and all(k in e for k in keys)] if isinstance(entries, list) else []
    )


def _thing(text: str, tag: ObjectTag, info: dict[str, Any]) -> KeyObject:
    def said(name: str) -> str:
        value = info.get(name)
        return value.strip().rstrip(".") if isinstance(value, str) else ""

    box = info.get("2d_bbox")
    corners = tuple(float(v) for v in box if isinstance(v, int | float)) if isinstance(box, list) else ()
    return KeyObject(
        text, tag, said("Category"), said("Visual_description"), said("Status"), corners if len(corners) == 4 else ()
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
