"""Tables without a paper's layout: breakdowns of a task by weather, period (time of day), severity, source, category
and sub-task; repeated judgements (`judge_repeats`) and repeated answers (`--repeats`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, finalise, group_row
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import BENCHMARKS
from lmms_eval_ad2.report.task_groups import MULTI_VIEW, TaskGroup, data_sha, group_tasks

JUDGEMENT_NOTES = (
    "Mean: over the judgements, with the 95 % interval over clusters of samples. SD: standard deviation of the figures "
    "of the single judgements (n - 1), which have numbers.",
)
ANSWER_NOTES = (
    "Score: the mean over all replies; the replies of a question are in one cluster of the 95 % interval. Alike: the "
    "share of questions whose replies are all the same answer. Always right: all of them have full marks.",
)
SUBTASK = "sub-task"
# Shown in the layout of a paper's table already.
SHOWN_ELSEWHERE = {("coda_lm", "region", "category")}


def breakdown_grids(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    """Return every breakdown with at least two groups: weather and severity first, sub-tasks last.

    One table per part, kind of breakdown and judge, so that no column mixes judges.
    """
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
            group_row(
                group, [task], [cells.get(name) for name in names], views=benchmark in MULTI_VIEW,
                judge=task.judge or "",
            )
            for group, task, cells in rows
        ),
        notes=("Means over the samples of a group, not over columns.",),
        views=benchmark in MULTI_VIEW,
    ))  # fmt: skip


def repeat_grids(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    """One table each if a judge rated a task of `runs` several times, and if a task was asked several times."""
    return [*_judgements(runs), *_answers(runs)]


def _answers(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    found = [(run, task, task.replies) for run in runs for task in run.tasks.values() if task.replies]
    if not found:
        return []
    rows = [
        _grid_row(run, task, (task.score, replies.alike, replies.always_right), f" x {replies.per_question}")
        for run, task, replies in found
    ]
    columns = [GridColumn("score", "Score", headline=True, main=True, interval=True)]
    columns += [GridColumn("alike", "Alike", interval=True), GridColumn("always_right", "Always right", interval=True)]
    grid = ResultGrid(
        key="replies", title="Repeated answers", source="", columns=tuple(columns), rows=tuple(rows),
        notes=ANSWER_NOTES, plotted=False,
    )  # fmt: skip
    return [finalise(grid)]


def _judgements(runs: Sequence[RunSummary]) -> list[ResultGrid]:
    found = [(run, task) for run in runs for task in run.tasks.values() if task.repeats]
    if not found:
        return []
    most = max(len(task.repeats.by_repetition) for _, task in found if task.repeats)
    columns = [GridColumn("mean", "Mean", headline=True, main=True, interval=True)]
    columns.append(GridColumn("sd", "SD", plotted=False, decimals=2))
    columns += [GridColumn(f"repetition {k}", str(k), plotted=False) for k in range(1, most + 1)]
    notes = [*JUDGEMENT_NOTES]
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
    return _grid_row(run, task, (mean, *cells[1:]))


def _grid_row(run: RunSummary, task: TaskSummary, cells: tuple[ScoreCell | None, ...], mark: str = "") -> GridRow:
    return GridRow(
        kind=run.role, label=f"{run.name}, {task.name}{mark}", cells=cells, judge=task.judge or "",
        data=" ".join(str(task.data.get(key, "")) for key in ("name", "split")).strip(), n=task.score.n,
        n_unparsed=task.score.n_unparsed, n_unscored=task.score.n_unscored, line=run.name, sha=data_sha([task]),
    )  # fmt: skip
