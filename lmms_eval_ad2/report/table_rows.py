"""Which rows and figures a line brings to a table: from its tasks, averaged over parts, by kind of distractor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lmms_eval_ad2.report.runs import ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import ALL, ERROR_KINDS, SETS, TableColumn, TableLayout
from lmms_eval_ad2.report.task_groups import TaskGroup


def with_extras(shape: TableLayout, lines: Sequence[TaskGroup]) -> TableLayout:
    """The shape with the runs' further figures after the paper's columns: nothing that was scored is left out."""
    if not shape.extras:
        return shape
    part = next(iter(shape.parts))
    known = {column.place[-1] for column in shape.columns}
    place = ("columns",) if shape.extras == "columns" else ("breakdowns", shape.extras)
    names = dict.fromkeys(
        name
        for line in lines
        for task in line.used(shape.parts)
        for name in (task.columns if shape.extras == "columns" else task.breakdowns.get(shape.extras, {}))
        if name not in known
    )
    outside = "outside the mean" if shape.extras == "columns" else "not in the paper"
    added = (TableColumn(n, f"{n.replace('_', ' ').capitalize()} ({outside})", part, (*place, n)) for n in names)
    return replace(shape, columns=(*shape.columns, *added))


def cells_of(shape: TableLayout, line: TaskGroup) -> dict[str, ScoreCell | None]:
    """The figures of a line by column key."""
    found: dict[str, ScoreCell | None] = {}
    for column in shape.columns:
        found[column.key] = mean([found.get(k) for k in column.mean_of]) if column.mean_of else _pick(column, line)
    return found


def _pick(column: TableColumn, line: TaskGroup) -> ScoreCell | None:
    task = line.tasks.get((column.part, column.open_ended))
    if task is None and column.open_ended:  # n-gram metrics may also come with the canonical task
        task = line.tasks.get((column.part, False))
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
        case (_, group, name):
            return task.breakdowns.get(group, {}).get(name)
    raise ValueError(f"column {column.key}: unknown place {column.place}")


def mean(cells: Sequence[ScoreCell | None]) -> ScoreCell | None:
    """The unweighted mean of parts; None if one is absent. Its interval takes the parts as independent.

    `clusters`: of the part with the fewest.
    """
    have = [c for c in cells if c is not None]
    if not have or len(have) < len(cells):
        return None
    official = [c.official for c in have if c.official is not None]
    strict = [c.strict for c in have if c.strict is not None]
    judges = dict.fromkeys(c.judge for c in have if c.judge)
    value = sum(official) / len(have) if len(official) == len(have) else None
    intervals = [(c.official, c.ci) for c in have if c.official is not None and c.ci is not None]
    ci = None
    if value is not None and len(intervals) == len(have):
        low = math.sqrt(sum((v - c[0]) ** 2 for v, c in intervals)) / len(have)
        high = math.sqrt(sum((c[1] - v) ** 2 for v, c in intervals)) / len(have)
        ci = (value - low, value + high)
    return ScoreCell(
        official=value,
        strict=sum(strict) / len(have) if len(strict) == len(have) else None,
        ci=ci,
        n=sum(c.n for c in have),
        n_ok=sum(c.n_ok for c in have),
        n_unparsed=sum(c.n_unparsed for c in have),
        n_unscored=sum(c.n_unscored for c in have),
        judge=" + ".join(judges) or None,
        partial=any(c.partial for c in have),
        clusters=min((c.clusters for c in have if c.clusters is not None), default=None),
    )


Rows = list[tuple[TaskGroup, str, dict[str, ScoreCell | None]]]  # a line, what stands after its label, its figures


def fits(shape: TableLayout, line: TaskGroup) -> bool:
    """Whether a line belongs to a table at all: other orders of options, and other distractors, are other questions."""
    if shape.circular or line.circular:
        return shape.circular and line.circular
    if shape.sets:
        return line.distractors is not None
    return line.distractors == ALL or line.distractors not in SETS


def rows_of(shape: TableLayout, lines: Sequence[TaskGroup]) -> Rows:
    """The rows that some lines make in a table."""
    if shape.kinds:
        return _kind_rows(shape, lines)
    if shape.sets:
        return _set_rows(shape, lines)
    return [(line, "", cells_of(shape, line)) for line in lines]


def _set_rows(shape: TableLayout, lines: Sequence[TaskGroup]) -> Rows:
    """AutoDrive-QA Table 8: a row a set of distractors, those of a run together, in the paper's order.

    No rows where there is but the benchmark itself and nobody rated it: then another table says all.
    """
    order = {name: place for place, name in enumerate(SETS)}
    runs = list(dict.fromkeys(line.run.folder for line in lines))
    placed = sorted(
        ((line, str(line.distractors), cells_of(shape, line)) for line in lines),
        key=lambda row: (runs.index(row[0].run.folder), order.get(row[1], len(SETS))),
    )
    rated = any(t.correctness is not None for line in lines for t in line.used(shape.parts))
    if not rated and all(name == ALL for _, name, _ in placed):
        return []
    return [(line, kind_title(name), cells) for line, name, cells in placed]


def _kind_rows(shape: TableLayout, lines: Sequence[TaskGroup]) -> Rows:
    """A row a kind of distractor: its share of the wrong answers (AutoDrive-QA Table 7), or how often it was taken."""
    figure = _share if shape.kinds == "share" else _rate
    rows: Rows = []
    for line in lines:
        tasks = {c.key: task for c in shape.columns if (task := line.tasks.get((c.part, False)))}
        if not any(sum(task.error_kinds.values()) for task in tasks.values()):
            continue
        others = sorted({kind for t in tasks.values() for kind in (*t.error_kinds, *t.kinds)} - ERROR_KINDS.keys())
        for kind in (*ERROR_KINDS, *others):
            rows.append((line, kind_title(kind), {key: figure(task, kind) for key, task in tasks.items()}))
    return rows


def kind_title(kind: str) -> str:
    """In words, of a kind of distractor or of a set of distractors."""
    return "All kinds" if kind == ALL else ERROR_KINDS.get(kind, kind.replace("_", " ").capitalize())


def _share(task: TaskSummary, kind: str) -> ScoreCell | None:
    """A summary of an earlier version has counts without intervals."""
    total = sum(task.error_kinds.values())
    if not total:
        return None
    if kind in task.kinds:
        return task.kinds[kind].share
    n = task.error_kinds.get(kind, 0)
    return ScoreCell(100 * n / total, None, None, n=n, n_ok=n, n_unparsed=0, n_unscored=0)


def _rate(task: TaskSummary, kind: str) -> ScoreCell | None:
    return task.kinds[kind].rate if kind in task.kinds else None
