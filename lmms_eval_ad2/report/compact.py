"""The tables of a terminal: one row per model, no line above 100 columns.

A row has the number of answers with those unparsed and unscored, the official scores, the 95 % interval of the main
score, and the strict main score. Rows on different data or of different judges, and the papers' rows, are in tables of
their own, so that no column is nearly empty. Columns that do not fit are left out and named; `ad2 report --wide`
(tables.py) has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmms_eval_ad2.report.cell_text import NONE, interval, number
from lmms_eval_ad2.report.grid import NO_JUDGE, GridColumn, GridRow, ResultGrid
from lmms_eval_ad2.report.text_table import NARROW, TextTable, columns_of, wrapped

WIDTH = 100  # columns of a terminal
PAPER = "paper: "  # before the judge of published figures
LABEL = NARROW  # columns of a model's name below which other columns are left out; longer names are wrapped
MEAN = (
    "A score over several columns is their mean, as in the papers, not the mean over samples as in ad2 report compare."
)
LEGEND = (
    "Official scores; the main score with its 95 % interval. (u/s): unparsed / unscored answers. strict: the main "
    f"score if these count as the worst. – : no value. {MEAN}"
)
MORE = (
    "ad2 report RUN... --published: with the papers' figures; --wide: all columns, intervals, strict scores, and all "
    "tasks with their counts; --unparsed: the replies that could not be read."
)


@dataclass(frozen=True)
class CompactLayout:
    """What a table shows. columns: positions in the grid; intervals: of the main scores; strict: the strict column."""

    columns: tuple[int, ...]
    intervals: bool = True
    strict: bool = True


def render(grid: ResultGrid) -> str:
    """The table with its title and notes."""
    title = grid.title + (f" (layout of {grid.source})" if grid.source else "")
    lines = [wrapped(title, WIDTH, "  ")]
    if grid.caption:
        lines.append(wrapped(grid.caption, WIDTH, "  "))
    ours = [row for row in grid.rows if row.kind != "published"]
    parts: dict[str, list[GridRow]] = {}
    for row in ours:
        parts.setdefault(_part(row, grid), []).append(row)
    for name, rows in parts.items():
        lines += ["", wrapped(name, WIDTH, "  ")] if name else []
        lines += _table(_of_rows(grid, rows))
    if len(ours) < len(grid.rows):
        lines += ["", "Published:", *_table(_of_rows(grid, [row for row in grid.rows if row.kind == "published"]))]
    return "\n".join([*lines, *(wrapped(f"  {note}", WIDTH, "    ") for note in grid.notes)])


def _part(row: GridRow, grid: ResultGrid) -> str:
    """The data and judge of a row, as far as the rows of the grid differ in them."""
    found = []
    if grid.data_column:
        found.append(f"Data: {row.data}, {row.note}" if row.note else f"Data: {row.data}")
    if grid.judge_column:
        found.append(f"Judge: {row.judge or 'none'}")
    return ". ".join(found)


def _of_rows(grid: ResultGrid, rows: Sequence[GridRow]) -> ResultGrid:
    """The grid with these rows and the columns in which they have values.

    Without the mean of all columns, each headline is main. * marks the columns of the only judge.
    """
    kept = [i for i in range(len(grid.columns)) if any(row.cells[i] is not None for row in rows)]
    cut = [replace(row, cells=tuple(row.cells[i] for i in kept)) for row in rows]
    columns = [grid.columns[i] for i in kept]
    if not any(column.main for column in columns):
        columns = [replace(column, main=column.headline) for column in columns]
    judges = {column.judge for column in columns if column.judge}
    if judges == {NO_JUDGE}:
        columns, judges = [replace(c, judge=None) for c in columns], set()
    if len(judges) == 1:
        columns = [replace(c, title=f"{c.title}*", judge=None) if c.judge else c for c in columns]
    return replace(
        grid,
        columns=tuple(columns),
        rows=tuple(cut),
        caption=f"* rated by {judges.pop().removeprefix(PAPER)}" if len(judges) == 1 else "",
    )


def _table(grid: ResultGrid) -> list[str]:
    layout = next((one for one in _layouts(grid) if _fits(grid, one)), None)
    if layout is None:  # more main columns than fit: in several blocks
        layout = CompactLayout(_main(grid) or tuple(range(len(grid.columns))), intervals=not _main(grid), strict=False)
    lines = [_text_table(grid, layout).within(WIDTH)]
    out = [column.heading for i, column in enumerate(grid.columns) if i not in layout.columns]
    out += ["strict"] if not layout.strict and any(_strict(row, grid) for row in grid.rows) else []
    out += ["intervals"] if not layout.intervals else []
    if grid.caption:
        lines.append(wrapped(f"  {grid.caption}", WIDTH, "    "))
    if out:
        lines.append(wrapped(f"  Left out here, see --wide: {', '.join(out)}", WIDTH, "    "))
    return lines


def _layouts(grid: ResultGrid) -> list[CompactLayout]:
    """Layouts from the widest to the narrowest: other columns go first, the last one first."""
    every, main = tuple(range(len(grid.columns))), _main(grid)
    others = [i for i in every if i not in main]
    if not main:
        return [CompactLayout(every)]
    found = []
    for left_out in range(len(others) + 1):
        gone = others[len(others) - left_out :]
        found.append(CompactLayout(tuple(i for i in every if i not in gone)))
    narrow = [CompactLayout(main, strict=False), CompactLayout(main, intervals=False)]
    return [*found, *narrow, CompactLayout(main, intervals=False, strict=False)]


def _main(grid: ResultGrid) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(grid.columns) if column.main)


def _fits(grid: ResultGrid, layout: CompactLayout) -> bool:
    """Whether the table is one block with room for the names of models."""
    table = _text_table(grid, layout)
    longest = max(columns_of(str(row[0])) for row in table.rows)
    narrow = replace(table, rows=[["x" * min(LABEL, longest), *row[1:]] for row in table.rows])
    text = replace(narrow, align="r" * len(table.align)).within(WIDTH)  # no column of text to be wrapped
    return "\n\n" not in text


def _text_table(grid: ResultGrid, layout: CompactLayout) -> TextTable:
    columns = [grid.columns[i] for i in layout.columns]
    strict = layout.strict and any(_strict(row, grid) for row in grid.rows)
    counted = not grid.kinds and any(row.n is not None for row in grid.rows)
    views = grid.views and any(row.views for row in grid.rows)
    headers = ["Model", *(["n (u/s)"] if counted else []), *(["Views"] if views else [])]
    align = "l" + "r" * counted + "l" * views + "r" * (len(columns) + strict)
    headers += [_heading(column) for column in columns] + (["strict"] if strict else [])
    rows = []
    for row in grid.rows:
        cells = [_cell(row, i, grid, layout.intervals) for i in layout.columns]
        count = f"{row.n} ({row.n_unparsed}/{row.n_unscored})" if row.n is not None else ""
        leading = [row.label, *([count] if counted else []), *([row.views] if views else [])]
        rows.append([*leading, *cells, *([_strict(row, grid)] if strict else [])])
    return TextTable(headers, rows, align)


def _heading(column: GridColumn) -> str:
    return f"{column.title}\n[{column.judge}]" if column.judge else column.title


def _cell(row: GridRow, place: int, grid: ResultGrid, intervals: bool) -> str:
    cell, column = row.cells[place], grid.columns[place]
    if cell is None or cell.official is None:
        return NONE
    if row.kind == "published":
        return number(cell.official, grid.decimals)
    if grid.kinds:  # a share has the number of choices, a rate also the number of offers
        return f"{number(cell.official)} ({cell.n if cell.n == cell.n_ok else f'{cell.n_ok} of {cell.n}'})"
    if (column.main and intervals) or (column.interval and not _main(grid)):
        return interval(cell)
    return number(cell.official, column.decimals) + ("†" if cell.partial else "")


def _strict(row: GridRow, grid: ResultGrid) -> str:
    """The strict main scores of a row, one per main column with a value."""
    if row.kind == "published":
        return ""
    cells = [row.cells[i] for i in _main(grid)]
    return " / ".join(number(cell.strict) for cell in cells if cell is not None and cell.strict is not None)
