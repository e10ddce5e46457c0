"""Scoring of one sample: parse the answer, compare it with the reference, collect what a judge must rate.

Free text needs a judge (`pending`); all other forms are scored here. Each column has two values: `values` under the
benchmark's own rules (None: not scored, left out of the mean), `strict` with the worst score if the answer could not be
parsed or scored.

Text in the image (OCR) is scored as AD2-Bench does: the reply as given, without its thought (`wrappers.as_given`). The
scores of the text that the parser extracts from it are columns of their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.records import Answer, Form, Lang, Record, Unparsed
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.parsing import failure_reason, parse
from lmms_eval_ad2.parsing.chain import read_step_replies
from lmms_eval_ad2.parsing.wrappers import as_given
from lmms_eval_ad2.scoring.metrics import answer_metrics
from lmms_eval_ad2.scoring.score_columns import (
    CHAIN_COLUMNS,
    EXTRACTED,
    LOCATION_WIDTH,
    LOWER_IS_BETTER,
    column_of,
    mean_columns,
)
from lmms_eval_ad2.scoring.variant import TaskVariant

JUDGE_WORST = 0.1  # the judge's scale is 1..10; as a fraction, 1 is 0.1
# A reference without a usable value is a fault of the data, not of the model.
BAD_REFERENCE = "bad_reference"


@dataclass(slots=True)
class ScoredSample:
    """A row of samples/<task>.jsonl (docs/architecture.md). `pending`: the items that a judge must still rate.

    column_status: the status of columns in which it differs from the sample's.
    """

    id: str
    task: str
    benchmark: str
    part: str
    subtask: str
    column: str
    form: Form
    lang: str
    cluster: str
    raw: str | list[str]
    prompt: str
    record: Record
    status: str = "ok"
    reason: str | None = None
    answer: Any = None
    note: str = ""
    values: dict[str, float | None] = field(default_factory=dict)
    strict: dict[str, float] = field(default_factory=dict)
    column_status: dict[str, str] = field(default_factory=dict)
    score: float | None = None
    kind: str | None = None
    judge: list[dict[str, Any]] = field(default_factory=list)
    pending: list[JudgeItem] = field(default_factory=list)
    repeated: dict[str, list[float | None]] = field(default_factory=dict)  # column -> mark in each judgement
    row: int | None = None  # of the task's data, in shards only: their rows are merged in the order of the data

    def to_json(self) -> str:
        """The line of the samples file, with the record last and without `pending`.

        Raises ValueError for NaN and infinity, which JSON does not allow.
        """
        left_out = ["pending", "record", *(["row"] if self.row is None else [])]
        left_out += [name for name in ("repeated", "column_status") if not getattr(self, name)]
        own = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        head = json.dumps(own, ensure_ascii=False, allow_nan=False)
        return f'{head[:-1]}, "record": {self.record.to_json()}}}'


def score_sample(
    record: Record, raw: str | Sequence[str], variant: TaskVariant, task: str, prompt: str = "",
    resizing: InputResizing | None = None,
) -> ScoredSample:  # fmt: skip
    """Parse `raw` (a list of texts if asked in rounds) as an answer to `record`, and score it if it needs no judge.

    resizing: how the model resizes images, for the frame "model_input"; the variant's own takes precedence.
    """
    form = variant.asked_form(record)
    part = variant.part
    sample = ScoredSample(
        id=record.id, task=task, benchmark=record.benchmark, part=part, subtask=record.subtask,
        column=column_of(record.benchmark, part, record.subtask, record.subtask_id),
        form=form, lang=variant.lang, cluster=record.cluster or record.id,
        raw=raw if isinstance(raw, str) else list(raw), prompt=prompt, record=record,
    )  # fmt: skip
    failed = next((r for t in ([raw] if isinstance(raw, str) else raw) if (r := failure_reason(t))), None)
    if failed:
        return _not_scored(sample, "unscored", failed)
    read = _read(record, raw, form, variant, resizing)
    if isinstance(read, Unparsed):
        return _not_scored(sample, "unparsed", read.reason)
    sample.answer, sample.note = read.value, read.note
    _SCORERS[form](sample, record, read, variant)
    return sample


def columns_of(sample: ScoredSample) -> tuple[str, ...]:
    """The columns that a sample is part of."""
    if sample.form == "chain":
        return CHAIN_COLUMNS
    if sample.form == "ocr":
        return (sample.column, "ocr_cer", *EXTRACTED.values())
    return (sample.column,)


def score_columns(sample: ScoredSample) -> tuple[str, ...]:
    """The columns whose mean is the sample's score: its own; of a chain those of its task's mean that it has."""
    if sample.form != "chain":
        return (sample.column,)
    return tuple(c for c in mean_columns(sample.benchmark, "cot") if c in sample.strict)


def worst(sample: ScoredSample, column: str) -> float:
    """The worst score of a column: 0, the judge's lowest mark, or 1 for the character error rate (CER)."""
    if column in LOWER_IS_BETTER:
        return 1.0
    return JUDGE_WORST if sample.form in ("vqa", "chain") else 0.0


