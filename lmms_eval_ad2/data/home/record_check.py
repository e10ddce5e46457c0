"""Conditions that every stored record satisfies, for all readers; the other packages rely on them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from lmms_eval_ad2.core.records import ABSTAINING, FORMS, MARKS, Record, VisualPrompt
from lmms_eval_ad2.data.releases.untrusted_row import LARGEST_SIDE, LONGEST_TEXT, MOST_PARTS
from lmms_eval_ad2.storage.image_files import path_fault

# Key of `meta`, set by readers of releases without answers: the record can be asked but not scored.
UNANSWERED = "unanswered"

_NUMBER = r"-?\d+(?:\.\d+)?"
_TYPED: dict[str, tuple[re.Pattern[str], str]] = {
    "yesno": (re.compile(r"yes|no|left|right"), "'yes' or 'no' ('left' or 'right' if the question asks for a side)"),
    "count": (re.compile(r"\d+"), "a whole number"),
    "point": (re.compile(rf"<{_NUMBER},{_NUMBER}>"), "'<x,y>' in pixels"),
    "box": (re.compile(rf"\[{_NUMBER}(?:, {_NUMBER}){{3}}\]"), "'[x1, y1, x2, y2]' in pixels"),
}
_MARK_LENGTH = {"point": 2, "box": 4}
LONGEST_NAME = 500  # characters of an id, task, view ...
LONGEST_RECORD = 1 << 20  # characters of a record as JSON, with its meta
MOST_MARKS = 1000

Fault = tuple[str, str, Any]


def record_fault(record: Record) -> Fault | None:
    """The first violated condition of a record, as (field, expected, found), or None."""
    for check in _CHECKS:
        for fault in check(record):
            return fault
    return None


def _names(record: Record) -> Iterator[Fault]:
    for name in ("id", "benchmark", "task", "subtask"):
        value = getattr(record, name)
        if not isinstance(value, str) or not value.strip():
            yield name, "a non-empty string", value
    for name, value in (("cluster", record.cluster), *(("views", view) for view in record.views)):
        if not isinstance(value, str):
            yield name, "a string", value
    if record.form not in FORMS:
        yield "form", f"one of {', '.join(FORMS)}", record.form
    if not record.question and record.form != "chain":
        yield "question", "a question in at least one language", ""


def _lengths(record: Record) -> Iterator[Fault]:
    """Bounds, so that no text of a release is a burden for everything that reads records."""
    names = [(name, getattr(record, name)) for name in ("id", "benchmark", "task", "subtask", "cluster")]
    names += [("views", view) for view in record.views]
    names += [("steps", name) for step in record.steps for name in (step.name.en, step.name.zh)]
    for name, value in names:
        if isinstance(value, str) and len(value) > LONGEST_NAME:
            yield name, f"at most {LONGEST_NAME:,} characters", f"{len(value):,}"
    texts = [("question", record.question), ("answer", record.answer)]
    texts += [("options", option.text) for option in record.options]
    texts += [("steps", text) for step in record.steps for text in (step.question, step.answer)]
    for name, text in texts:
        if (length := max(len(text.en), len(text.zh))) > LONGEST_TEXT:
            yield name, f"at most {LONGEST_TEXT:,} characters", f"{length:,}"
    for name in ("images", "options", "steps"):
        if (number := len(getattr(record, name))) > MOST_PARTS:
            yield name, f"at most {MOST_PARTS}", number


def _images(record: Record) -> Iterator[Fault]:
    if not record.images:
        yield "images", "at least one image", []
    for path in record.images:
        if fault := path_fault(path):
            yield "images", fault, path
    if record.views and len(record.views) != len(record.images):
        yield "views", f"one name per image ({len(record.images)})", list(record.views)
    size = record.image_size
    if size is not None and not (len(size) == 2 and all(0 < side <= LARGEST_SIDE for side in size)):
        yield "image_size", f"[width, height] in pixels, 1 to {LARGEST_SIDE:,}", size


def _options(record: Record) -> Iterator[Fault]:
    letters = [option.letter for option in record.options]
    if len(set(letters)) != len(letters) or not all(len(x) == 1 and "A" <= x <= "Z" for x in letters):
        yield "options", "different letters A to Z", letters
    if any(not option.text for option in record.options):
        yield "options", "a text for every letter", letters
    if len(letters) < 2 and (record.form == "mc" or letters):
        yield "options", "at least two options", letters
    if record.letter and record.letter not in letters:
        yield "letter", f"one of the options' letters {letters}", record.letter
    if letters and not record.letter and not record.meta.get(UNANSWERED):
        yield "letter", "the letter of the correct option", record.letter
    right = record.right_option
    if record.form == "vqa" and right is not None and right.kind in ABSTAINING and record.answer == right.text:
        yield "answer", f"an answer to the open question, which option {right.letter} is not", record.answer.get("en")


def _answer(record: Record) -> Iterator[Fault]:
    if record.meta.get(UNANSWERED):
        return
    if record.form in _TYPED:
        pattern, expected = _TYPED[record.form]
        if not pattern.fullmatch(record.answer.en):
            yield "answer", expected, record.answer.en
    elif record.form in ("vqa", "ocr") and not record.answer:
        yield "answer", "a reference answer in at least one language", ""
    if record.form == "chain" and not record.steps:
        yield "steps", "at least one step", []


def _marks(record: Record) -> Iterator[Fault]:
    yield from _mark("mark", record.mark)
    for number, step in enumerate(record.steps):
        yield from _mark(f"steps[{number}].mark", step.mark or VisualPrompt())


def _mark(field: str, mark: VisualPrompt) -> Iterator[Fault]:
    if mark.kind not in MARKS:
        yield field, f"one of {', '.join(MARKS)}", mark.kind
    if len(mark.coords) > MOST_MARKS:
        yield field, f"at most {MOST_MARKS:,} points or boxes", len(mark.coords)
    if (number := max(len(mark.text.en), len(mark.text.zh))) > LONGEST_TEXT:
        yield field, f"at most {LONGEST_TEXT:,} characters", f"{number:,}"
    length = _MARK_LENGTH.get(mark.kind)
    if length and not mark.coords:
        yield field, f"coordinates for a {mark.kind}", []
    for coords in mark.coords:
        if len(coords) != length or not all(math.isfinite(value) for value in coords):
            yield field, f"{length or 'no'} finite numbers for '{mark.kind}'", coords
        elif length == 4 and not (coords[0] < coords[2] and coords[1] < coords[3]):
            yield field, "a box with x_min < x_max and y_min < y_max", coords


_CHECKS: tuple[Callable[[Record], Iterator[Fault]], ...] = (_names, _lengths, _images, _options, _answer, _marks)
