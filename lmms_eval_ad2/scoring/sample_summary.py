"""Compact summaries of scored samples, from which task tables are computed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.records import BREAKDOWNS, Record
from lmms_eval_ad2.scoring.derived_records import REPLY, ROTATED
from lmms_eval_ad2.scoring.sample import ScoredSample, reference_text, score_columns
from lmms_eval_ad2.scoring.variant import TaskVariant

_SHARED: dict[Any, Any] = {}


def _share(value: Any) -> Any:
    """Share equal tuples to save memory: most samples of a task have the same few marks and groups."""
    if len(_SHARED) < 10_000:
        return _SHARED.setdefault(value, value)
    return _SHARED.get(value, value)


@dataclass(frozen=True, slots=True)
class OptionRotation:
    """One order of a question's options (scoring/derived_records.py).

    by, of: shift and number of options. place: position of the chosen option from 0; None if no letter was parsed.
    chosen: its position in the stored order, so that equal numbers mean equal texts.
    """

    question: str
    by: int
    of: int
    place: int | None
    chosen: int | None


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """One reply to `question`. `content`: the parsed answer as text; None if it could not be read."""

    question: str
    content: str | None

    @classmethod
    def of(cls, sample: ScoredSample) -> QuestionReply | None:
        """None for a sample of a run that asked once."""
        meta = sample.record.meta.get(REPLY)
        if not isinstance(meta, Mapping):
            return None
        read = sample.answer is not None
        content = json.dumps(sample.answer, sort_keys=True, ensure_ascii=False, default=str) if read else None
        return cls(str(meta["id"]), content)


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """The values of a sample that tables need, in a few hundred bytes.

    marks: (column, official | None, strict) as fractions. groups: (breakdown, name). scored_in: the columns whose mean
    is `score`. column_status: (column, status) where it differs from `status`.
    kind: kind of the chosen option; offered: the kinds of all wrong options.
    text: (answer, reference), only for n-gram metrics; rotation: only for circular evaluation;
    reply: only if each question was asked several times.
    repeated: (column, mark in each judgement) if a judge rated the sample several times; unread: replies of it without
    a mark, of texts that other judgements could rate.
    """

    id: str
    subtask: str
    form: str
    cluster: str
    status: str
    reason: str | None
    score: float | None
    kind: str | None
    marks: tuple[tuple[str, float | None, float], ...]
    groups: tuple[tuple[str, str], ...]
    scored_in: tuple[str, ...]
    column_status: tuple[tuple[str, str], ...] = ()
    offered: tuple[str, ...] = ()
    text: tuple[str, str] | None = None
    rotation: OptionRotation | None = None
    repeated: tuple[tuple[str, tuple[float | None, ...]], ...] = ()
    unread: int = 0
    reply: QuestionReply | None = None

    @classmethod
    def of(cls, s: ScoredSample, variant: TaskVariant) -> SampleSummary:
        text = None
        if variant.captions and s.form == "vqa" and (s.answer is not None or s.status == "unparsed"):
            # Corpus metrics cannot skip an unparsed answer: it counts as an empty one.
            answer = str(s.answer) if s.answer is not None else ""
            text = (answer, reference_text(s.record, variant.lang))
        groups = tuple((k, str(v)) for k, where in BREAKDOWNS.items() if (v := getattr(s.record, where).get(k)))
        marks = tuple((c, s.values.get(c), v) for c, v in s.strict.items())
        offered = tuple(o.kind for o in s.record.options if o.letter != s.record.letter) if s.form == "mc" else ()
        rotation = _rotation(s.record, s.answer) if variant.circular else None
        return cls(
            id=s.id,
            subtask=sys.intern(s.subtask),
            form=sys.intern(s.form),
            cluster=sys.intern(s.cluster),
            status=sys.intern(s.status),
            reason=_share(s.reason),
            score=_share(s.score),
            kind=_share(s.kind),
            marks=_share(marks),
            groups=_share(groups),
            scored_in=_share(score_columns(s)),
            column_status=_share(tuple(s.column_status.items())),
            offered=_share(offered),
            text=text,
            rotation=rotation,
            repeated=tuple((column, tuple(marks)) for column, marks in s.repeated.items()),
            reply=QuestionReply.of(s),
            unread=sum(e["scores"].count(None) for e in s.judge if "scores" in e and e["score"] is not None),
        )

    def status_in(self, columns: Sequence[str]) -> str:
        """Its status in these of its columns: that of all, or "partly" if they differ."""
        known = dict(self.column_status)
        found = {known.get(column, self.status) for column in columns} or {self.status}
        return found.pop() if len(found) == 1 else "partly"


def _rotation(record: Record, answer: Any) -> OptionRotation:
    shift = record.meta[ROTATED]
    letters = [option.letter for option in record.options]
    place = letters.index(answer) if answer in letters else None
    chosen = None if place is None else (place + shift["by"]) % shift["of"]
    return OptionRotation(str(shift["id"]), int(shift["by"]), int(shift["of"]), place, chosen)
