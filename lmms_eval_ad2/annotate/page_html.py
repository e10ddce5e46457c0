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

# No requests to other hosts, whatever Gradio's page would load; the page cannot be framed.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
DRAG = Path(__file__).with_name("drag.js")
DRAWING_HINT = '<p class="hint">drag: a new box · Shift and click: a new point · click: full size</p>'
LISTED = 2  # open points listed in the status line, to keep it short
FONTS = ("system-ui", "-apple-system", "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "sans-serif")
CHECK_MEANINGS = {
    "correct": "the marked option is right, and no other",
    "ambiguous": "another option can be called right as well, or the question is unclear",
    "wrong": "the marked option is not right",
}
VERDICTS = {None: "open", "keep": "kept", "change": "changed", "delete": "deleted", "add": "added"}

CSS = """
.gradio-container { max-width: 1760px !important; margin: 0 auto; padding: 0 !important;
  overflow: visible !important; }
.gradio-container main { padding: 8px 20px 48px !important; }
footer { display: none !important; }
.top { align-items: center; gap: 12px !important; position: sticky; top: 0; z-index: 60; padding: 4px 0;
  background: var(--body-background-fill); }
.top button { height: 44px; white-space: nowrap; }
.progress { display: flex; gap: 14px; align-items: center; flex-wrap: wrap; font-size: 14px; }
.progress b { font-size: 16px; }
#progress { flex: 2 1 200px; min-width: 200px; }
#reviewer { flex: 1 1 120px; min-width: 120px !important; }
#only-open { flex: 0 0 160px; min-width: 160px; }
#jump { flex: 0 0 90px; }
.progress .bar { flex: 1 1 120px; height: 8px; border-radius: 4px; background: var(--border-color-primary);
  overflow: hidden; }
.progress .bar i { display: block; height: 100%; background: #1f8a4c; }
.picture { overflow: auto; max-height: 70vh; border-radius: 8px; background: #14171c; line-height: 0; }
.picture label { display: block; cursor: zoom-in; }
.picture input { position: absolute; opacity: 0; }
.picture img { width: 100%; height: auto; }
.picture input:checked ~ img { width: auto; max-width: none; cursor: zoom-out; }
.picture input:focus-visible ~ img { outline: 3px solid #3b82f6; outline-offset: -3px; }
.picture img[data-width] { touch-action: pan-x pan-y; user-select: none; -webkit-user-drag: none; }
.hint { font-size: 12px; opacity: .75; margin: 3px 0 0; color: var(--body-text-color); }
.band { position: fixed; z-index: 70; border: 2px solid #e02020; background: rgb(224 32 32 / .12);
  pointer-events: none; }
.look { position: sticky; top: 100px; align-self: flex-start; }
.facts { font-size: 13px; color: var(--body-text-color); opacity: .9; overflow-wrap: anywhere; }
.facts p { margin: 6px 0 0; }
.facts .question { font-size: 16px; color: var(--body-text-color); margin: 10px 0 2px; font-weight: 600; }
.piece { border: 1px solid var(--border-color-primary); border-left: 5px solid #9aa3af !important;
  border-radius: 8px; padding: 8px 10px 10px; background: var(--block-background-fill); gap: 6px !important; }
.piece:has(.badge.kept) { border-left-color: #1f8a4c !important; }
.piece:has(.badge.changed), .piece:has(.badge.added) { border-left-color: #c27803 !important; }
.piece:has(.badge.deleted) { border-left-color: #c5303a !important; }
.piece:has(.badge.deleted) textarea { text-decoration: line-through; opacity: .55; }
.head { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; font-size: 14px; }
.head b { overflow-wrap: anywhere; }
.badge { border-radius: 10px; padding: 1px 9px; font-size: 12px; background: #e5e7eb; color: #374151; }
.badge.kept { background: #d5f2df; color: #14532d; }
.badge.changed, .badge.added { background: #fdebc8; color: #6b3a02; }
.badge.deleted { background: #fbd9db; color: #7a1620; }
.badge.pre { background: #dfe7fd; color: #273c8f; }
.own { font-size: 13px; color: var(--body-text-color); opacity: .75; overflow-wrap: anywhere; white-space: pre-wrap; }
.tools { align-items: end; gap: 8px !important; }
.verdict .wrap { gap: 6px !important; }
.small { min-width: 44px !important; max-width: 60px; }
#status { position: sticky; bottom: 8px; z-index: 50; }
.status { font-size: 14px; padding: 8px 12px; border-radius: 8px; background: #eef1f6; color: #1f2937;
  box-shadow: 0 1px 6px rgb(0 0 0 / .18); }
.status.done { background: #d5f2df; color: #14532d; }
.status.bad { background: #fbd9db; color: #7a1620; }
.status ul { margin: 4px 0 0 18px; list-style: disc; }
.dark .status { background: #252b36; color: #e5e7eb; }
.dark .status.done { background: #173d27; color: #d5f2df; }
.dark .status.bad { background: #4a1b21; color: #fbd9db; }
@media (max-width: 900px) { .gradio-container main { padding: 8px !important; } .top { position: static; }
  .split { flex-direction: column !important; } .look { position: static; }
  .split > * { min-width: 0 !important; width: 100% !important; } .picture { max-height: none; } }
"""


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
