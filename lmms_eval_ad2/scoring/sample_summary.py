"""What a table keeps of a sample: one short line, so that tens of thousands of them stay small."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.rotation import ROTATED
from lmms_eval_ad2.scoring.sample import ScoredSample, reference_text
from lmms_eval_ad2.scoring.variant import TaskVariant

BREAKDOWNS = {"weather": "scene", "severity": "scene", "category": "meta", "source": "meta"}

_SHARED: dict[Any, Any] = {}


def _share(value: Any) -> Any:
    """One object for equal small tuples: most samples of a task have the same few marks and groups."""
    if len(_SHARED) < 10_000:
        return _SHARED.setdefault(value, value)
    return _SHARED.get(value, value)


@dataclass(frozen=True, slots=True)
class OptionRotation:
    """One order of a question's options (scoring/rotation.py).

    place: where the chosen option stood, counted from 0; None where no letter was read.
    chosen: the same option's place in the stored order, so that equal numbers are equal texts.
    """

    question: str
    by: int
    of: int
    place: int | None
    chosen: int | None


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """What a table needs of a sample: a few hundred bytes, so that 70,000 of them stay small.

    marks: (column, official | None, strict) as fractions. groups: (breakdown, name).
    kind: of the chosen option; offered: the kinds of all wrong options.
    text: (answer, reference), kept only where n-gram metrics are asked for; turn: only where options rotate.
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
    offered: tuple[str, ...] = ()
    text: tuple[str, str] | None = None
    turn: OptionRotation | None = None

    @classmethod
    def of(cls, s: ScoredSample, variant: TaskVariant) -> SampleSummary:
        text = None
        if variant.captions and s.form == "vqa" and (s.answer is not None or s.status == "unparsed"):
            # What could not be read enters as the empty answer: corpus metrics know no other way to count it.
            said = str(s.answer) if s.answer is not None else ""
            text = (said, reference_text(s.record, variant.lang))
        groups = tuple((k, str(v)) for k, where in BREAKDOWNS.items() if (v := getattr(s.record, where).get(k)))
        marks = tuple((c, s.values.get(c), v) for c, v in s.strict.items())
        offered = tuple(o.kind for o in s.record.options if o.letter != s.record.letter) if s.form == "mc" else ()
        turn = _turn(s.record, s.answer) if variant.circular else None
        return cls(
            s.id, sys.intern(s.subtask), sys.intern(s.form), sys.intern(s.cluster), sys.intern(s.status),
            _share(s.reason), _share(s.score), _share(s.kind), _share(marks), _share(groups), _share(offered),
            text, turn,
        )  # fmt: skip


def _turn(record: Record, answer: Any) -> OptionRotation:
    told = record.meta[ROTATED]
    letters = [option.letter for option in record.options]
    place = letters.index(answer) if answer in letters else None
    chosen = None if place is None else (place + told["by"]) % told["of"]
    return OptionRotation(str(told["id"]), int(told["by"]), int(told["of"]), place, chosen)
