"""The reviewable texts of a record (CODA-LM's text boxes, AD2-Bench's atomic steps).

A piece is one text: the question, the answer, an option, a step of a chain of thought, an object of a scene. If a model
wrote it, `pre` names the model and `own` keeps the text of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lmms_eval_ad2.core.records import BilingualText, Lang, Record

Kind = Literal["question", "answer", "option", "step", "object"]
KINDS: tuple[Kind, ...] = ("question", "answer", "option", "step", "object")
OBJECTS = "objects"  # key of Record.meta: [{"category": "vehicle", "text": "..."}], the objects of a scene


@dataclass(frozen=True, slots=True)
class TextPiece:
    """One text. `key`: unique in the record. `name`: of a step or option, or an object's category."""

    key: str
    kind: Kind
    name: str = ""
    question: str = ""
    text: str = ""
    pre: str = ""
    own: str = ""

    @property
    def words(self) -> tuple[str, str, str]:
        """The editable texts: name, question, text."""
        return self.name, self.question, self.text


@dataclass(frozen=True, slots=True)
class DraftAnnotation:
    """A model's draft for one record, before review. None: the draft does not contain that part.

    steps: list of (name, question, answer). objects: list of (category, text). notes: hash of the texts from which a
    suggestion was drafted (draft_prompts.digest); "" for other drafts.
    """

    model: str
    answer: str | None = None
    steps: tuple[tuple[str, str, str], ...] | None = None
    objects: tuple[tuple[str, str], ...] | None = None
    notes: str = ""


def in_language(text: BilingualText, lang: Lang) -> str:
    """The text in this language only, without falling back to the other: that one is not under review."""
    return text.zh if lang == "zh" else text.en


def listed(record: Record) -> Kind | None:
    """The kind of pieces that may be added, moved and deleted: "step", "object" or None."""
    if record.form == "chain":
        return "step"
    return "object" if isinstance(record.meta.get(OBJECTS), list) else None


def pieces_of(record: Record, lang: Lang, pre: DraftAnnotation | None = None) -> tuple[TextPiece, ...]:
    """The texts of `record` in `lang`, in the order of the page; drafts replace the texts of the data."""
    asked = in_language(record.question, lang)
    found = [TextPiece("question", "question", text=asked)] if asked else []
    found += [
        TextPiece(f"option.{o.letter}", "option", name=f"{o.letter} · {o.kind.replace('_', ' ')}",
              text=in_language(o.text, lang))
        for o in record.options
    ]  # fmt: skip
    if not _answered_by_options(record) and record.form != "chain":
        own = in_language(record.answer, lang)
        written = pre.answer if pre else None
        found.append(
            TextPiece("answer", "answer", text=own) if pre is None or written is None
            else TextPiece("answer", "answer", text=written, pre=pre.model, own=own)
        )  # fmt: skip
    return (*found, *_steps(record, lang, pre), *_objects(record, pre))


def _answered_by_options(record: Record) -> bool:
    """Whether the answer is not a separate text: equal to the correct option, or empty."""
    correct = next((o.text for o in record.options if o.letter == record.letter), None)
    return correct is not None and record.answer in (correct, BilingualText())


def _steps(record: Record, lang: Lang, pre: DraftAnnotation | None) -> list[TextPiece]:
    own = [(s.name.get(lang), in_language(s.question, lang), in_language(s.answer, lang)) for s in record.steps]
    if pre is None or pre.steps is None:
        return [TextPiece(f"step.{i}", "step", *words) for i, words in enumerate(own, 1)]
    return [
        TextPiece(f"step.{i}", "step", *words, pre=pre.model, own=own[i - 1][2] if i <= len(own) else "")
        for i, words in enumerate(pre.steps, 1)
    ]


def _objects(record: Record, pre: DraftAnnotation | None) -> list[TextPiece]:
    if listed(record) != "object":
        return []
    own = [object_words(row) for row in record.meta[OBJECTS]]
    if pre is None or pre.objects is None:
        return [TextPiece(f"object.{i}", "object", name, text=text) for i, (name, text) in enumerate(own, 1)]
    return [
        TextPiece(f"object.{i}", "object", name, text=text, pre=pre.model)
        for i, (name, text) in enumerate(pre.objects, 1)
    ]


def object_words(row: Any) -> tuple[str, str]:
    """(category, text) of a row of meta["objects"], of whatever type it is."""
    if not isinstance(row, Mapping):
        return "", str(row)
    return str(row.get("category", "")), str(row.get("text", ""))
