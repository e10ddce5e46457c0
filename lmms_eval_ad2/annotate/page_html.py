"""CSS and plain HTML parts of the annotation page. All text in the HTML is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.question_check import QuestionCheck
from lmms_eval_ad2.annotate.record_images import data_url, rendered
from lmms_eval_ad2.annotate.record_review import PieceReview, RecordReview, title
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import visible
from lmms_eval_ad2.core.records import VisualPrompt

DRAG = Path(__file__).with_name("drag.js")
DRAWING_HINT = '<p class="hint">drag: a new box · Shift and click: a new point · click: full size</p>'
LISTED = 2  # open points listed in the status line, to keep it short
CHECK_MEANINGS = {
    "correct": "the marked option is right, and no other",
    "ambiguous": "another option can be called right as well, or the question is unclear",
    "wrong": "the marked option is not right",
}
VERDICTS = {None: "open", "keep": "kept", "change": "changed", "delete": "deleted", "add": "added"}


def progress(done: int, total: int, number: int) -> str:
    """The progress of this reviewer."""
    share = 100 * done / total if total else 0
    return (
        f'<div class="progress"><b>{number + 1} / {total}</b><span>{done} finished, {total - done} to do</span>'
        f'<span class="bar" role="progressbar" aria-valuenow="{share:.0f}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-label="finished"><i style="width:{share:.2f}%"></i></span></div>'
    )


def escape(text: str) -> str:
    """Escape text for HTML, attributes included; control and bidirectional characters become visible."""
    return html.escape(visible(text))


def picture(review: RecordReview | QuestionCheck, root: Path) -> str:
    """The images with the reviewer's marks; a click toggles full size. An unreadable image is replaced by the error.

    Marks refer to the first image and can be drawn on it with the mouse (drag.js), but not on a mosaic of cameras, and
    not in the check of a question.
    """
    try:
        images = rendered(review.drawn, root)
    except Ad2Error as exc:
        return f'<div class="status bad">{escape(str(exc))}</div>'
    name = escape(", ".join(review.record.images))
    drawable = isinstance(review, RecordReview) and len(images) == len(review.record.images)  # fewer: a mosaic
    return "".join(_framed(image, name, drawable=drawable and place == 0) for place, image in enumerate(images))


def _framed(image: Any, name: str, drawable: bool) -> str:
    size = f" data-width={image.width} data-height={image.height}" if drawable else ""
    return (
        f'<div class="picture"><label title="click: full size"><input type="checkbox" aria-label="full size">'
        f'<img src="{data_url(image)}" alt="{name}"{size}></label></div>{DRAWING_HINT if drawable else ""}'
    )


def facts(review: RecordReview | QuestionCheck) -> str:
    """The question and the metadata of the record."""
    record = review.record
    known: list[tuple[str, Any]] = [("record", record.id), ("task", f"{record.benchmark} · {record.task}"),
                                    ("subtask", record.subtask if record.subtask != record.task else "")]  # fmt: skip
    known += [(key, record.scene.get(key)) for key in ("weather", "severity")]
    known += [("category", record.meta.get("category_name")), ("drafted by", getattr(review, "pre", ""))]
    details = " · ".join(f"{escape(name)} <b>{escape(str(value))}</b>" for name, value in known if value)
    question = escape(record.question.get(review.lang))
    return f'<div class="facts"><p class="question">{question}</p><p>{details}</p></div>'


def head(line: PieceReview, number: int = 0) -> str:
    """A piece's title and state; `number`: its position among the steps or objects, from 1; 0 for others."""
    verdict = VERDICTS[line.verdict]
    name = f"{line.base.kind} {number}" if number else title(line)
    badges = f'<span class="badge {verdict}">{verdict}</span>'
    if line.base.pre:
        badges += f'<span class="badge pre">drafted by {escape(line.base.pre)}</span>'
    return f'<div class="head"><b>{escape(name)}</b>{badges}</div>'


def own(line: PieceReview) -> str:
    """The text of the data that a draft replaces."""
    return f'<div class="own">in the data: {escape(line.base.own)}</div>'


def status(review: RecordReview | QuestionCheck) -> str:
    """The open points, or that the record is finished."""
    if review.finished:
        left_out = isinstance(review, RecordReview) and not review.complete
        text = "Finished as incomplete: it is left out of the export." if left_out else "Finished."
        return f'<div class="status done" role="status">{text} All saved.</div>'
    first = [*review.open[:LISTED], *([f"and {more} more"] if (more := len(review.open) - LISTED) > 0 else [])]
    rows = "".join(f"<li>{escape(text)}</li>" for text in first)
    return f'<div class="status" role="status">All saved. Still open:<ul>{rows}</ul></div>'


def option_text(check: QuestionCheck, letter: str) -> str:
    """Letter and text of an option, as plain text."""
    return next(visible(f"{letter}. {o.text.get(check.lang)}") for o in check.record.options if o.letter == letter)


def marked_answer(check: QuestionCheck) -> str:
    """The option that is marked as correct, after the reviewer has chosen one."""
    own = "You chose it." if check.solved else f"You chose {escape(check.choice)}."
    return (
        f'<div class="status">Marked as correct: <b>{escape(option_text(check, check.record.letter))}</b> {own}</div>'
    )


def error_message(text: str) -> str:
    """An error message."""
    return f'<div class="status bad" role="alert">{escape(text)}</div>'


def marks_text(mark: VisualPrompt) -> str:
    """One box or point per line, in pixels."""
    return "\n".join(" ".join(f"{v:g}" for v in c) for c in mark.coords)


def read_marks(text: str) -> dict[str, Any]:
    """Parse the text of `marks_text` into the value of a mark action; raises Ad2Error."""
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words: Sequence[str] = line.replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) not in (2, 4):
            raise Ad2Error(f"boxes, line {number}: expected x_min y_min x_max y_max, or x y for a point: '{line[:60]}'")
        rows.append(values)
    if len({len(row) for row in rows}) > 1:
        raise Ad2Error("boxes: either boxes (4 numbers) or points (2 numbers) in one record")
    kind = "none" if not rows else "box" if len(rows[0]) == 4 else "point"
    return {"kind": kind, "coords": rows}