def _not_scored(sample: ScoredSample, status: str, reason: str) -> ScoredSample:
    """Unparsed is the model's fault: the worst score under both rules. Unscored is not: left out officially."""
    sample.status, sample.reason = status, reason
    for column in columns_of(sample):
        bad = worst(sample, column)
        sample.strict[column] = bad
        sample.values[column] = bad if status == "unparsed" else None
    _set_score(sample)
    return sample


def _set_score(sample: ScoredSample) -> None:
    """Set the sample's score in percent (AD2-Bench's chains: the mean of the four CoT scores, Table 3)."""
    columns = score_columns(sample)
    known = [v for c in columns if (v := sample.values.get(c)) is not None]
    sample.score = round(100 * sum(known) / len(known), 6) if known and len(known) == len(columns) else None


def set_column(sample: ScoredSample, column: str, official: float | None, strict: float) -> None:
    """Set a column's value under both rules."""
    sample.values[column] = official
    sample.strict[column] = strict
    _set_score(sample)


def _read(
    record: Record, raw: str | Sequence[str], form: Form, variant: TaskVariant, resizing: InputResizing | None
) -> Answer | Unparsed:
    if not isinstance(raw, str):
        return read_step_replies(raw)
    if form == "ocr":
        text, unfinished = as_given(raw)
        return Answer("ocr", text) if text else Unparsed("ocr", "unfinished_thought" if unfinished else "empty")
    options = {o.letter: o.text.get(variant.lang) for o in record.options}
    return parse(
        raw, form, letters=tuple(options), options=options, image_size=record.image_size, frame=variant.frame,
        model_input=input_size(record, variant, resizing), n_steps=len(record.steps),
        question=record.question.get(variant.lang), words=record.words,
    )  # fmt: skip


def input_size(record: Record, variant: TaskVariant, resizing: InputResizing | None) -> tuple[int, int] | None:
    """(width, height) of the record's image as the model sees it; None if it is not known."""
    used = (variant.resizing() if variant.model_input else None) or resizing
    return used.size_of(record.image_size) if used else None


def target_of(record: Record, form: Form, lang: Lang) -> Answer | Unparsed:
    """The reference of a record, read by the same parser as the model's answer."""
    if form == "mc":
        ok = any(o.letter == record.letter for o in record.options)
        return Answer("mc", record.letter) if ok else Unparsed("mc", BAD_REFERENCE)
    text = record.answer.get(lang)
    return parse(text, form, image_size=record.image_size, frame="pixel", n_steps=len(record.steps), words=record.words)


def _score_exact(sample: ScoredSample, record: Record, read: Answer, variant: TaskVariant) -> None:
    target = target_of(record, sample.form, variant.lang)
    if isinstance(target, Unparsed):
        _not_scored(sample, "unscored", BAD_REFERENCE)
        return
    if sample.form == "mc":
        sample.kind = next((o.kind for o in record.options if o.letter == read.value), None)
    if sample.form in ("point", "box"):
        metric: Any = answer_metrics.iou if sample.form == "box" else partial(_location_score, record)
        value = float(metric(read.value, target.value))
    else:
        value = answer_metrics.accuracy(str(read.value), str(target.value))
    set_column(sample, sample.column, value, value)


def _location_score(record: Record, point: Sequence[float], target: Sequence[float]) -> float:
    """The location score, with distances in pixels of LOCATION_WIDTH if the benchmark has one."""
    width = LOCATION_WIDTH.get(record.benchmark)
    scale = width / record.image_size[0] if width and record.image_size else 1.0
    return answer_metrics.location_score([scale * v for v in point], [scale * v for v in target])


