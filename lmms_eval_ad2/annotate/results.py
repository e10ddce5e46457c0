"""Results of an annotation folder, JSON-able: accepted drafts, agreement between reviewers, checks of questions.

- acceptance: share of a model's drafts that reviewers accepted as they are (CODA-LM Table 4: recall of
  pre-annotations). A draft is accepted by a reviewer who finished its record with all drafted texts kept, nothing
  added, and the record complete. Every finished review counts once, so the share is over reviews. The paper's figure is
  the share of 100 images whose pre-annotation met the requirements, without a definition of them.
- agreement: on scores, on keep / change / delete, and on changed texts. A unit is one text of one record. Scores of all
  records count; verdicts and changes only those of finished records.
- summary: how many questions people solved, and their verdicts, by reviewer and task.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from lmms_eval_ad2.annotate.export import similarity
from lmms_eval_ad2.annotate.project import AnnotationProject, QuestionCheckProject
from lmms_eval_ad2.annotate.question_check import QuestionCheck
from lmms_eval_ad2.annotate.record_review import RecordReview
from lmms_eval_ad2.annotate.review_log import CHECK_VERDICTS
from lmms_eval_ad2.scoring.metrics.agreement import krippendorff_alpha, spearman, weighted_kappa
from lmms_eval_ad2.scoring.metrics.intervals import PERCENT, mean_interval


def acceptance(project: AnnotationProject) -> list[dict[str, Any]]:
    """One row per task and author of drafts: task, author, reviewed (finished reviews), accepted, share (0..1)."""
    counts: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for number, name in enumerate(project.folder.ids):
        draft = project.drafts.get(name)
        if draft is None:
            continue
        for reviewer in project.actions.reviewers():
            if not project.actions.fields(reviewer, name):
                continue
            review = project.review(reviewer, number)
            if review.finished:
                counts[review.record.task, draft.model].append(accepted(review))
    return [
        {"task": task, "author": author, "reviewed": len(found), "accepted": sum(found),
         "share": sum(found) / len(found)}
        for (task, author), found in sorted(counts.items())
    ]  # fmt: skip


def accepted(review: RecordReview) -> bool:
    """Return whether a finished review left the draft as it is."""
    drafted = [line for line in review.lines if line.base.pre]
    added = any(line.verdict == "add" for line in review.lines)
    return bool(review.complete) and not added and all(line.verdict == "keep" for line in drafted)


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


ALL = "all"


def summary(project: QuestionCheckProject) -> dict[str, Any]:
    """The results as JSON-serialisable values.

    Accuracy and the share of each verdict are in percent of the finished questions, with 95 % intervals over scenes
    (over questions if only one scene is known); None without a finished question. `pending`: begun or not, but not
    finished. `agreement`: nominal Krippendorff's alpha of the verdicts; None unless two reviewers finished a question.
    `flagged`: finished questions with another verdict than "correct", or that were not solved.
    """
    names, total = project.actions.reviewers(), len(project.folder)
    checks = {name: [project.review(name, number) for number in sorted(project.finished(name))] for name in names}
    verdicts: dict[str, dict[str, str]] = defaultdict(dict)
    for name, of_reviewer in checks.items():
        for check in of_reviewer:
            verdicts[check.record.id][name] = check.verdict
    shared = [list(given.values()) for given in verdicts.values() if len(given) > 1]
    tasks = Counter(project.folder.record(number).task for number in range(total))
    flagged = [
        {"id": check.record.id, "reviewer": name, "task": check.record.task, "verdict": check.verdict,
         "choice": check.choice, "marked": check.record.letter, "note": check.note}
        for name in names for check in checks[name] if not (check.solved and check.verdict == "correct")
    ]  # fmt: skip
    return {
        "source": project.folder.about.source, "split": project.folder.about.split, "questions": total,
        "by_task": dict(sorted(tasks.items())), "seed": project.folder.about.seed,
        "reviewers": {
            name: {"pending": total - len(found), "results": _by_task(found)} for name, found in checks.items()
        },
        "agreement": {"questions": len(shared), "alpha": krippendorff_alpha(shared, "nominal") if shared else None},
        "flagged": flagged,
    }  # fmt: skip


def _by_task(checks: Sequence[QuestionCheck]) -> dict[str, Any]:
    tasks = sorted({check.record.task for check in checks})
    return {task: _results([c for c in checks if c.record.task == task]) for task in tasks} | {ALL: _results(checks)}


def _results(checks: Sequence[QuestionCheck]) -> dict[str, Any]:
    shares: dict[str, Any] = {
        verdict: _share(checks, (c.verdict == verdict for c in checks)) for verdict in CHECK_VERDICTS
    }
    return {"n": len(checks), "accuracy": _share(checks, (c.solved for c in checks)), **shares}


def _share(checks: Sequence[QuestionCheck], hits: Iterable[bool]) -> dict[str, Any] | None:
    values = [100.0 * hit for hit in hits]
    if not values:
        return None
    clusters: list[str] | None = [check.record.cluster or check.record.id for check in checks]
    if len(set(clusters or ())) < 2:
        clusters = None
    interval = mean_interval(values, clusters=clusters, bounds=PERCENT)
    found = None if interval is None else [interval.low, interval.high]
    return {"n": sum(value > 0 for value in values), "percent": sum(values) / len(values), "interval": found}
