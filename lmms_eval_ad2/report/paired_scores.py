"""Scores of the samples of a task, and their pairs in two tasks: the data of a paired comparison (compare.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows

BY_IMAGE = "the tasks have no record in common: paired by image, each with the mean over its samples"
_CHAIN = re.compile(r"#cot(?=@\d+\Z|\Z)")  # of a chain's id, which is that of its question otherwise


@dataclass(frozen=True, slots=True)
class SampleScores:
    """Scores in percent (None: unscored) and clusters by id: of samples, or of questions with circular evaluation."""

    scores: Mapping[str, float | None]
    clusters: Mapping[str, str]

    def of_questions(self) -> SampleScores:
        """The same with the ids of the questions that chains of thought were made from."""
        names = {key: _CHAIN.sub("", key) for key in self.scores}
        if len(set(names.values())) < len(names):
            return self
        return SampleScores({names[k]: v for k, v in self.scores.items()}, {names[k]: self.clusters[k] for k in names})

    def by_image(self) -> SampleScores:
        """The mean of the scored samples of each cluster; None for a cluster without any."""
        values: dict[str, list[float]] = {}
        for key, score in self.scores.items():
            values.setdefault(self.clusters[key], []).extend([] if score is None else [score])
        means = {cluster: sum(of) / len(of) if of else None for cluster, of in values.items()}
        return SampleScores(means, {cluster: cluster for cluster in means})


def scores_of(run: RunSummary, task: TaskSummary, column: str | None = None) -> SampleScores:
    """Read the scores of a task's samples, or their values in one `column`."""
    scores: dict[str, float | None] = {}
    clusters: dict[str, str] = {}
    missing: dict[str, int] = {}  # rotations of a question not read yet
    for row in sample_rows(run, task.name):
        key, score = str(row["id"]), _score(row, column)
        if task.circular:  # right in all rotations; None if one of them is None
            key = key.rpartition("#")[0]
            missing[key] = missing.get(key, _rotations(row)) - 1
            before = scores.get(key, score)
            score = None if score is None or before is None else min(score, before)
        scores[key] = score
        clusters[key] = str(row.get("cluster") or key)
    return SampleScores({key: score for key, score in scores.items() if not missing.get(key)}, clusters)


def column_pairs(sides: Sequence[tuple[RunSummary, TaskSummary]]) -> Iterator[tuple[str | None, ...]]:
    """What to compare of two sides: their scores (None), then the columns of a side that has no score at all.

    A judge that can mark only some columns of a mean leaves its samples without a score.
    """
    yield None, None
    bare = [all(score is None for score in scores_of(*side).scores.values()) for side in sides]
    names = (task.mean_of for (_, task), without in zip(sides, bare, strict=True) if without)
    for column in dict.fromkeys(column for columns in names for column in columns):
        yield tuple(column if without else None for without in bare)


def matched(a: SampleScores, b: SampleScores) -> tuple[SampleScores, SampleScores, tuple[str, ...]]:
    """The scores of two different tasks with common ids, and a note if these are images."""
    by_question = a.of_questions(), b.of_questions()
    if by_question[0].scores.keys() & by_question[1].scores.keys():
        return *by_question, ()
    return a.by_image(), b.by_image(), (BY_IMAGE,)


def _score(row: Mapping[str, Any], column: str | None) -> float | None:
    values = row.get("values")
    found = row.get("score") if column is None else values.get(column) if isinstance(values, Mapping) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return float(found) if column is None else 100 * float(found)


def _rotations(row: Mapping[str, Any]) -> int:
    """The number of rotations of a question: one per option."""
    record = row.get("record")
    options = record.get("options") if isinstance(record, Mapping) else None
    return len(options) if isinstance(options, list) else 0