def _score_ocr(sample: ScoredSample, record: Record, read: Answer, variant: TaskVariant) -> None:
    reference = record.answer.get(variant.lang)
    if not reference.strip():
        _not_scored(sample, "unscored", BAD_REFERENCE)
        return
    scores = answer_metrics.score_ocr(str(read.value), reference)
    set_column(sample, "ocr_cer", scores["ocr_cer"], scores["ocr_cer"])
    set_column(sample, sample.column, scores["ocr_f1"], scores["ocr_f1"])
    text = parse(str(sample.raw), "ocr", question=record.question.get(variant.lang))
    if isinstance(text, Unparsed):  # the worst score, as of every form that must be parsed
        sample.note = f"no text extracted: {text.reason}"
        sample.column_status = dict.fromkeys(EXTRACTED.values(), "unparsed")
    else:
        sample.note = f"extracted: {text.value}" if text.value != read.value else ""
        scores = answer_metrics.score_ocr(str(text.value), reference)
    for column, extracted in EXTRACTED.items():
        value = worst(sample, extracted) if isinstance(text, Unparsed) else scores[column]
        set_column(sample, extracted, value, value)


def rubric_of(benchmark: str, part: str) -> str:
    """The rubric of a task that names none: for CODA-LM one per part, else similarity to the reference."""
    return f"coda_{part}" if benchmark == "coda_lm" else "ad2_vqa"


def reference_text(record: Record, lang: Lang) -> str:
    """The free-text reference; for a multiple-choice record asked openly, the text of the correct option."""
    text = record.answer.get(lang)
    if text and text != record.letter:
        return text
    return next((o.text.get(lang) for o in record.options if o.letter == record.letter), text)


def _score_free_text(sample: ScoredSample, record: Record, read: Answer, variant: TaskVariant) -> None:
    reference = reference_text(record, variant.lang)
    if not reference:
        sample.answer = None  # no reference, so it is excluded from n-gram metrics too
        _not_scored(sample, "unscored", BAD_REFERENCE)
        return
    if not variant.judge:
        return
    rubric = variant.rubric or rubric_of(record.benchmark, sample.part)
    sample.pending = [
        JudgeItem(
            f"{sample.task}:{record.id}", rubric, str(read.value), reference, record.question.get(variant.lang),
            raw=sample.raw if isinstance(sample.raw, str) else "",
        )
    ]  # fmt: skip


def _score_chain(sample: ScoredSample, record: Record, read: Answer, variant: TaskVariant) -> None:
    """Items to rate: SACS per step, SLPS per successive pair, ORCS and DJSS per chain (AD2-Bench section 3.3)."""
    steps_given = [str(s) for s in read.value] if isinstance(read.value, tuple) else [str(read.value)]
    steps, lang = record.steps, variant.lang
    if not steps:
        _not_scored(sample, "unscored", BAD_REFERENCE)
        return
    steps_given = (steps_given + [""] * len(steps))[: len(steps)]
    sample.answer = steps_given
    base = f"{sample.task}:{record.id}"
    items = [
        JudgeItem(f"{base}:sacs:{i}", "ad2_sacs", text, step.answer.get(lang), step.question.get(lang))
        for i, (text, step) in enumerate(zip(steps_given, steps, strict=True))
    ]
    items += [
        JudgeItem(f"{base}:slps:{i}", "ad2_slps", b, steps=(a, b)) for i, (a, b) in enumerate(pairwise(steps_given))
    ]
    items.append(JudgeItem(f"{base}:orcs:0", "ad2_orcs", steps_given[-1], steps=tuple(steps_given)))
    if len(steps_given) > 1:  # a chain of one step has no steps before its decision
        items.append(JudgeItem(f"{base}:djss:0", "ad2_djss", steps_given[-1], steps=tuple(steps_given[:-1])))
    sample.pending = items


_SCORERS: dict[str, Any] = {
    "mc": _score_exact, "yesno": _score_exact, "count": _score_exact, "point": _score_exact, "box": _score_exact,
    "ocr": _score_ocr, "vqa": _score_free_text, "chain": _score_chain,
}  # fmt: skip
