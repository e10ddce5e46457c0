"""One record as one reviewer has it before them: its pieces with verdicts, and what is still open."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.annotate.actions import Verdict
from lmms_eval_ad2.annotate.text_pieces import KINDS, DraftAnnotation, Kind, TextPiece, listed, pieces_of
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Lang, Record, Unparsed, VisualPrompt

_TYPED = {
    "yesno": "yes or no", "count": "a whole number", "point": "<x,y> in pixels",
    "box": "[x_min, y_min, x_max, y_max] in pixels",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PieceReview:
    """A piece as it was (`base`), as it is now, and what the reviewer said of it. `score`: of the text as it was."""

    base: TextPiece
    now: TextPiece
    verdict: Verdict | None = None
    score: int | None = None

    @property
    def gone(self) -> bool:
        return self.verdict == "delete"


@dataclass(frozen=True, slots=True)
class RecordReview:
    """`complete`: None until the reviewer has said it. `open`: what has to be said or mended before it is finished."""

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
        """The record with the reviewer's boxes and points, to draw."""
        return dataclasses.replace(self.record, mark=self.mark)

    def line(self, key: str) -> PieceReview | None:
        """The line of this piece."""
        return next((line for line in self.lines if line.base.key == key), None)


def make_review(record: Record, lang: Lang, pre: DraftAnnotation | None, fields: Mapping[str, Any]) -> RecordReview:
    """The record, a model's texts about it, and a reviewer's last values by field (store.Actions.fields)."""
    base = list(pieces_of(record, lang, pre))
    known = {piece.key for piece in base}
    kind = listed(record)
    base += [
        TextPiece(key, kind) for key, value in fields.items()
        if kind and key not in known and key.startswith(f"{kind}.") and isinstance(value, Mapping)
    ]  # fmt: skip
    lines = [_line(piece, fields) for piece in base]
    lines = [line for line in lines if not (line.gone and line.base.key not in known)]  # added, and taken back
    mark = fields.get("mark")
    review = RecordReview(
        record,
        lang,
        tuple(_ordered(lines, fields.get("order"))),
        record.mark
        if mark is None
        else VisualPrompt(mark["kind"], tuple(map(tuple, mark["coords"])), record.mark.text),
        fields.get("letter") or record.letter,
        fields.get("complete"),
        fields.get("note") or "",
        pre.model if pre else "",
        kind,
    )
    return dataclasses.replace(review, open=tuple(_open(review)))


def _line(piece: TextPiece, fields: Mapping[str, Any]) -> PieceReview:
    value, score = fields.get(piece.key), fields.get(f"score/{piece.key}")
    if value is None:
        return PieceReview(piece, piece, None, score)
    verdict = value["verdict"]
    now = dataclasses.replace(piece, name=value["name"], question=value["question"], text=value["text"])
    if verdict == "keep":  # of the text that stood there then: of another one nobody has said anything
        return PieceReview(piece, piece, "keep" if now.words == piece.words else None, score)
    return PieceReview(piece, now, verdict, score)


def _ordered(lines: list[PieceReview], order: list[str] | None) -> list[PieceReview]:
    """Kinds one after the other; within them as `order` says, what it does not name in its own order at the end."""
    place = {key: i for i, key in enumerate(order or ())}
    return sorted(lines, key=lambda line: (KINDS.index(line.base.kind), place.get(line.base.key, len(place))))


def _open(review: RecordReview) -> list[str]:
    found = []
    for line in review.lines:
        if (what := _line_open(line, review)) is not None:
            found.append(f"{title(line)}: {what}")
    if review.listed == "step" and all(line.gone for line in review.lines if line.base.kind == "step"):
        found.append("steps: at least one is needed")
    if review.record.options:
        correct = review.line(f"option.{review.letter}")
        if correct is None or correct.gone:
            found.append("options: the correct one is deleted; name another, or mark the record incomplete")
    if review.complete is None:
        found.append("complete or incomplete?")
    elif not review.complete:
        return []  # left out of the export: nothing else has to be mended
    return found


def _line_open(line: PieceReview, review: RecordReview) -> str | None:
    if line.gone:
        return None
    if line.verdict is None:
        return None if line.base.kind == "question" else "keep, change or delete?"
    if line.verdict == "change" and line.now.words == line.base.words:
        return "to be changed, and not changed yet"
    if not line.now.text.strip():
        return "there is no text"
    if line.base.kind == "step" and not (line.now.name.strip() and line.now.question.strip()):
        return "a step needs a name and a question"
    if line.base.kind == "object" and not line.now.name.strip():
        return "an object needs a category"
    form = review.record.form
    if line.base.kind == "answer" and form in _TYPED and isinstance(
        parse(line.now.text, form, image_size=review.record.image_size), Unparsed
    ):  # fmt: skip
        return f"expected {_TYPED[form]}"
    return None


def title(line: PieceReview) -> str:
    """What the page and messages call a piece: "answer", "option B · distractor", "step traffic rules"."""
    return f"{line.base.kind} {line.now.name}".strip()
