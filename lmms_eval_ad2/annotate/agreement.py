"""How far the reviewers of a folder agree: on their scores, on keep / change / delete, and on what they changed.

A unit is one text of one record. Scores count wherever they stand; verdicts and changes in finished records only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from lmms_eval_ad2.annotate.merge import similarity
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import RecordReview
from lmms_eval_ad2.metrics.agreement import krippendorff_alpha, spearman, weighted_kappa

Unit = tuple[int, str]  # record number, key of a piece


@dataclass(slots=True)
class _UnitRatings:
    """Values by unit, then by reviewer."""

    scores: defaultdict[Unit, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    verdicts: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    changes: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    complete: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))


def agreement(desk: AnnotationProject) -> dict[str, Any]:
    """A table of plain values, JSON-able; a coefficient that is not defined is None."""
    reviewers = desk.actions.reviewers()
    seen = _UnitRatings()
    for number, name in enumerate(desk.folder.ids):
        for who in reviewers:
            if desk.actions.fields(who, name):
                _look(seen, number, who, desk.sheet(who, number))
    shared = [v for v in seen.scores.values() if len(v) > 1]
    values = [list(v.values()) for v in shared]
    return {
        "reviewers": reviewers,
        "finished": {who: len(desk.finished(who)) for who in reviewers},
        "scale": list(desk.scale),
        "scores": {
            "units": len(seen.scores),
            "units_by_two_or_more": len(shared),
            "alpha_interval": krippendorff_alpha(values, "interval"),
            "alpha_ordinal": krippendorff_alpha(values, "ordinal"),
        },
        "pairs": [_pair(seen, a, b, desk.scale) for a, b in combinations(reviewers, 2)],
        "verdicts": _nominal(seen.verdicts),
        "complete": _nominal(seen.complete),
        "changes": _similar(seen.changes),
    }


def _look(seen: _UnitRatings, number: int, who: str, sheet: RecordReview) -> None:
    for line in sheet.lines:
        unit = (number, line.base.key)
        if line.score is not None:
            seen.scores[unit][who] = line.score
        if sheet.finished and line.verdict in ("keep", "change", "delete"):
            seen.verdicts[unit][who] = line.verdict
            if line.verdict == "change":
                seen.changes[unit][who] = line.now.text
    if sheet.finished:
        seen.complete[number, ""][who] = str(sheet.complete)


def _pair(seen: _UnitRatings, a: str, b: str, scale: tuple[int, int]) -> dict[str, Any]:
    both = [(v[a], v[b]) for v in seen.scores.values() if a in v and b in v]
    first, second = [x for x, _ in both], [y for _, y in both]
    verdicts = [v[a] == v[b] for v in seen.verdicts.values() if a in v and b in v]
    return {
        "reviewers": [a, b],
        "scores": len(both),
        "kappa_quadratic": weighted_kappa(first, second, scale),
        "spearman": spearman(first, second),
        "mean_difference": sum(x - y for x, y in both) / len(both) if both else None,
        "verdicts": len(verdicts),
        "same_verdict": sum(verdicts) / len(verdicts) if verdicts else None,
    }


def _nominal(units: Mapping[Unit, Mapping[str, str]]) -> dict[str, Any]:
    """Share of pairs of reviewers that say the same, over all units, and alpha."""
    shared = [list(v.values()) for v in units.values() if len(v) > 1]
    pairs = [x == y for values in shared for x, y in combinations(values, 2)]
    return {
        "units_by_two_or_more": len(shared),
        "same": sum(pairs) / len(pairs) if pairs else None,
        "alpha_nominal": krippendorff_alpha(shared, "nominal"),
    }


def _similar(units: Mapping[Unit, Mapping[str, str]]) -> dict[str, Any]:
    shared = [list(v.values()) for v in units.values() if len(v) > 1]
    pairs = [similarity(x, y) for values in shared for x, y in combinations(values, 2)]
    return {"units_by_two_or_more": len(shared), "similarity": sum(pairs) / len(pairs) if pairs else None}
