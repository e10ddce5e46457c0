"""The reviewable texts of a record (CODA-LM's text boxes, AD2-Bench's atomic steps), and their state for one reviewer.

A piece is one text: the question, the answer, an option, a step of a chain of thought, an object of a scene. If a model
wrote it, `pre` names the model and `own` keeps the text of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from lmms_eval_ad2.core.records import BilingualText, Lang, Record, Unparsed, VisualPrompt
from lmms_eval_ad2.parsing import parse

Kind = Literal["question", "answer", "option", "step", "object"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Verdict = Literal["keep", "change", "delete", "add"]
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
    correct = next((o.text for o in record.options if o.letter == record.letter), None)
    in_options = correct is not None and record.answer in (correct, BilingualText())  # then the answer is no own text
    if not in_options and record.form != "chain":
        own = in_language(record.answer, lang)
        written = pre.answer if pre else None
        found.append(
            TextPiece("answer", "answer", text=own) if pre is None or written is None
            else TextPiece("answer", "answer", text=written, pre=pre.model, own=own)
        )  # fmt: skip
    return (*found, *_steps(record, lang, pre), *_objects(record, pre))


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


_TYPED = {
    "count": "a whole number", "point": "<x,y> in pixels", "box": "[x_min, y_min, x_max, y_max] in pixels",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PieceReview:
    """A piece before (`base`) and after review (`now`), with verdict and score. `score` rates the text of `base`."""

    base: TextPiece
    now: TextPiece
    verdict: Verdict | None = None
    score: int | None = None

    @property
    def deleted(self) -> bool:
        return self.verdict == "delete"


@dataclass(frozen=True, slots=True)
class RecordReview:
    """The review of a record. `complete`: None until the reviewer has chosen. `open`: what is missing to finish it."""

    record: Record
    lang: Lang
    lines: tuple[PieceReview, ...]
    mark: VisualPrompt
    letter: str
    complete: bool | None
    note: str
    pre: str
    listed: Kind | None
    open: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        return not self.open

    @property
    def drawn(self) -> Record:
        """The record with the reviewer's boxes and points, for drawing."""
        return replace(self.record, mark=self.mark)

    def line(self, key: str) -> PieceReview | None:
        """The review of the piece `key`; None if there is no such piece."""
        return next((line for line in self.lines if line.base.key == key), None)


def make_review(record: Record, lang: Lang, pre: DraftAnnotation | None, fields: Mapping[str, Any]) -> RecordReview:
    """Build the review from a record, its draft (`pre`) and the reviewer's last values by field (ReviewLog.fields)."""
    base = list(pieces_of(record, lang, pre))
    known = {piece.key for piece in base}
    kind = listed(record)
    base += [
        TextPiece(key, kind) for key, value in fields.items()
        if kind and key not in known and key.startswith(f"{kind}.") and isinstance(value, Mapping)
    ]  # fmt: skip
    lines = [_line(piece, fields) for piece in base]
    lines = [line for line in lines if not (line.deleted and line.base.key not in known)]  # added, then removed
    mark = fields.get("mark")
    review = RecordReview(
        record=record,
        lang=lang,
        lines=tuple(_ordered(lines, fields.get("order"))),
        mark=record.mark
        if mark is None
        else VisualPrompt(mark["kind"], tuple(map(tuple, mark["coords"])), record.mark.text),
        letter=fields.get("letter") or record.letter,
        complete=fields.get("complete"),
        note=fields.get("note") or "",
        pre=pre.model if pre else "",
        listed=kind,
    )
    return replace(review, open=tuple(_open(review)))


def _line(piece: TextPiece, fields: Mapping[str, Any]) -> PieceReview:
    value, score = fields.get(piece.key), fields.get(f"score/{piece.key}")
    if value is None:
        return PieceReview(piece, piece, None, score)
    verdict = value["verdict"]
    now = replace(piece, name=value["name"], question=value["question"], text=value["text"])
    if verdict == "keep":  # valid for the text it was given for only, not for a later draft
        return PieceReview(piece, piece, "keep" if now.words == piece.words else None, score)
    return PieceReview(piece, now, verdict, score)


def _ordered(lines: list[PieceReview], order: list[str] | None) -> list[PieceReview]:
    """Sort by kind, then by `order`; keys missing in `order` follow in their present order."""
    place = {key: i for i, key in enumerate(order or ())}
    return sorted(lines, key=lambda line: (KINDS.index(line.base.kind), place.get(line.base.key, len(place))))


def _open(review: RecordReview) -> list[str]:
    found = []
    for line in review.lines:
        if (fault := _line_open(line, review)) is not None:
            found.append(f"{title(line)}: {fault}")
    if review.listed == "step" and all(line.deleted for line in review.lines if line.base.kind == "step"):
        found.append("steps: at least one is needed")
    if review.record.options:
        correct = review.line(f"option.{review.letter}")
        if correct is None or correct.deleted:
            found.append("options: the correct one is deleted; choose another, or mark the record incomplete")
    if review.complete is None:
        found.append("complete or incomplete?")
    elif not review.complete:
        return []  # left out of the export: nothing else has to be fixed
    return found


def _line_open(line: PieceReview, review: RecordReview) -> str | None:
    if line.deleted:
        return None
    if line.verdict is None:
        return None if line.base.kind == "question" else "keep, change or delete?"
    if line.verdict == "change" and line.now.words == line.base.words:
        return "marked as changed, but not changed yet"
    if not line.now.text.strip():
        return "there is no text"
    if line.base.kind == "step" and not (line.now.name.strip() and line.now.question.strip()):
        return "a step needs a name and a question"
    if line.base.kind == "object" and not line.now.name.strip():
        return "an object needs a category"
    record = review.record
    expected = " or ".join(record.words) if record.form == "yesno" else _TYPED.get(record.form)
    if line.base.kind != "answer" or expected is None:
        return None
    read = parse(line.now.text, record.form, image_size=record.image_size, words=record.words)
    return f"expected {expected}" if isinstance(read, Unparsed) else None


def title(line: PieceReview) -> str:
    """The name of a piece on the page and in messages: "answer", "option B · distractor", "step traffic rules"."""
    return f"{line.base.kind} {line.now.name}".strip()
