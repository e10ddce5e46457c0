"""Rows and cells of a table from task groups: scores of tasks, means over parts, rates by kind of distractor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lmms_eval_ad2.report.runs import ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import (
    ABSTENTIONS,
    ALL,
    COORDS,
    ERROR_KINDS,
    SETS,
    UNCATEGORISED,
    TableColumn,
    TableLayout,
)
from lmms_eval_ad2.report.task_groups import TaskGroup


def with_extras(layout: TableLayout, groups: Sequence[TaskGroup]) -> TableLayout:
    """Append the runs' additional scores after the paper's columns, so that no score is left out."""
    if not layout.extras:
        return layout
    known = {column.place[-1] for column in layout.columns}
    place = ("columns",) if layout.extras == "columns" else ("breakdowns", layout.extras)
    having: dict[str, list[TaskSummary]] = {}
    for task in (task for group in groups for task in group.used(layout.parts)):
        for name in task.columns if layout.extras == "columns" else task.breakdowns.get(layout.extras, {}):
            # The only column of a mean is the score itself (earlier summaries do not name it).
            if name not in known and (task.mean_of or (task.part,)) != (name,):
                having.setdefault(name, []).append(task)
    added = []
    for name, tasks in having.items():
        inside = {name in task.mean_of for task in tasks}
        remark = "in the mean, not in the paper" if True in inside else "outside the mean"
        if layout.extras != "columns":
            remark = "not in the paper"
        elif len(inside) == 2:
            remark = "in the mean of some rows"
        title = f"{name.replace('_', ' ').capitalize()} ({remark})"
        key = f"column {name}" if any(column.key == name for column in layout.columns) else name  # a part's name
        added.append(TableColumn(key, title, tasks[0].part, (*place, name)))
    return replace(layout, columns=(*layout.columns, *added))


def cells_of(layout: TableLayout, group: TaskGroup) -> dict[str, ScoreCell | None]:
    """Return the cells of a group by column key."""
    found = {column.key: _cell(column, group) for column in layout.columns if not column.mean_of}
    means = means_of(layout, found)
    return {column.key: means[column.key] if column.mean_of else found[column.key] for column in layout.columns}


def means_of(layout: TableLayout, cells: Mapping[str, ScoreCell | None]) -> dict[str, ScoreCell | None]:
    """The cells of the columns that are the mean of other columns."""
    return {c.key: mean([cells.get(key) for key in c.mean_of]) for c in layout.columns if c.mean_of}


def _cell(column: TableColumn, group: TaskGroup) -> ScoreCell | None:
    task = group.tasks.get((column.part, column.open_ended))
    if task is None and column.open_ended:  # the canonical task may have n-gram metrics too
        task = group.tasks.get((column.part, False))
    if task is None:
        return None
    match column.place:
        case ("score",):
            return task.score if not task.open_ended else None
        case ("position",):
            return task.position
        case ("correctness",):
            return task.correctness
        case ("columns", name):
            return task.columns.get(name)
        case (_, kind, name):
            return task.breakdowns.get(kind, {}).get(name)
    raise ValueError(f"column {column.key}: unknown place {column.place}")


def mean(cells: Sequence[ScoreCell | None]) -> ScoreCell | None:
    """Return the unweighted mean of K parts; None if one is absent.

    Parts are treated as independent: half-widths combine as sqrt(sum_k h_k^2) / K, separately for each side.
    `clusters`: the smallest number of the parts.
    """
    present = [c for c in cells if c is not None]
    if not present or len(present) < len(cells):
        return None
    official = [c.official for c in present if c.official is not None]
    strict = [c.strict for c in present if c.strict is not None]
    judges = dict.fromkeys(c.judge for c in present if c.judge)
    value = sum(official) / len(present) if len(official) == len(present) else None
    intervals = [(c.official, c.ci) for c in present if c.official is not None and c.ci is not None]
    ci = None
    if value is not None and len(intervals) == len(present):
        low = math.sqrt(sum((v - c[0]) ** 2 for v, c in intervals)) / len(present)
        high = math.sqrt(sum((c[1] - v) ** 2 for v, c in intervals)) / len(present)
        ci = (value - low, value + high)
    return ScoreCell(
        official=value,
        strict=sum(strict) / len(present) if len(strict) == len(present) else None,
        ci=ci,
        n=sum(c.n for c in present),
        n_ok=sum(c.n_ok for c in present),
        n_unparsed=sum(c.n_unparsed for c in present),
        n_unscored=sum(c.n_unscored for c in present),
        n_partly=sum(c.n_partly for c in present),
        judge=" + ".join(judges) or None,
        partial=any(c.partial for c in present),
        clusters=min((c.clusters for c in present if c.clusters is not None), default=None),
    )


Rows = list[tuple[TaskGroup, str, dict[str, ScoreCell | None]]]  # group, suffix of its label, cells


def fits(layout: TableLayout, group: TaskGroup) -> bool:
    """True if a group belongs in a table: rotated options and other distractors are different questions, and so are
    objects in a box and given by coordinates."""
    if layout.coords in ("none", "only") and group.coords != (layout.coords == "only"):
        return False
    if layout.circular or group.circular:
        return layout.circular and group.circular
    if layout.sets:
        return group.distractors is not None
    return group.distractors == ALL or group.distractors not in SETS


def rows_of(layout: TableLayout, groups: Sequence[TaskGroup]) -> Rows:
    """Return the rows of a table."""
    if layout.kinds:
        return _kind_rows(layout, groups)
    if layout.sets:
        return _set_rows(layout, groups)
    if layout.coords == "paired":
        groups = _paired(groups)
    return [(group, "", cells_of(layout, group)) for group in groups]


def _paired(groups: Sequence[TaskGroup]) -> list[TaskGroup]:
    """One group per run and data with tasks by coordinates, and the same tasks with the box (CODA-LM Table 5)."""
    found: list[TaskGroup] = []
    for group in groups:
        if not group.coords:
            continue
        boxed = group.without_coords()
        tasks = {(f"{part}{COORDS}", is_open): task for (part, is_open), task in group.tasks.items()}
        same = (other for other in groups if other.run is boxed.run and other.asks_as(boxed))
        for other in same:
            tasks |= {key: task for key, task in other.tasks.items() if (f"{key[0]}{COORDS}", key[1]) in tasks}
        found.append(replace(boxed, tasks=tasks))
    return found


def _set_rows(layout: TableLayout, groups: Sequence[TaskGroup]) -> Rows:
    """Rows of AutoDrive-QA Table 8: one per run and set of distractors, in the paper's order.

    No rows if there is only the full set without ratings, which Table 1 shows already.
    """
    order = {name: rank for rank, name in enumerate(SETS)}
    runs = list(dict.fromkeys(group.run.folder for group in groups))
    placed = sorted(
        ((group, str(group.distractors), cells_of(layout, group)) for group in groups),
        key=lambda row: (runs.index(row[0].run.folder), order.get(row[1], len(SETS))),
    )
    rated = any(t.correctness is not None for group in groups for t in group.used(layout.parts))
    if not rated and all(name == ALL for _, name, _ in placed):
        return []
    return [(group, kind_title(name), cells) for group, name, cells in placed]


def _kind_rows(layout: TableLayout, groups: Sequence[TaskGroup]) -> Rows:
    """One row per kind of distractor: its share of the wrong answers (AutoDrive-QA Table 7), or its rate of choice.

    With `layout.only`, no rows if no run chose one of these kinds: the data may not offer them. No rows for data with
    options of no category: the shares of the others would be no shares of the errors.
    """
    rows: Rows = []
    chosen = {kind for group in groups for task in group.used(layout.parts) for kind in task.error_kinds}
    if layout.only and not chosen.intersection(layout.only):
        return []
    for group in groups:
        if uncategorised(group.used(layout.parts)):
            continue
        tasks = {c.key: task for c in layout.columns if (task := group.tasks.get((c.part, False)))}
        if not any(sum(task.error_kinds.values()) for task in tasks.values()):
            continue
        others = sorted({kind for t in tasks.values() for kind in (*t.error_kinds, *t.kinds)} - ERROR_KINDS.keys())
        for kind in layout.only or (*ERROR_KINDS, *others):
            if layout.kinds == "rate":
                cells = {key: task.kinds[kind].rate if kind in task.kinds else None for key, task in tasks.items()}
            else:
                among = layout.only if layout.among else ()
                cells = {key: _share(task, kind, among) for key, task in tasks.items()}
            rows.append((group, kind_title(kind), cells))
    return rows


def uncategorised(tasks: Iterable[TaskSummary]) -> str:
    """Count the offered wrong options without an error category: "12 of 60"; "" if all have one."""
    tasks = list(tasks)
    offered = sum(rates.rate.n for task in tasks for rates in task.kinds.values())
    without = sum(task.kinds[UNCATEGORISED].rate.n for task in tasks if UNCATEGORISED in task.kinds)
    if without:
        return f"{without} of {offered}"
    return "some" if any(task.error_kinds.get(UNCATEGORISED) for task in tasks) else ""


def kind_title(kind: str) -> str:
    """The title of a kind or set of distractors."""
    titles = ERROR_KINDS | ABSTENTIONS
    return "All kinds" if kind == ALL else titles.get(kind, kind.replace("_", " ").capitalize())


def _share(task: TaskSummary, kind: str, among: Sequence[str]) -> ScoreCell | None:
    """The share of the wrong answers, or of those `among` some kinds.

    Without an interval if it is among some kinds, and in summaries of earlier versions.
    """
    total = sum(number for name, number in task.error_kinds.items() if not among or name in among)
    if not total:
        return None
    if kind in task.kinds and not among:
        return task.kinds[kind].share
    n = task.error_kinds.get(kind, 0)
    return ScoreCell.exact(100 * n / total, n=n)
