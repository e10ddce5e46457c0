"""The state of one record for one reviewer: its text pieces with verdicts, and the open points."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.annotate.actions import Verdict
from lmms_eval_ad2.annotate.text_pieces import KINDS, DraftAnnotation, Kind, TextPiece, listed, pieces_of
from lmms_eval_ad2.core.records import Lang, Record, Unparsed, VisualPrompt
from lmms_eval_ad2.parsing import parse

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
        return dataclasses.replace(self.record, mark=self.mark)

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
    return dataclasses.replace(review, open=tuple(_open(review)))


def _line(piece: TextPiece, fields: Mapping[str, Any]) -> PieceReview:
    value, score = fields.get(piece.key), fields.get(f"score/{piece.key}")
    if value is None:
        return PieceReview(piece, piece, None, score)
    verdict = value["verdict"]
    now = dataclasses.replace(piece, name=value["name"], question=value["question"], text=value["text"])
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
