"""Reader of Records as JSON lines (`Record.to_json`, the export of `ad2 annotate`), as untrusted input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from lmms_eval_ad2.core.records import FORMS, AnswerOption, Form, MarkKind, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.releases.base import BenchmarkRelease, OpenedRelease
from lmms_eval_ad2.data.releases.stream import open_rows
from lmms_eval_ad2.data.releases.untrusted_row import MOST_PARTS, UntrustedRow

SCHEMA = """\
SOURCE: a file of JSON lines, one Record of this project per line, as written by `ad2 annotate export`.
Images: --images DIR (default: the folder of the file). --as NAME: name of the dataset in which tasks find them.

  id, benchmark, task, subtask    strings; a task uses the records of its own benchmark and task
  form         mc | vqa | yesno | count | point | box | ocr | chain
  images       list of paths relative to the image folder; views: name of each (optional)
  question, answer    {"en": "...", "zh": "..."}
  options, letter     [{"letter": "A", "text": text, "kind": "correct"}, ...] and the right letter (mc, both forms)
  mark         {"kind": none | text | point | box, "coords": [[...]], "text": text} in pixels (optional)
  steps        [{"name", "question", "answer", "subtask_id", "mark"}] (chain); a step's mark replaces that of the record
  text, name   "..." (English) or {"en": "...", "zh": "..."}
  image_size, subtask_id, cluster, scene, meta    optional
"""

FIELDS = tuple(Record.__dataclass_fields__)
_FORMS: dict[str, Form] = {form: form for form in FORMS}
_MARKS: dict[str, MarkKind] = {kind: kind for kind in get_args(MarkKind)}


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    return open_records(source, split, images)


def open_records(path: Path, split: str | None, images: Path | None) -> OpenedRelease:
    """Open a file of one Record per line; images are relative to `images`, else to the folder of the file."""
    return open_rows(path, split, images, read_row)


def read_row(row: UntrustedRow) -> Iterable[Record]:
    """The record of a row; raises DataError with the name of an unknown or invalid field."""
    row.only(FIELDS)
    images, views = row.image_list(), row.strings("views")
    if len(images) > MOST_PARTS:
        raise row.fail("images", f"at most {MOST_PARTS} images", len(images))
    if views and len(views) != len(images):
        raise row.fail("views", f"one name per image ({len(images)})", list(views))
    form = _FORMS[row.choice("form", FORMS, "vqa")]
    options = tuple(
        AnswerOption(inner.string("letter"), inner.text("text"), inner.string("kind", "distractor"))
        for inner in _several(row, "options")
    )
    letter = row.string("letter", "")
    if options and letter not in [option.letter for option in options]:
        raise row.fail("letter", "the letter of one of the options", letter)
    steps = tuple(map(_step, _several(row, "steps")))
    task = row.string("task", "all")
    return [
        Record(
            id=row.string("id"), benchmark=row.string("benchmark", "records"), task=task,
            subtask=row.string("subtask", task), form=form, images=images, question=row.text("question"),
            answer=row.text("answer", required=False), letter=letter, options=options,
            mark=_mark(row) or VisualPrompt(), steps=steps, views=views,
            image_size=row.size("image_size"), subtask_id=row.integer("subtask_id"),
            cluster=row.string("cluster", images[0]), scene=_mapping(row, "scene"), meta=_mapping(row, "meta"),
        )
    ]  # fmt: skip


def _several(row: UntrustedRow, field: str) -> list[UntrustedRow]:
    inners = row.inners(field)
    if len(inners) > MOST_PARTS:
        raise row.fail(field, f"at most {MOST_PARTS}", len(inners))
    return inners


def _step(row: UntrustedRow) -> ReasoningStep:
    name, question, answer = row.text("name"), row.text("question"), row.text("answer")
    return ReasoningStep(name, question, answer, row.integer("subtask_id"), _mark(row))


def _mark(row: UntrustedRow) -> VisualPrompt | None:
    """The mark of a record or step; None if it has none."""
    inner = row.inner("mark")
    if inner is None:
        return None
    kind = _MARKS[inner.choice("kind", tuple(_MARKS), "none")]
    length = 4 if kind == "box" else 2
    found = inner.listing("coords", required=False)
    coords = tuple(inner.numbers("coords", value, length) for value in found[:MOST_PARTS])
    return VisualPrompt(kind, coords, inner.text("text", required=False))


def _mapping(row: UntrustedRow, field: str) -> dict[str, Any]:
    inner = row.inner(field)
    return dict(inner.data) if inner else {}


RELEASE = BenchmarkRelease("records", "Records as JSON lines (ad2 annotate export)", SCHEMA, open_release)
