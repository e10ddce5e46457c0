"""The table of repeated judgements: mean, standard deviation and the figure of each judgement, by run and task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, finalise
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary
from lmms_eval_ad2.report.task_groups import data_sha

NOTES = (
    "Mean: over the judgements, with the 95 % interval over clusters of samples. SD: standard deviation of the figures "
    "of the single judgements (n - 1), which have numbers.",
)


def repeat_grids(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    """One table if a judge rated a task of `runs` several times."""
    found = [(run, task) for run in runs for task in run.tasks.values() if task.repeats]
    if not found:
        return []
    most = max(len(task.repeats.by_repetition) for _, task in found if task.repeats)
    columns = [GridColumn("mean", "Mean", headline=True, main=True, interval=True)]
    columns.append(GridColumn("sd", "SD", plotted=False, decimals=2))
    columns += [GridColumn(f"repetition {k}", str(k), plotted=False) for k in range(1, most + 1)]
    notes = [*NOTES]
    for run, task in found:
        if task.repeats and task.repeats.partly_read:
            notes.append(
                f"{run.name}, {task.name}: of {task.repeats.partly_read} samples some judgements could not be read "
                f"({task.repeats.unread} replies); their marks are means over the others."
            )
    grid = ResultGrid(
        key="judge_repeats", title="Repeated judgements", source="", columns=tuple(columns),
        rows=tuple(_row(run, task, most) for run, task in found), notes=tuple(notes), plotted=False,
    )  # fmt: skip
    return [finalise(grid)]


def _row(run: RunSummary, task: TaskSummary, most: int) -> GridRow:
    spread = task.repeats
    assert spread is not None  # of the tasks of `repeat_grids`
    single = [*spread.by_repetition, *[None] * (most - len(spread.by_repetition))]
    values = [spread.mean, spread.sd, *single]
    cells = [None if v is None else replace(task.score, official=v, strict=None, ci=None) for v in values]
    mean: ScoreCell | None = cells[0] and replace(cells[0], ci=task.score.ci, strict=task.score.strict)
    return GridRow(
        kind=run.role, label=f"{run.name}, {task.name}", cells=(mean, *cells[1:]), judge=task.judge or "",
        data=" ".join(str(task.data.get(key, "")) for key in ("name", "split")).strip(), n=task.score.n,
        n_unparsed=task.score.n_unparsed, n_unscored=task.score.n_unscored, line=run.name, sha=data_sha([task]),
    )  # fmt: skip
