"""A task's table: a cell a column under both rules, the mean of the part, intervals, counts, breakdowns.

Shapes are those of docs/architecture.md (summary.json). All figures are percentages.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.metrics import summary
from lmms_eval_ad2.metrics.caption import caption_scores
from lmms_eval_ad2.records import Record, Unscored
from lmms_eval_ad2.scoring.layout import LOWER_IS_BETTER, mean_columns
from lmms_eval_ad2.scoring.sample import Sample, reference_text
from lmms_eval_ad2.scoring.variant import Variant

Cell = dict[str, Any]
JUDGED_FORMS = ("vqa", "chain")
BREAKDOWNS = {"weather": "scene", "severity": "scene", "category": "meta", "source": "meta"}


@dataclass(frozen=True, slots=True)
class Line:
    """What a table needs of a sample: a few hundred bytes, so that 70,000 of them stay small.

    marks: (column, official | None, strict) as fractions. groups: (breakdown, name).
    text: (answer, reference), kept only where n-gram metrics are asked for.
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
    text: tuple[str, str] | None = None

    @classmethod
    def of(cls, s: Sample, variant: Variant) -> Line:
        text = None
        if variant.captions and s.form == "vqa" and s.status != "unscored":
            # What could not be read enters as the empty answer: corpus metrics know no other way to count it.
            said = str(s.answer) if s.status == "ok" and s.answer else ""
            text = (said, reference_text(Record.from_dict(s.record), variant.lang))
        groups = tuple(
            (sys.intern(k), sys.intern(str(v))) for k, where in BREAKDOWNS.items() if (v := s.record[where].get(k))
        )
        return cls(
            s.id, sys.intern(s.subtask), sys.intern(s.form), sys.intern(s.cluster), sys.intern(s.status), s.reason,
            s.score, s.kind, tuple((sys.intern(c), s.values.get(c), v) for c, v in s.strict.items()), groups, text,
        )  # fmt: skip


def summarise(lines: Sequence[Line], variant: Variant, judge: str | None, *, seed: int = 0) -> dict[str, Any]:
    """The table of one task. `judge` is the label of the judge that rated its free text, if any did."""
    chained = any(x.form == "chain" for x in lines)
    wanted = mean_columns(variant.benchmark, "cot" if chained else variant.part)
    by_column: dict[str, list[tuple[Line, float | None, float]]] = defaultdict(list)
    for line in lines:
        for column, official, strict in line.marks:
            by_column[column].append((line, official, strict))
    order = [c for c in wanted if c in by_column]
    rest = sorted(set(by_column) - set(order))
    columns = {c: cell(by_column[c], judge, seed=seed) for c in [*order, *rest]} if variant.judge else {}
    used = judge if variant.judge and any(x.form in JUDGED_FORMS for x in lines) else None
    return {
        "benchmark": variant.benchmark,
        "part": variant.part,
        "lang": variant.lang,
        "variant": variant.changes(),
        "captions": list(variant.captions),
        **_counts(lines),
        "reasons": dict(Counter(f"{x.status}:{x.reason}" for x in lines if x.status != "ok").most_common()),
        "score": {
            **_mean([columns[c] for c in order if c in columns], [by_column[c] for c in order], seed),
            **_counts(lines),
            "judge": used,
            "columns": order,
            "missing_columns": [c for c in wanted if c not in by_column],
        },
        "columns": columns | _captions(lines, variant),
        "subtasks": _grouped(lines, _subtask, judge, seed),
        "breakdowns": {k: cells for k in BREAKDOWNS if (cells := _grouped(lines, _group(k), judge, seed))},
        "error_kinds": dict(Counter(x.kind for x in lines if x.kind and x.kind != "correct" and x.score == 0)),
        "judge": used,
    }


def cell(marks: Sequence[tuple[Line, float | None, float]], judge: str | None, *, seed: int = 0) -> Cell:
    """One cell over (line, official, strict) of one column; fractions become percentages."""
    known = [(100 * v, x.cluster) for x, v, _ in marks if v is not None]
    values = [v for v, _ in known]
    strict = [100 * v for _, _, v in marks]
    interval = summary.bootstrap_mean(values, clusters=[c for _, c in known], seed=seed) if values else None
    lines = [x for x, _, _ in marks]
    return {
        "official": _round(sum(values) / len(values)) if values else None,
        "strict": _round(sum(strict) / len(strict)) if strict else None,
        "ci": [_round(interval.low), _round(interval.high)] if interval else None,
        **_counts(lines),
        "judge": judge if any(x.form in JUDGED_FORMS for x in lines) else None,
    }


def _mean(cells: Sequence[Cell], marks: Sequence[Sequence[tuple[Line, float | None, float]]], seed: int) -> Cell:
    """The part's score: the unweighted mean of its columns (AD2-Bench's averages are; checked against its tables)."""
    official = [c["official"] for c in cells if c["official"] is not None]
    strict = [c["strict"] for c in cells if c["strict"] is not None]
    full = bool(cells) and len(official) == len(cells)
    interval = None
    if full:
        known = [[(100 * v, x.cluster) for x, v, _ in column if v is not None] for column in marks]
        interval = summary.bootstrap_mean_of_means(
            [[v for v, _ in k] for k in known], clusters=[[c for _, c in k] for k in known], seed=seed
        )
    return {
        "official": _round(sum(official) / len(official)) if full else None,
        "strict": _round(sum(strict) / len(strict)) if strict else None,
        "ci": [_round(interval.low), _round(interval.high)] if interval else None,
    }


def _round(value: float) -> float:
    return round(value, 6)


def _counts(lines: Sequence[Line]) -> dict[str, int]:
    status = Counter(x.status for x in lines)
    return {
        "n": len(lines),
        "n_ok": status["ok"],
        "n_unparsed": status["unparsed"],
        "n_unscored": status["unscored"],
    }


def _subtask(line: Line) -> str:
    return line.subtask


def _group(name: str) -> Callable[[Line], str | None]:
    return lambda line: dict(line.groups).get(name)


def _grouped(lines: Iterable[Line], key: Callable[[Line], str | None], judge: str | None, seed: int) -> dict[str, Cell]:
    """A cell a group, over each sample's own score (micro mean, as CODA-LM's region classes)."""
    groups: dict[str, list[tuple[Line, float | None, float]]] = defaultdict(list)
    for line in lines:
        name = key(line)
        if name and line.marks:
            strict = [v for c, _, v in line.marks if c not in LOWER_IS_BETTER]
            score = None if line.score is None else line.score / 100
            groups[name].append((line, score, sum(strict) / len(strict)))
    return {name: cell(marks, judge, seed=seed) for name, marks in sorted(groups.items())}


def _captions(lines: Sequence[Line], variant: Variant) -> dict[str, Cell]:
    """Corpus n-gram metrics of the free-text answers (x100, CODA-LM Table 6, AutoDrive-QA Table 1): no interval."""
    free = [x for x in lines if x.form == "vqa"]
    pairs = {x.id: x.text for x in free if x.text is not None}
    if not pairs:
        return {}
    references: Mapping[str, Sequence[str]] = {k: [reference] for k, (_, reference) in pairs.items()}
    results = caption_scores(
        references, {k: said for k, (said, _) in pairs.items()}, variant.captions, lang=variant.lang
    )
    cells: dict[str, Cell] = {}
    for name, result in results.items():
        value = None if isinstance(result, Unscored) else _round(100 * result.value)
        cells[name] = {"official": value, "strict": value, "ci": None, **_counts(free), "judge": None}
        if isinstance(result, Unscored):
            cells[name]["reason"] = f"{result.reason}: {result.detail}"
    return cells
