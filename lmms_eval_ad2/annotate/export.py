"""An annotation folder -> Records, one a line. What is not finished, incomplete or deleted is left out, and counted.

A text that was changed stands in the folder's language only: what another language said is no longer the same.
Provenance goes into meta["annotation"]: reviewers, counts of kept, changed, deleted and added texts, the model that
drafted, the scores.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate import merge
from lmms_eval_ad2.annotate.draft_prompts import canonical
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import PieceReview, RecordReview
from lmms_eval_ad2.annotate.text_pieces import OBJECTS
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer, AnswerOption, BilingualText, Lang, ReasoningStep, Record
from lmms_eval_ad2.storage.files import atomic_write

MERGES = ("majority",)
_PAST = {"keep": "kept", "change": "changed", "delete": "deleted", "add": "added"}


@dataclasses.dataclass(slots=True)
class ExportCounts:
    """How many records went out, and why the others did not, by a short code."""

    n: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)


def export(
    desk: AnnotationProject, out: Path, *, reviewer: str | None = None, merged: str | None = None
) -> ExportCounts:
    """Write the records of one reviewer, or of all by majority, to `out`, whole or not at all.

    Raises Ad2Error where several reviewers have worked and nobody said whose word counts.
    """
    names = desk.actions.reviewers()
    if reviewer is not None and reviewer not in names:
        raise Ad2Error(f"reviewer '{reviewer}' has done nothing here; reviewers: {', '.join(names) or 'none yet'}")
    if reviewer is None and len(names) > 1 and merged is None:
        raise Ad2Error(f"several reviewers worked here ({', '.join(names)}): --reviewer NAME or --merge majority")
    done = ExportCounts()
    with atomic_write(out) as handle:
        for record in _records(desk, [reviewer] if reviewer else names, done.left_out):
            handle.write(record.to_json() + "\n")
            done.n += 1
    return done


def _records(desk: AnnotationProject, reviewers: list[str], left_out: Counter[str]) -> Iterator[Record]:
    for number, name in enumerate(desk.folder.ids):
        at_work = [r for r in reviewers if desk.actions.fields(r, name)]
        sheets = {r: desk.sheet(r, number) for r in at_work}
        finished = {r: s for r, s in sheets.items() if s.finished}
        if not finished:
            left_out["unfinished" if sheets else "not begun"] += 1
            continue
        found = annotated(finished)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            yield found


def annotated(sheets: Mapping[str, RecordReview]) -> Record | str:
    """The record that these reviewers' finished sheets make, or a short code why there is none."""
    sheet = merge.majority(list(sheets.values()))
    if isinstance(sheet, str):
        return sheet
    if not sheet.complete:
        return "incomplete"
    if sheet.open:
        return "unfinished when merged"
    lines = {line.base.key: line for line in sheet.lines}
    if any(lines[key].gone for key in ("question", "answer") if key in lines):
        return "deleted"
    made = _options(sheet)
    if made is None:
        return "too few options"
    options, letter = made
    record = sheet.record
    question = _text(record.question, lines["question"], sheet.lang) if "question" in lines else record.question
    meta = {**record.meta, "annotation": _provenance(sheets, sheet)}
    if sheet.listed == "object":
        rows = (line.now for line in sheet.lines if line.base.kind == "object" and not line.gone)
        meta[OBJECTS] = [{"category": now.name, "text": now.text} for now in rows]
    return dataclasses.replace(
        record, question=question, answer=_answer(sheet, options, letter), options=options, letter=letter,
        steps=tuple(_steps(sheet)), mark=sheet.mark, meta=meta,
    )  # fmt: skip


def _text(own: BilingualText, line: PieceReview, lang: Lang) -> BilingualText:
    """The text as it is now; where it is still the data's, with what it says in other languages."""
    said = getattr(own, lang)
    return own if line.now.text == said and not line.base.pre else BilingualText(**{lang: line.now.text})


def _answer(sheet: RecordReview, options: tuple[AnswerOption, ...], letter: str) -> BilingualText:
    line = sheet.line("answer")
    if line is None:
        if sheet.record.form == "chain":
            last = list(_steps(sheet))[-1:]
            return sheet.record.answer if not last or _same_end(sheet) else last[0].answer
        return next((o.text for o in options if o.letter == letter), sheet.record.answer)
    text = _text(sheet.record.answer, line, sheet.lang)
    if sheet.record.form in ("yesno", "count", "point", "box"):
        found = parse(text.get(sheet.lang), sheet.record.form, image_size=sheet.record.image_size)
        if isinstance(found, Answer):
            return BilingualText(en=canonical(found.value, sheet.record.form))
    return text


def _same_end(sheet: RecordReview) -> bool:
    """Whether the chain still ends as it did, so that its own answer holds."""
    last = [line for line in sheet.lines if line.base.kind == "step" and not line.gone][-1]
    return bool(sheet.record.answer) and last.verdict == "keep" and not last.base.pre


def _options(sheet: RecordReview) -> tuple[tuple[AnswerOption, ...], str] | None:
    """Options lettered A, B, ... anew without the deleted ones, and the correct letter; None below two."""
    if not sheet.record.options:
        return (), sheet.record.letter
    found: list[AnswerOption] = []
    letter = ""
    for option in sheet.record.options:
        line = sheet.line(f"option.{option.letter}")
        if line is None or line.gone:
            continue
        name = chr(ord("A") + len(found))
        letter = name if option.letter == sheet.letter else letter
        kind = "correct" if option.letter == sheet.letter else _wrong_kind(option.kind)
        found.append(AnswerOption(name, _text(option.text, line, sheet.lang), kind))
    return (tuple(found), letter) if len(found) > 1 and letter else None


def _wrong_kind(kind: str) -> str:
    return "distractor" if kind == "correct" else kind


def _steps(sheet: RecordReview) -> Iterator[ReasoningStep]:
    if sheet.listed != "step":
        yield from sheet.record.steps
        return
    own = {f"step.{i}": step for i, step in enumerate(sheet.record.steps, 1)}
    for line in sheet.lines:
        if line.base.kind != "step" or line.gone:
            continue
        step = own.get(line.base.key)
        if step is None:
            lang = sheet.lang
            yield ReasoningStep(
                line.now.name, BilingualText(**{lang: line.now.question}), BilingualText(**{lang: line.now.text})
            )
            continue
        asked = step.question if line.now.question == getattr(step.question, sheet.lang) else None
        yield ReasoningStep(
            line.now.name,
            asked or BilingualText(**{sheet.lang: line.now.question}),
            _text(step.answer, line, sheet.lang),
            step.subtask_id,
        )


def _provenance(sheets: Mapping[str, RecordReview], merged: RecordReview) -> dict[str, Any]:
    counts = Counter(_PAST[line.verdict] for line in merged.lines if line.verdict)
    found: dict[str, Any] = {"reviewers": sorted(sheets), **{name: counts[name] for name in _PAST.values()}}
    if merged.pre:
        found["pre"] = merged.pre
    scores = {
        who: {line.base.key: line.score for line in sheet.lines if line.score is not None}
        for who, sheet in sorted(sheets.items())
    }
    if any(scores.values()):
        found["scores"] = {who: marks for who, marks in scores.items() if marks}
    if notes := {who: sheet.note for who, sheet in sorted(sheets.items()) if sheet.note}:
        found["notes"] = notes
    return found
