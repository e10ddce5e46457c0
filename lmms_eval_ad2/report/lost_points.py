"""The samples of runs that lost points, worst first: `ad2 report RUN --wrong`."""

from __future__ import annotations

import heapq
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.printed import one_line, printable, shortened
from lmms_eval_ad2.report import cell_text, sample_row
from lmms_eval_ad2.report.compact import WIDTH
from lmms_eval_ad2.report.one_sample import tasks_of
from lmms_eval_ad2.report.runs import RunSummary, sample_rows
from lmms_eval_ad2.report.text_table import TextTable

FULL_MARKS = 100.0  # scores of samples are percentages
_TEXT = 60  # characters of an answer or a reference


@dataclass(frozen=True, slots=True)
class LostPoints:
    """A sample below full marks. read: the parsed answer, or why there is none; texts are shortened."""

    score: float
    id: str
    run: str
    task: str
    status: str
    read: str
    reference: str


@dataclass(frozen=True)
class LostPointsList:
    """The worst samples, and counts of all: below full marks, without a score, asked."""

    samples: tuple[LostPoints, ...]
    lost: int
    unscored: int
    asked: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "samples": [asdict(sample) for sample in self.samples]}


def lost_points(runs: Sequence[RunSummary], task: str | None, limit: int) -> LostPointsList:
    """The `limit` samples with the lowest scores; equal ones in the order of the files. Floors and ceilings are left
    out beside models. Raises Ad2Error if no run has the task."""
    counts: Counter[str] = Counter()
    models = [run for run in runs if run.role == "run"] or runs

    def below() -> Iterator[LostPoints]:
        for run, table in tasks_of(models, task):
            for row in sample_rows(run, table.name):
                counts["asked"] += 1
                score = row.get("score")
                if not is_number(score):
                    counts["unscored"] += not table.open_ended  # n-gram metrics have no score of a sample
                elif score < FULL_MARKS:
                    counts["lost"] += 1
                    yield _of_row(float(score), row, run.name, table.name)

    worst = heapq.nsmallest(limit, below(), key=lambda sample: sample.score)
    return LostPointsList(tuple(worst), counts["lost"], counts["unscored"], counts["asked"])


def _of_row(score: float, row: Mapping[str, Any], run: str, task: str) -> LostPoints:
    status = str(row.get("status"))
    read = str(row.get("reason")) if row.get("answer") is None else sample_row.plain(row["answer"])
    texts = [shortened(text, _TEXT) for text in (read, sample_row.reference(row))]
    return LostPoints(score, str(row["id"]), run, task, status, *texts)


def render(found: LostPointsList, results: Sequence[str]) -> str:
    """One row per sample, then the counts and the command that shows one. results: the paths of the command."""
    lines = []
    if found.samples:
        columns = {
            "score": [cell_text.number(sample.score) for sample in found.samples],
            "sample": [one_line(sample.id) for sample in found.samples],
            "task": [sample.task for sample in found.samples],
            "model": [one_line(sample.run) for sample in found.samples],
            "read as": [_read(sample) for sample in found.samples],
            "reference": [one_line(sample.reference) for sample in found.samples],
        }
        # What is the same in all rows is said once, in the title.
        same = {name for name in ("task", "model") if len(set(columns[name])) == 1}
        shown = {name: cells for name, cells in columns.items() if name not in same}
        lines = [", ".join(columns[name][0] for name in ("model", "task") if name in same)]
        table = TextTable(list(shown), list(zip(*shown.values(), strict=True)), "r" + "l" * (len(shown) - 1))
        lines += [table.within(WIDTH), ""]
    more = f"; shown {len(found.samples)}, see --limit" if found.lost > len(found.samples) else ""
    lines.append(f"{found.lost} of {found.asked} samples lost points{more}")
    if found.unscored:
        reasons = shlex.join(["ad2", "report", *results, "--wide"])
        lines.append(f"{found.unscored} more have no score, which is not the model's fault; the reasons: {reasons}")
    if found.samples:
        command = shlex.join(
            ["ad2", "report", *results, "--sample", found.samples[0].id, "--task", found.samples[0].task]
        )
        lines.append(f"one of them: {one_line(command)}")
    return printable("\n".join(line for i, line in enumerate(lines) if line or i)) + "\n"


def _read(sample: LostPoints) -> str:
    return one_line(sample.read) if sample.status == "ok" else f"{sample.status}: {one_line(sample.read)}"
