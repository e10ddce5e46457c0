"""Results of a check of questions by people: how many were solved, and the verdicts, by reviewer and task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lmms_eval_ad2.annotate.actions import CHECK_VERDICTS
from lmms_eval_ad2.annotate.project import QuestionCheckProject
from lmms_eval_ad2.annotate.question_check import QuestionCheck
from lmms_eval_ad2.scoring.metrics.agreement import krippendorff_alpha
from lmms_eval_ad2.scoring.metrics.intervals import PERCENT, mean_interval

ALL = "all"


def summary(project: QuestionCheckProject) -> dict[str, Any]:
    """The results as JSON-serialisable values.

    Accuracy and the share of each verdict are in percent of the finished questions, with 95 % intervals over scenes
    (over questions if only one scene is known); None without a finished question. `pending`: begun or not, but not
    finished. `agreement`: nominal Krippendorff's alpha of the verdicts; None unless two reviewers finished a question.
    `flagged`: finished questions with another verdict than "correct", or that were not solved.
    """
    names, total = project.actions.reviewers(), len(project.folder)
    checks = {name: _finished(project, name) for name in names}
    verdicts: dict[str, dict[str, str]] = {}
    for name, of_reviewer in checks.items():
        for check in of_reviewer:
            verdicts.setdefault(check.record.id, {})[name] = check.verdict
    shared = [list(given.values()) for given in verdicts.values() if len(given) > 1]
    tasks = Counter(project.folder.record(number).task for number in range(total))
    return {
        "source": project.folder.about.source, "split": project.folder.about.split, "questions": total,
        "by_task": dict(sorted(tasks.items())), "seed": project.folder.about.seed,
        "reviewers": {
            name: {"pending": total - len(checks[name]), "results": _by_task(checks[name])} for name in names
        },
        "agreement": {"questions": len(shared), "alpha": krippendorff_alpha(shared, "nominal") if shared else None},
        "flagged": [_flagged(name, check) for name in names for check in checks[name] if not _good(check)],
    }  # fmt: skip


def _finished(project: QuestionCheckProject, reviewer: str) -> list[QuestionCheck]:
    return [project.review(reviewer, number) for number in sorted(project.finished(reviewer))]


def _good(check: QuestionCheck) -> bool:
    return check.solved and check.verdict == "correct"


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


def _flagged(reviewer: str, check: QuestionCheck) -> dict[str, Any]:
    return {
        "id": check.record.id, "reviewer": reviewer, "task": check.record.task, "verdict": check.verdict,
        "choice": check.choice, "marked": check.record.letter, "note": check.note,
    }  # fmt: skip
