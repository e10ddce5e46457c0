"""Agreement between the reviewers of a folder: on scores, on keep / change / delete, and on changed texts.

A unit is one text of one record. Scores of all records count; verdicts and changes only those of finished records.
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
from lmms_eval_ad2.scoring.metrics.agreement import krippendorff_alpha, spearman, weighted_kappa

Unit = tuple[int, str]  # record number, key of a piece


@dataclass(slots=True)
class _UnitRatings:
    """Values by unit, then by reviewer."""

    scores: defaultdict[Unit, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    verdicts: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    changes: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    complete: defaultdict[Unit, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))


def agreement(project: AnnotationProject) -> dict[str, Any]:
    """Return the agreement as JSON-serialisable values; an undefined coefficient is None."""
    reviewers = project.actions.reviewers()
    ratings = _UnitRatings()
    for number, name in enumerate(project.folder.ids):
        for reviewer in reviewers:
            if project.actions.fields(reviewer, name):
                _collect(ratings, number, reviewer, project.review(reviewer, number))
    shared = [v for v in ratings.scores.values() if len(v) > 1]
    values = [list(v.values()) for v in shared]
    return {
        "reviewers": reviewers,
        "finished": {reviewer: len(project.finished(reviewer)) for reviewer in reviewers},
        "scale": list(project.scale),
        "scores": {
            "units": len(ratings.scores),
            "units_by_two_or_more": len(shared),
            "alpha_interval": krippendorff_alpha(values, "interval"),
            "alpha_ordinal": krippendorff_alpha(values, "ordinal"),
        },
        "pairs": [_pair(ratings, a, b, project.scale) for a, b in combinations(reviewers, 2)],
        "verdicts": _nominal(ratings.verdicts),
        "complete": _nominal(ratings.complete),
        "changes": _similar(ratings.changes),
    }


def _collect(ratings: _UnitRatings, number: int, reviewer: str, review: RecordReview) -> None:
    for line in review.lines:
        unit = (number, line.base.key)
        if line.score is not None:
            ratings.scores[unit][reviewer] = line.score
        if review.finished and line.verdict in ("keep", "change", "delete"):
            ratings.verdicts[unit][reviewer] = line.verdict
            if line.verdict == "change":
                ratings.changes[unit][reviewer] = line.now.text
    if review.finished:
        ratings.complete[number, ""][reviewer] = str(review.complete)


def _pair(ratings: _UnitRatings, a: str, b: str, scale: tuple[int, int]) -> dict[str, Any]:
    both = [(v[a], v[b]) for v in ratings.scores.values() if a in v and b in v]
    first, second = [x for x, _ in both], [y for _, y in both]
    verdicts = [v[a] == v[b] for v in ratings.verdicts.values() if a in v and b in v]
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
    """Share of reviewer pairs with equal values, over all units, and Krippendorff's alpha."""
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
