"""Core data types: a question (Record), an answer (Answer | Unparsed) and its score (Score | Unscored).

All are frozen; a Record is converted to JSON and back without loss. "Could not be read" and "could not be scored" are
separate outcomes, never 0 and never dropped.

Coordinates are pixels of the stored image (`Record.image_size`), origin top left; boxes are
(x_min, y_min, x_max, y_max).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")

Form = Literal["mc", "vqa", "yesno", "count", "point", "box", "ocr", "chain"]
YES_NO = ("yes", "no")
SIDES = ("left", "right")
FORMS: tuple[Form, ...] = ("mc", "vqa", "yesno", "count", "point", "box", "ocr", "chain")

MarkKind = Literal["none", "text", "point", "box"]
MARKS: tuple[MarkKind, ...] = ("none", "text", "point", "box")

# What scores and counts are broken down by -> the field of a record that states it.
BREAKDOWNS = {"weather": "scene", "period": "scene", "severity": "scene", "category": "meta", "source": "meta"}

ABSTAINING = ("none_matches", "absent")  # kinds of AD2-Bench's options E and F: no answers to an open question


@dataclass(frozen=True, slots=True)
class BilingualText:
    """A text in the languages that a release has; a missing one is the empty string."""

    en: str = ""
    zh: str = ""

    def get(self, lang: Lang) -> str:
        """The text in `lang`, or in the other language if `lang` is missing."""
        return (self.zh or self.en) if lang == "zh" else (self.en or self.zh)

    def readable_in(self, lang: Lang) -> bool:
        """Whether it has a text in `lang`, or one without letters ("30"), which belongs to every language."""
        own, other = (self.zh, self.en) if lang == "zh" else (self.en, self.zh)
        return bool(own) or not any(map(str.isalpha, other))

    def __bool__(self) -> bool:
        return bool(self.en or self.zh)


def _text_of(value: BilingualText | Mapping[str, str] | str) -> BilingualText:
    """The name of a step or the text of a mark: in JSON a plain string if it is in English only (see `_value`)."""
    if isinstance(value, str):
        return BilingualText(value)
    return value if isinstance(value, BilingualText) else BilingualText(**value)


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """One option of a multiple-choice question.

    `kind` is its origin: "correct", "distractor", "none_matches" (AD2-Bench's option E), "absent" (its option F), or
    the error category of an AutoDrive-QA distractor.
    """

    letter: str
    text: BilingualText
    kind: str = "distractor"


@dataclass(frozen=True, slots=True)
class VisualPrompt:
    """A marked region. `coords` holds points (x, y) or boxes (x_min, y_min, x_max, y_max), in pixels.

    `text` refers to the same region in words ("the white van at the kerb"); a plain string is English.
    """

    kind: MarkKind = "none"
    coords: tuple[tuple[float, ...], ...] = ()
    text: BilingualText = BilingualText()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text_of(self.text))


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    """One step of a chain of thought with its own ground truth (AD2-Bench section 3.2, "atomic" annotation).

    `mark` is the visual prompt of this step (Fig. 4); None: the record's. A plain string as the name is English.
    """

    name: BilingualText
    question: BilingualText
    answer: BilingualText
    subtask_id: int | None = None
    mark: VisualPrompt | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _text_of(self.name))


@dataclass(frozen=True, slots=True)
class Record:
    """One question about one or several images.

    `answer` is the free-text reference, or the canonical text of a typed one:
    yesno "yes" | "no", or "left" | "right"; count "3"; point "<x,y>"; box "[x1, y1, x2, y2]".
    `letter` is the correct option if there are `options`. A record with options and a free-text answer has both forms
    of AD2-Bench (`forms`); `form` is the one in which it was written.
    `views` names the camera of each image (may be empty for single-image benchmarks).
    `cluster` groups records that share evidence (an image, a scene): confidence intervals leave out whole clusters.
    """

    id: str
    benchmark: str
    task: str
    subtask: str
    form: Form
    images: tuple[str, ...]
    question: BilingualText
    answer: BilingualText
    letter: str = ""
    options: tuple[AnswerOption, ...] = ()
    mark: VisualPrompt = VisualPrompt()
    steps: tuple[ReasoningStep, ...] = ()
    views: tuple[str, ...] = ()
    image_size: tuple[int, int] | None = None
    subtask_id: int | None = None
    cluster: str = ""
    scene: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, str]:
        """The two answers that a yes/no question offers: "left" and "right" if it asks for a side (AD2-Bench A.5)."""
        return SIDES if self.form == "yesno" and self.answer.get("en") in SIDES else YES_NO

    @property
    def right_option(self) -> AnswerOption | None:
        """The correct option; None without options or letter."""
        return next((option for option in self.options if option.letter == self.letter), None)

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms in which the record is annotated: `form`, and multiple choice or free text if it has them too.

        An answer that only repeats the correct option is no free-text reference of its own.
        """
        right = self.right_option
        if right is None or self.form == "chain":
            return (self.form,)
        if self.form != "mc":
            return (self.form, "mc")
        own = self.answer and self.answer != right.text and self.answer.get("en") != right.letter
        return ("mc", "vqa") if own else ("mc",)

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, characters outside ASCII unescaped."""
        return json.dumps(_plain(self), ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Record:
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """A record from the parsed output of `to_json`; raises KeyError or TypeError for any other structure."""
        d = dict(data)
        d["question"] = BilingualText(**d["question"])
        d["answer"] = BilingualText(**d["answer"])
        d["images"] = tuple(d["images"])
        d["views"] = tuple(d.get("views", ()))
        size = d.get("image_size")
        d["image_size"] = (int(size[0]), int(size[1])) if size else None
        d["options"] = tuple(
            AnswerOption(o["letter"], BilingualText(**o["text"]), o["kind"]) for o in d.get("options", ())
        )
        if mark := d.get("mark"):
            d["mark"] = _mark_of(mark)
        d["steps"] = tuple(map(_step_of, d.get("steps", ())))
        return cls(**d)


def _mark_of(data: Mapping[str, Any]) -> VisualPrompt:
    return VisualPrompt(data["kind"], tuple(tuple(c) for c in data["coords"]), data["text"])


def _step_of(data: Mapping[str, Any]) -> ReasoningStep:
    question, answer, mark = BilingualText(**data["question"]), BilingualText(**data["answer"]), data.get("mark")
    return ReasoningStep(data["name"], question, answer, data.get("subtask_id"), _mark_of(mark) if mark else None)


def _plain(part: Any) -> dict[str, Any]:
    """A dataclass as a dict, recursively. `dataclasses.asdict` copies every leaf and takes five times as long."""
    return {name: _value(getattr(part, name)) for name in part.__slots__}


def _value(value: Any) -> Any:
    if isinstance(value, ReasoningStep):
        plain = {**_plain(value), "name": _short(value.name)}
        if value.mark is None:  # steps without a mark keep the JSON that they had
            del plain["mark"]
        return plain
    if isinstance(value, VisualPrompt):
        return {**_plain(value), "text": _short(value.text)}
    if isinstance(value, (BilingualText, AnswerOption)):
        return _plain(value)
    if isinstance(value, tuple) and value and isinstance(value[0], (AnswerOption, ReasoningStep)):
        return [_value(v) for v in value]
    return value


def _short(text: BilingualText) -> Any:
    """A text in English only as a plain string: these fields had one language before, and keep their JSON."""
    return _plain(text) if text.zh else text.en


Value = str | int | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read from a model's text without ambiguity.

    `value` by form: mc a letter; yesno "yes"/"no"; count an int; point (x, y); box
    (x1, y1, x2, y2); ocr, vqa a string; chain a tuple with one string per step.
    `note` describes how it was read, if that matters ("centre of a box", "proportional").
    """

    form: Form
    value: Value
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """The text could not be read as an answer of this form. `reason` is a short stable code."""

    form: Form
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one sample. `value` is in the unit of the metric (0..1 unless documented otherwise)."""

    metric: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unscored:
    """No score could be computed (judge failed, request failed, tool missing). `reason` is a short stable code."""

    metric: str
    reason: str
    detail: str = ""
