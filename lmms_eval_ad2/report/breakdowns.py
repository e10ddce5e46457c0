"""Tables of a task's groups: by weather, severity, source, category and sub-task.

One table a part, a kind of group, and a judge, so that here too no column mixes judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, settle
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import BENCHMARKS
from lmms_eval_ad2.report.task_groups import MULTI_VIEW, TaskGroup, data_sha, lines_of, reasons

SUBTASK = "sub-task"
# What a paper's table of ours already shows.
SHOWN_ELSEWHERE = {("coda_lm", "region", "category")}


def breakdown_grids(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    """Every breakdown with at least two groups, weather and severity first, sub-tasks last."""
    found: dict[tuple[str, str, str, str | None], list[tuple[TaskGroup, TaskSummary, Mapping[str, ScoreCell]]]] = {}
    for benchmark in dict.fromkeys(t.benchmark for run in runs for t in run.tasks.values()):
        for line in lines_of(runs, benchmark):
            for task in line.tasks.values():
                for name, groups in (*task.breakdowns.items(), (SUBTASK, task.subtasks)):
                    if groups and not task.open_ended and (benchmark, task.part, name) not in SHOWN_ELSEWHERE:
                        found.setdefault((benchmark, task.part, name, task.judge), []).append((line, task, groups))
    grids = [_grid(key, rows) for key, rows in found.items()]
    order = {"weather": 0, "severity": 1, SUBTASK: 9}
    return sorted((g for g in grids if len(g.columns) > 1), key=lambda g: order.get(g.key.split("/")[2], 5))


def _grid(
    key: tuple[str, str, str, str | None], rows: Sequence[tuple[TaskGroup, TaskSummary, Mapping[str, ScoreCell]]]
) -> ResultGrid:  # fmt: skip
    benchmark, part, name, judge = key
    groups = list(dict.fromkeys(group for _, _, cells in rows for group in cells))
    title = f"{BENCHMARKS.get(benchmark, benchmark)}: {part.replace('_', ' ')} by {name}" + (
        f" [{judge}]" if judge else ""
    )
    return settle(ResultGrid(
        key=f"{benchmark}/{part}/{name}/{judge or ''}",
        title=title,
        source="",
        columns=tuple(GridColumn(group, group, interval=True) for group in groups),
        rows=tuple(
            GridRow(
                kind=line.run.role,
                label=line.label,
                cells=tuple(cells.get(group) for group in groups),
                views=line.views if benchmark in MULTI_VIEW else "",
                data=f"{line.data} {line.split}".strip(),
                note=line.note,
                judge=task.judge or "",
                n=task.score.n,
                n_unparsed=task.score.n_unparsed,
                n_unscored=task.score.n_unscored,
                reasons=reasons([task]),
                line=line.label,
                sha=data_sha([task]),
            )
            for line, task, cells in rows
        ),
        notes=("Means over the samples of a group, not over columns.",),
        views=benchmark in MULTI_VIEW,
    ))  # fmt: skip
