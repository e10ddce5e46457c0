"""Breakdown tables of a task: by weather, period (time of day), severity, source, category and sub-task.

One table per part, kind of breakdown and judge, so that no column mixes judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, finalise
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import BENCHMARKS
from lmms_eval_ad2.report.task_groups import MULTI_VIEW, TaskGroup, data_sha, group_tasks, reasons

SUBTASK = "sub-task"
# Shown in the layout of a paper's table already.
SHOWN_ELSEWHERE = {("coda_lm", "region", "category")}


def breakdown_grids(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    """Return every breakdown with at least two groups: weather and severity first, sub-tasks last."""
    found: dict[tuple[str, str, str, str | None], list[tuple[TaskGroup, TaskSummary, Mapping[str, ScoreCell]]]] = {}
    for benchmark in dict.fromkeys(t.benchmark for run in runs for t in run.tasks.values()):
        for group in group_tasks(runs, benchmark):
            for task in group.tasks.values():
                for name, cells in (*task.breakdowns.items(), (SUBTASK, task.subtasks)):
                    if cells and not task.open_ended and (benchmark, task.part, name) not in SHOWN_ELSEWHERE:
                        found.setdefault((benchmark, task.part, name, task.judge), []).append((group, task, cells))
    grids = [_grid(key, rows) for key, rows in found.items()]
    order = {"weather": 0, "severity": 1, "period": 2, SUBTASK: 9}
    return sorted((g for g in grids if len(g.columns) > 1), key=lambda g: order.get(g.key.split("/")[2], 5))


def _grid(
    key: tuple[str, str, str, str | None], rows: Sequence[tuple[TaskGroup, TaskSummary, Mapping[str, ScoreCell]]]
) -> ResultGrid:  # fmt: skip
    benchmark, part, kind, judge = key
    names = list(dict.fromkeys(name for _, _, cells in rows for name in cells))
    title = f"{BENCHMARKS.get(benchmark, benchmark)}: {part.replace('_', ' ')} by {kind}" + (
        f" [{judge}]" if judge else ""
    )
    return finalise(ResultGrid(
        key=f"{benchmark}/{part}/{kind}/{judge or ''}",
        title=title,
        source="",
        columns=tuple(GridColumn(name, name, interval=True) for name in names),
        rows=tuple(
            GridRow(
                kind=group.run.role,
                label=group.label,
                cells=tuple(cells.get(name) for name in names),
                views=group.views if benchmark in MULTI_VIEW else "",
                data=f"{group.data} {group.split}".strip(),
                note=group.note,
                judge=task.judge or "",
                n=task.score.n,
                n_unparsed=task.score.n_unparsed,
                n_unscored=task.score.n_unscored,
                reasons=reasons([task]),
                line=group.label,
                sha=data_sha([task]),
            )
            for group, task, cells in rows
        ),
        notes=("Means over the samples of a group, not over columns.",),
        views=benchmark in MULTI_VIEW,
    ))  # fmt: skip
