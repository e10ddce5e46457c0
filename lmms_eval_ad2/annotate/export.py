"""Export of an annotation folder to a file of Records, one per line; several reviews of one are merged by majority.

Unfinished, incomplete and deleted records are left out and counted. A changed text is exported in the folder's language
only, since its translation no longer matches. Provenance is written to meta["annotation"]: reviewers, counts of kept,
changed, deleted and added texts, the drafting model, the scores.

Verdict of a text: that of more than half of the reviewers. Of several changed texts, the one most similar to the others
is taken (largest sum of similarities; ties go to the first reviewer). Boxes, correct letter, completeness and the order
of steps: the value that more than half share. Added steps and objects: kept if more than half added a similar one.
Without a majority the result is a reason code, never a guess.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lmms_eval_ad2.annotate.drafts import canonical
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import OBJECTS, PieceReview, RecordReview
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Answer, AnswerOption, BilingualText, Lang, ReasoningStep, Record
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.storage.files import atomic_write

ALIKE = 0.8  # similarity from which two added texts count as the same
T = TypeVar("T", bound=Hashable)


def similarity(a: str, b: str) -> float:
    """1 - (insertions + deletions) / (len(a) + len(b)), in 0..1."""
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(a, b))


def majority(reviews: Sequence[RecordReview]) -> RecordReview | str:
    """Return the merged review, or a code for the disagreement. A single review is returned unchanged."""
    if len(reviews) == 1:
        return reviews[0]
    first = reviews[0]
    complete = _majority_value(s.complete for s in reviews)
    if complete is None:
        return "disagree: complete"
    if not complete:
        return dataclasses.replace(first, complete=False)
    mark, letter = _majority_value(s.mark for s in reviews), _majority_value(s.letter for s in reviews)
    if mark is None or letter is None:
        return "disagree: boxes" if mark is None else "disagree: letter"
    whole = [s for s in reviews if s.complete]
    lines: list[PieceReview] = []
    # The keys of the original pieces, in the order of the majority, else of the first review.
    orders = [tuple(line.base.key for line in s.lines if line.verdict != "add") for s in whole]
    for key in _majority_value(orders) or orders[0]:
        line = _merged([found for s in whole if (found := s.line(key)) is not None], len(whole))
        if isinstance(line, str):
            return line
        lines.append(line)
    lines += _added(whole)
    return dataclasses.replace(first, complete=True, mark=mark, letter=letter, lines=tuple(lines), open=())


def _majority_value(values: Iterable[T]) -> T | None:
    """The value held by more than half; None if there is none."""
    counts = Counter(values)
    value, n = counts.most_common(1)[0]
    return value if 2 * n > counts.total() else None


def _merged(lines: Sequence[PieceReview], of: int) -> PieceReview | str:
    verdict = _majority_value(line.verdict or "keep" for line in lines)
    if verdict is None or 2 * len(lines) <= of:
        return "disagree: verdict"
    if verdict != "change":
        return next(line for line in lines if (line.verdict or "keep") == verdict)
    return _most_similar([line for line in lines if line.verdict == "change"])


def _most_similar(lines: Sequence[PieceReview]) -> PieceReview:
    texts = ["\n".join(line.now.words) for line in lines]
    return lines[max(range(len(lines)), key=lambda i: sum(similarity(texts[i], other) for other in texts))]


def _added(reviews: Sequence[RecordReview]) -> list[PieceReview]:
    """The additions shared by more than half: of each group of similar ones, the most similar member."""
    groups: list[list[tuple[int, PieceReview]]] = []
    for author, review in enumerate(reviews):
        for line in review.lines:
            if line.verdict != "add":
                continue
            alike = (
                g for g in groups
                if all(a != author for a, _ in g) and similarity(g[0][1].now.text, line.now.text) >= ALIKE
            )  # fmt: skip
            group = next(alike, None)
            if group is None:
                groups.append([(author, line)])
            else:
                group.append((author, line))
    return [_most_similar([line for _, line in g]) for g in groups if 2 * len(g) > len(reviews)]


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
    review = majority(list(reviews.values()))
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
            steps, kept = list(_steps(review)), [s for s in review.lines if s.base.kind == "step" and not s.deleted]
            # The answer of the record still applies if the last step is unchanged.
            unchanged = kept and review.record.answer and kept[-1].verdict == "keep" and not kept[-1].base.pre
            return review.record.answer if not steps or unchanged else steps[-1].answer
        return next((o.text for o in options if o.letter == letter), review.record.answer)
    text = _text(review.record.answer, line, review.lang)
    if review.record.form in ("yesno", "count", "point", "box"):
        found = parse(
            text.get(review.lang), review.record.form, image_size=review.record.image_size, words=review.record.words
        )
        if isinstance(found, Answer):
            return BilingualText(en=canonical(found.value, review.record.form))
    return text


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
        kind = "distractor" if option.kind == "correct" else option.kind
        kind = "correct" if option.letter == review.letter else kind
        found.append(AnswerOption(name, _text(option.text, line, review.lang), kind))
    return (tuple(found), letter) if len(found) > 1 and letter else None


def _steps(review: RecordReview) -> Iterator[ReasoningStep]:
    if review.listed != "step":
        yield from review.record.steps
        return
    own = {f"step.{i}": step for i, step in enumerate(review.record.steps, 1)}
    lang = review.lang
    for line in review.lines:
        if line.base.kind != "step" or line.deleted:
            continue
        name, asked = BilingualText(**{lang: line.now.name}), BilingualText(**{lang: line.now.question})
        step = own.get(line.base.key)
        if step is None:
            yield ReasoningStep(name, asked, BilingualText(**{lang: line.now.text}))
            continue
        yield ReasoningStep(
            step.name if line.now.name == step.name.get(lang) else name,
            step.question if line.now.question == getattr(step.question, lang) else asked,
            _text(step.answer, line, lang),
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
