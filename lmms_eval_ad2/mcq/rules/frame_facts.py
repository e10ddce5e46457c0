"""Facts stated by the records of one key frame, and the closed vocabularies of their annotations (vocabulary.yaml).

DriveLM's questions are templates, so that the answer to one is a fact for the others. Answers that cannot be parsed are
skipped: without a fact, the options that need it are not made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.drivelm_text import ObjectTag, read_tags

Shares = Mapping[str, float]
Exclusions = Mapping[str, Sequence[str]]  # value -> values that exclude it
Items = tuple[tuple[str, str], ...]  # ("two", "car"), ("one", "bus")


def packaged_table(name: str) -> Any:
    """A YAML file of this package."""
    return yaml.safe_load(resources.files(__package__).joinpath(name).read_text("utf-8"))


VOCABULARY: Mapping[str, Any] = packaged_table("vocabulary.yaml")
SHARES: Mapping[str, Shares] = VOCABULARY["shares"]
NUMBERS: Sequence[str] = VOCABULARY["numbers"]
_OPPOSITE = {"front": "back", "back": "front", "left": "right", "right": "left"}

# Driving actions by key. "do", "doing": text of an option; "says": other wordings; "not": actions that contradict it.
ACTIONS: Mapping[str, Mapping[str, Any]] = packaged_table("actions.yaml")
_ACTION_KEYS = {text.lower(): key for key, row in ACTIONS.items() for text in (row["do"], row["doing"], *row["says"])}


def plural(kind: str, count: str) -> str:
    """The class in the grammatical number that `count` ("one", "two", "many") requires."""
    if count == "one":
        return kind
    return kind + ("es" if kind.endswith(("s", "x")) else "s")


def singular(kind: str) -> str:
    if kind.endswith("buses"):
        return kind[:-2]
    return kind[:-1] if kind.endswith("s") and not kind.endswith("bus") else kind


def with_article(phrase: str) -> str:
    return f"{'an' if re.match('[aeio]', phrase, re.IGNORECASE) or phrase.startswith('SUV') else 'a'} {phrase}"


def capital_like(text: str, like: str) -> str:
    """`text` with an initial capital if `like` has one; an abbreviation ("SUV") is no example."""
    return text[:1].upper() + text[1:] if like[:1].isupper() and not like.isupper() else text


def any_of(words: Iterable[str]) -> str:
    """A regular expression for any of the words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def directions_instead(direction: str) -> tuple[str, ...]:
    """Directions that exclude `direction`: left and right, or front and back, exchanged; then the two sides."""
    ends = direction.split()
    if len(ends) == 2:
        along, across = ends
        return f"{along} {_OPPOSITE[across]}", f"{_OPPOSITE[along]} {across}", f"{_OPPOSITE[along]} {_OPPOSITE[across]}"
    sides = ("left", "right") if direction in ("front", "back") else ("front", "back")
    return _OPPOSITE[direction], *sides


# Any wording of any action; of overlapping wordings the longest.
ACTION = re.compile(rf"\b(?:{any_of(_ACTION_KEYS)})\b", re.IGNORECASE)


def actions_in(text: str) -> list[str]:
    """The keys of the actions in `text`, each once, in order."""
    return list(dict.fromkeys(_ACTION_KEYS[found[0].lower()] for found in ACTION.finditer(text)))


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
_COUNTED = re.compile(rf"({any_of(NUMBERS)}) ([a-z ]{{3,40}})", re.IGNORECASE)
_ODD = re.compile(r"[^a-z0-9]+")
_MOST_WORDS = 4  # of the looks of an object; longer descriptions are no short reason


@dataclass(frozen=True, slots=True)
class KeyObject:
    """A key object. looks: "white sedan", "red light", or "" if not annotated or long."""

    is_sign: bool = False
    looks: str = ""


@dataclass(slots=True)
class FrameFacts:
    """The facts of one key frame.

    objects: by tag. around: direction -> objects there. status: (class, direction) -> answers about their status.
    answers: question (see `_bare`) -> all its answers in the frame. safe: the answer about safe actions.
    """

    objects: dict[ObjectTag, KeyObject] = field(default_factory=dict)
    around: dict[str, Items] = field(default_factory=dict)
    status: dict[tuple[str, str], str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    safe: str = ""

    @classmethod
    def of(cls, scene: Sequence[Record]) -> FrameFacts:
        """Collect the facts of a key frame from all its records."""
        facts = cls()
        infos: dict[ObjectTag, dict[str, Any]] = {}
        tags: set[ObjectTag] = set()
        for record in scene:
            question, answer = record.question.get("en"), record.answer.get("en")
            for found in TAG.finditer(f"{question}\n{answer}"):
                tags.update(read_tags(found[0]))
            for entry in _entries(record):
                infos.update(dict.fromkeys(read_tags("<{id},{camera},{x},{y}>".format_map(entry)), entry["info"]))
            if answer:
                facts.note(question, answer)
        for tag in sorted(tags, key=lambda tag: (len(tag.id), tag.id)):
            info = infos.get(tag, {})
            sign = info.get("Category") == "Traffic element"
            facts.objects[tag] = KeyObject(sign, looks_of(info.get("Visual_description")))
        return facts

    def note(self, question: str, answer: str) -> None:
        self.answers.setdefault(_bare(question), []).append(answer)
        if about := _AROUND.match(question):
            self.around[about[1].lower()] = read_items(answer)
        elif about := _STATUS.match(question):
            self.status[singular(about[1].lower()), about[2].lower()] = answer
        elif "what are safe actions" in question.lower():
            self.safe = answer

    def object_of(self, text: str) -> KeyObject | None:
        tag = next(iter(read_tags(text)), None)
        return self.objects.get(tag) if tag else None

    def wrong_actions(self, key: str, question: str) -> tuple[str, ...]:
        """The actions that are false in place of `key`: it excludes them, and no record states or calls them safe."""
        texts = [*self.answers.get(_bare(question), ()), self.safe]
        kept = {named for text in texts for named in actions_in(text)}
        return tuple(named for named in ACTIONS[key]["not"] if named not in kept)


def _bare(question: str) -> str:
    """A question reduced to lower-case words and numbers, for comparison."""
    return _ODD.sub(" ", question.lower()).strip()


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


def read_items(text: str) -> Items:
    """ "There are two cars and one bus behind the ego car." -> (("two", "car"), ("one", "bus")); () if not read."""
    whole = _LISTED.fullmatch(text.strip())
    parts = [_COUNTED.fullmatch(part.strip()) for part in re.split(r",? and |, ", whole[1])] if whole else []
    return tuple((p[1].lower(), singular(p[2].lower())) for p in parts if p) if all(parts) else ()


def say_items(items: Sequence[tuple[str, str]]) -> str:
    """(("two", "car"), ("one", "bus")) -> "two cars and one bus"."""
    parts = [f"{count} {plural(kind, count)}" for count, kind in items]
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
