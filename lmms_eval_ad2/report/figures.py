"""Which figures a line brings to a table: picked from its tasks, averaged over parts, or counted by kind of error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_eval_ad2.report.lines import Line
from lmms_eval_ad2.report.runs import Cell
from lmms_eval_ad2.report.shapes import ERROR_KINDS, Column, Shape


def with_extras(shape: Shape, lines: Sequence[Line]) -> Shape:
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
    added = (Column(n, f"{n.replace('_', ' ').capitalize()} ({outside})", part, (*place, n)) for n in names)
    return replace(shape, columns=(*shape.columns, *added))


def cells_of(shape: Shape, line: Line) -> dict[str, Cell | None]:
    """The figures of a line by column key."""
    found: dict[str, Cell | None] = {}
    for column in shape.columns:
        found[column.key] = mean([found.get(k) for k in column.mean_of]) if column.mean_of else _pick(column, line)
    return found


def _pick(column: Column, line: Line) -> Cell | None:
    task = line.tasks.get((column.part, column.open_ended))
    if task is None and column.open_ended:  # n-gram metrics may also come with the canonical task
        task = line.tasks.get((column.part, False))
    if task is None:
        return None
    match column.place:
        case ("score",):
            return task.score if not task.open_ended else None
        case ("columns", name):
            return task.columns.get(name)
        case (_, group, name):
            return task.breakdowns.get(group, {}).get(name)
    raise ValueError(f"column {column.key}: unknown place {column.place}")


def mean(cells: Sequence[Cell | None]) -> Cell | None:
    """The unweighted mean of parts; None if one is absent. Its interval takes the parts as independent."""
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
    return Cell(
        official=value,
        strict=sum(strict) / len(have) if len(strict) == len(have) else None,
        ci=ci,
        n=sum(c.n for c in have),
        n_ok=sum(c.n_ok for c in have),
        n_unparsed=sum(c.n_unparsed for c in have),
        n_unscored=sum(c.n_unscored for c in have),
        judge=" + ".join(judges) or None,
        partial=any(c.partial for c in have),
    )


def kind_rows(shape: Shape, lines: Sequence[Line]) -> list[tuple[Line, str, dict[str, Cell | None]]]:
    """AutoDrive-QA Table 7: a row a kind of distractor, in percent of the wrong answers of a part."""
    rows = []
    for line in lines:
        counts = {c.key: task.error_kinds for c in shape.columns if (task := line.tasks.get((c.part, False)))}
        others = sorted({kind for by_kind in counts.values() for kind in by_kind} - ERROR_KINDS.keys())
        if not any(sum(by_kind.values()) for by_kind in counts.values()):
            continue
        for kind in (*ERROR_KINDS, *others):
            rows.append((line, kind_title(kind), {c.key: _share(counts.get(c.key), kind) for c in shape.columns}))
    return rows


def kind_title(kind: str) -> str:
    return ERROR_KINDS.get(kind, kind.replace("_", " ").capitalize())


def _share(counts: Mapping[str, int] | None, kind: str) -> Cell | None:
    total = sum(counts.values()) if counts else 0
    if not counts or not total:
        return None
    n = counts.get(kind, 0)
    return Cell(100 * n / total, None, None, n=n, n_ok=n, n_unparsed=0, n_unscored=0)
