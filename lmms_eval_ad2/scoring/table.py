"""A task's table: a cell a column under both rules, the mean of the part, intervals, counts, breakdowns.

Shapes are those of docs/architecture.md (summary.json). All figures are percentages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.metrics import summary
from lmms_eval_ad2.metrics.caption import caption_scores
from lmms_eval_ad2.records import Record, Unscored
from lmms_eval_ad2.scoring.layout import mean_columns
from lmms_eval_ad2.scoring.sample import Sample, columns_touched, reference_text
from lmms_eval_ad2.scoring.variant import Variant

Cell = dict[str, Any]
JUDGED_FORMS = ("vqa", "chain")


def summarise(samples: Sequence[Sample], variant: Variant, judge: str | None, *, seed: int = 0) -> dict[str, Any]:
    """The table of one task. `judge` is the label of the judge that rated its free text, if any did."""
    by_column: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        for column in columns_touched(sample):
            by_column[column].append(sample)
    order = [c for c in mean_columns(variant.benchmark, variant.part) if c in by_column]
    if any(s.form == "chain" for s in samples):
        order = [c for c in mean_columns("ad2_bench", "cot") if c in by_column]
    columns = {c: cell(by_column[c], c, judge, seed=seed) for c in [*order, *sorted(set(by_column) - set(order))]}
    if not variant.judge:
        columns = {}
    used = judge if any(s.form in JUDGED_FORMS for s in samples) and variant.judge else None
    table = {
        "benchmark": variant.benchmark,
        "part": variant.part,
        "lang": variant.lang,
        "variant": variant.changes(),
        "captions": list(variant.captions),
        **_counts(samples),
        "reasons": dict(Counter(f"{s.status}:{s.reason}" for s in samples if s.status != "ok").most_common()),
        "score": _mean_cell(samples, by_column, columns, order, used, seed),
        "columns": columns | _captions(samples, variant),
        "subtasks": _grouped(samples, lambda s: s.subtask, judge, seed),
        "breakdowns": {name: _grouped(samples, key, judge, seed) for name, key in _BREAKDOWNS.items()},
        "error_kinds": dict(Counter(s.kind for s in samples if s.kind and s.kind != "correct" and s.score == 0)),
        "judge": used,
    }
    table["breakdowns"] = {k: v for k, v in table["breakdowns"].items() if v}
    return table


def cell(samples: Sequence[Sample], column: str, judge: str | None, *, seed: int = 0) -> Cell:
    """One cell over the samples that stand in `column`."""
    known = [(v, s.cluster) for s in samples if (v := s.values.get(column)) is not None]
    strict = [s.strict[column] for s in samples if column in s.strict]
    values, clusters = [v for v, _ in known], [c for _, c in known]
    interval = summary.bootstrap_mean(values, clusters=clusters, seed=seed) if values else None
    judged = any(s.form in JUDGED_FORMS for s in samples)
    return {
        "official": _percent(sum(values) / len(values)) if values else None,
        "strict": _percent(sum(strict) / len(strict)) if strict else None,
        "ci": [_percent(interval.low), _percent(interval.high)] if interval else None,
        **_counts(samples),
        "judge": judge if judged else None,
    }


def _mean_cell(
    samples: Sequence[Sample], by_column: Mapping[str, list[Sample]], columns: Mapping[str, Cell],
    order: Sequence[str], judge: str | None, seed: int,
) -> Cell:  # fmt: skip
    """The part's score: the unweighted mean of its columns (AD2-Bench's averages are; checked against its tables)."""
    cells = [columns[c] for c in order if c in columns]
    official = [c["official"] for c in cells if c["official"] is not None]
    strict = [c["strict"] for c in cells if c["strict"] is not None]
    values = [[v for s in by_column[c] if (v := s.values.get(c)) is not None] for c in order if c in columns]
    clusters = [[s.cluster for s in by_column[c] if s.values.get(c) is not None] for c in order if c in columns]
    full = bool(cells) and len(official) == len(cells)
    interval = summary.bootstrap_mean_of_means(values, clusters=clusters, seed=seed) if full else None
    return {
        "official": round(sum(official) / len(official), 6) if full else None,
        "strict": round(sum(strict) / len(strict), 6) if strict else None,
        "ci": [_percent(interval.low), _percent(interval.high)] if interval else None,
        **_counts(samples),
        "judge": judge,
        "columns": [c for c in order if c in columns],
        "missing_columns": [
            c for c in mean_columns(samples[0].benchmark, samples[0].part) if c not in columns
        ] if samples and samples[0].form != "chain" else [],
    }  # fmt: skip


def _percent(value: float) -> float:
    return round(100 * value, 6)


def _counts(samples: Sequence[Sample]) -> dict[str, int]:
    status = Counter(s.status for s in samples)
    return {
        "n": len(samples),
        "n_ok": status["ok"],
        "n_unparsed": status["unparsed"],
        "n_unscored": status["unscored"],
    }


def _weather(sample: Sample) -> Any:
    return sample.record["scene"].get("weather")


def _severity(sample: Sample) -> Any:
    return sample.record["scene"].get("severity")


def _category(sample: Sample) -> Any:
    return sample.record["meta"].get("category")


def _source(sample: Sample) -> Any:
    return sample.record["meta"].get("source")


_BREAKDOWNS: dict[str, Callable[[Sample], Any]] = {
    "weather": _weather, "severity": _severity, "category": _category, "source": _source,
}  # fmt: skip


def _grouped(samples: Iterable[Sample], key: Callable[[Sample], Any], judge: str | None, seed: int) -> dict[str, Cell]:
    """A cell a group, over each sample's own score (micro mean, as CODA-LM's region classes)."""
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        name = key(sample)
        if name:
            groups[str(name)].append(sample)
    return {name: _score_cell(group, judge, seed) for name, group in sorted(groups.items())}


def _score_cell(group: Sequence[Sample], judge: str | None, seed: int) -> Cell:
    known = [(s.score, s.cluster) for s in group if s.score is not None]
    values = [v for v, _ in known]
    strict = [_strict_score(s) for s in group if s.strict]
    interval = summary.bootstrap_mean(values, clusters=[c for _, c in known], seed=seed) if values else None
    return {
        "official": round(sum(values) / len(values), 6) if values else None,
        "strict": round(sum(strict) / len(strict), 6) if strict else None,
        "ci": [round(interval.low, 6), round(interval.high, 6)] if interval else None,
        **_counts(group),
        "judge": judge if any(s.form in JUDGED_FORMS for s in group) else None,
    }


def _strict_score(sample: Sample) -> float:
    columns = [c for c in columns_touched(sample) if c in sample.strict and c != "ocr_cer"]
    return 100 * sum(sample.strict[c] for c in columns) / len(columns)


def _captions(samples: Sequence[Sample], variant: Variant) -> dict[str, Cell]:
    """Corpus n-gram metrics of the free-text answers (x100, CODA-LM Table 6, AutoDrive-QA Table 1): no interval."""
    free = [s for s in samples if s.form == "vqa"]
    if not variant.captions or not free:
        return {}
    references = {s.id: [reference_text(Record.from_dict(s.record), variant.lang)] for s in free}
    # What could not be read enters as the empty answer: the corpus metrics know no other way to count it.
    said = {s.id: str(s.answer) if s.status == "ok" and s.answer else "" for s in free if s.status != "unscored"}
    references = {k: v for k, v in references.items() if k in said}
    if not said:
        return {}
    cells = {}
    for name, result in caption_scores(references, said, variant.captions, lang=variant.lang).items():
        bad = isinstance(result, Unscored)
        cells[name] = {
            "official": None if bad else _percent(result.value),
            "strict": None if bad else _percent(result.value),
            "ci": None,
            **_counts(free),
            "judge": None,
            "reason": f"{result.reason}: {result.detail}" if bad else None,
        }
    return cells
