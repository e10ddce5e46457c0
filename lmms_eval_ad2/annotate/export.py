"""Export of an annotation folder to a file of Records, one per line.

Unfinished, incomplete and deleted records are left out and counted. A changed text is exported in the folder's language
only, since its translation no longer matches. Provenance is written to meta["annotation"]: reviewers, counts of kept,
changed, deleted and added texts, the drafting model, the scores.
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
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Answer, AnswerOption, BilingualText, Lang, ReasoningStep, Record
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.storage.files import atomic_write

_PAST = {"keep": "kept", "change": "changed", "delete": "deleted", "add": "added"}


@dataclasses.dataclass(slots=True)
class ExportCounts:
    """The number of exported records, and of those left out by reason code."""

    n: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)


def export(
    project: AnnotationProject, out: Path, *, reviewer: str | None = None, merged: str | None = None
) -> ExportCounts:
    """Write the records of one reviewer, or of all by majority, to `out` (atomically).

    Raises Ad2Error for an unknown reviewer, and if several reviewers worked but neither option is given.
    """
    names = project.actions.reviewers()
    if reviewer is not None and reviewer not in names:
        raise Ad2Error(f"reviewer '{reviewer}' has done nothing here; reviewers: {', '.join(names) or 'none yet'}")
    if reviewer is None and len(names) > 1 and merged is None:
        raise Ad2Error(f"several reviewers worked here ({', '.join(names)}): --reviewer NAME or --merge majority")
    done = ExportCounts()
    with atomic_write(out) as handle:
        for record in _records(project, [reviewer] if reviewer else names, done.left_out):
            handle.write(record.to_json() + "\n")
            done.n += 1
    return done


def _records(project: AnnotationProject, reviewers: list[str], left_out: Counter[str]) -> Iterator[Record]:
    for number, name in enumerate(project.folder.ids):
        active = [r for r in reviewers if project.actions.fields(r, name)]
        reviews = {r: project.review(r, number) for r in active}
        finished = {r: s for r, s in reviews.items() if s.finished}
        if not finished:
            left_out["unfinished" if reviews else "not begun"] += 1
            continue
        found = annotated(finished)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            yield found


def annotated(reviews: Mapping[str, RecordReview]) -> Record | str:
    """Return the record that results from these finished reviews, or a reason code if there is none."""
    review = merge.majority(list(reviews.values()))
    if isinstance(review, str):
        return review
    if not review.complete:
        return "incomplete"
    if review.open:
        return "unfinished when merged"
    lines = {line.base.key: line for line in review.lines}
    if any(lines[key].deleted for key in ("question", "answer") if key in lines):
        return "deleted"
    made = _options(review)
    if made is None:
        return "too few options"
    options, letter = made
    record = review.record
    question = _text(record.question, lines["question"], review.lang) if "question" in lines else record.question
    meta = {**record.meta, "annotation": _provenance(reviews, review)}
    if review.listed == "object":
        rows = (line.now for line in review.lines if line.base.kind == "object" and not line.deleted)
        meta[OBJECTS] = [{"category": now.name, "text": now.text} for now in rows]
    return dataclasses.replace(
        record, question=question, answer=_answer(review, options, letter), options=options, letter=letter,
        steps=tuple(_steps(review)), mark=review.mark, meta=meta,
    )  # fmt: skip


def _text(own: BilingualText, line: PieceReview, lang: Lang) -> BilingualText:
    """The current text; with its other language only if it is unchanged."""
    original = getattr(own, lang)
    return own if line.now.text == original and not line.base.pre else BilingualText(**{lang: line.now.text})


def _answer(review: RecordReview, options: tuple[AnswerOption, ...], letter: str) -> BilingualText:
    line = review.line("answer")
    if line is None:
        if review.record.form == "chain":
            last = list(_steps(review))[-1:]
            return review.record.answer if not last or _ends_unchanged(review) else last[0].answer
        return next((o.text for o in options if o.letter == letter), review.record.answer)
    text = _text(review.record.answer, line, review.lang)
    if review.record.form in ("yesno", "count", "point", "box"):
        found = parse(
            text.get(review.lang), review.record.form, image_size=review.record.image_size, words=review.record.words
        )
        if isinstance(found, Answer):
            return BilingualText(en=canonical(found.value, review.record.form))
    return text


def _ends_unchanged(review: RecordReview) -> bool:
    """Whether the last step is unchanged, so that the answer of the record still applies."""
    last = [line for line in review.lines if line.base.kind == "step" and not line.deleted][-1]
    return bool(review.record.answer) and last.verdict == "keep" and not last.base.pre


def _options(review: RecordReview) -> tuple[tuple[AnswerOption, ...], str] | None:
    """The remaining options, lettered A, B, ... again, and the correct letter; None if fewer than two remain."""
    if not review.record.options:
        return (), review.record.letter
    found: list[AnswerOption] = []
    letter = ""
    for option in review.record.options:
        line = review.line(f"option.{option.letter}")
        if line is None or line.deleted:
            continue
        name = chr(ord("A") + len(found))
        letter = name if option.letter == review.letter else letter
        kind = "correct" if option.letter == review.letter else _wrong_kind(option.kind)
        found.append(AnswerOption(name, _text(option.text, line, review.lang), kind))
    return (tuple(found), letter) if len(found) > 1 and letter else None


def _wrong_kind(kind: str) -> str:
    return "distractor" if kind == "correct" else kind


def _steps(review: RecordReview) -> Iterator[ReasoningStep]:
    if review.listed != "step":
        yield from review.record.steps
        return
    own = {f"step.{i}": step for i, step in enumerate(review.record.steps, 1)}
    for line in review.lines:
        if line.base.kind != "step" or line.deleted:
            continue
        step = own.get(line.base.key)
        if step is None:
            lang = review.lang
            yield ReasoningStep(
                BilingualText(**{lang: line.now.name}),
                BilingualText(**{lang: line.now.question}),
                BilingualText(**{lang: line.now.text}),
            )
            continue
        asked = step.question if line.now.question == getattr(step.question, review.lang) else None
        yield ReasoningStep(
            step.name if line.now.name == step.name.get(review.lang) else BilingualText(**{review.lang: line.now.name}),
            asked or BilingualText(**{review.lang: line.now.question}),
            _text(step.answer, line, review.lang),
            step.subtask_id,
            step.mark,
        )


def _provenance(reviews: Mapping[str, RecordReview], merged: RecordReview) -> dict[str, Any]:
    counts = Counter(_PAST[line.verdict] for line in merged.lines if line.verdict)
    found: dict[str, Any] = {"reviewers": sorted(reviews), **{name: counts[name] for name in _PAST.values()}}
    if merged.pre:
        found["pre"] = merged.pre
    scores = {
        reviewer: {line.base.key: line.score for line in review.lines if line.score is not None}
        for reviewer, review in sorted(reviews.items())
    }
    if any(scores.values()):
        found["scores"] = {reviewer: values for reviewer, values in scores.items() if values}
    if notes := {reviewer: review.note for reviewer, review in sorted(reviews.items()) if review.note}:
        found["notes"] = notes
    return found
