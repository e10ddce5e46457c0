"""Share of a model's drafts that reviewers accepted as they are (CODA-LM Table 4: recall of pre-annotations).

A draft is accepted by a reviewer who finished its record with all drafted texts kept, nothing added, and the record
complete. Every finished review counts once, so the share is over reviews. The paper's figure is the share of 100 images
whose pre-annotation met the requirements, without a definition of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import RecordReview


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
    """Whether a finished review left the draft as it is."""
    drafted = [line for line in review.lines if line.base.pre]
    added = any(line.verdict == "add" for line in review.lines)
    return bool(review.complete) and not added and all(line.verdict == "keep" for line in drafted)
