"""Result tables as text for a terminal, as Markdown and for the page.

In a terminal a run has one row per table, and no line is above 100 columns: the number of answers with those unparsed
and unscored, the official scores, the 95 % interval of the main score, and the strict main score. Rows on different
data or of different judges, and the papers' rows, are in tables of their own, so that no column is nearly empty.
Columns that do not fit are left out and named. `ad2 report --wide`, Markdown and the page have them all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from lmms_eval_ad2.core.coordinates import misfit_warnings
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report.breakdowns import breakdown_grids, repeat_grids
from lmms_eval_ad2.report.cell_text import NGRAM, NONE, interval, number, tip
from lmms_eval_ad2.report.floors import meaning_of_floors, missing_floors
from lmms_eval_ad2.report.grid import NO_JUDGE, GridColumn, GridRow, ResultGrid, grids
from lmms_eval_ad2.report.published import PublishedTable
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell
from lmms_eval_ad2.report.table import NARROW, WIDE, WIDTH, Table, TableCell, columns_of, escape, wrapped
from lmms_eval_ad2.report.table_layouts import ErrorKinds
from lmms_eval_ad2.report.task_groups import data_notes, form_note, language_note, trained_note
from lmms_eval_ad2.scoring.metrics.intervals import METHOD

PAPER = "paper: "  # before the judge of published figures
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
LEGEND_WIDE = (
    "First line: scores under the benchmark's own rules [95 % interval]. Second line, 'strict': unparsed and unscored "
    f"answers count as the worst score. – : no value. Scores of different judges are in different columns. {MEAN}"
)
LEGEND_MARKDOWN = (
    "official [95 % interval] / strict: official under the benchmark's own rules, strict with unparsed and unscored "
    f"answers as the worst score. – : no value. Scores of different judges are in different columns. {MEAN}"
)
LEGEND_PAGE = (
    "Upper value: score under the benchmark's own rules, with its 95 % interval. Lower value: strict, unparsed and "
    "unscored answers count as the worst score. – : no value. † : a mean over fewer columns than the paper's. "
    f"Scores of different judges are in different columns. Hover over a value to see its counts. {MEAN}"
)
INTERVALS = (
    "Intervals: each cluster (a scene or an image, with all questions on it) is left out in turn (jackknife), and few "
    "clusters widen the interval (Student's t)."
)
COUNTED = " The number of clusters is in the table of all tasks."


def render(
    runs: Sequence[RunSummary], *, published: bool = False, markdown: bool = False, breakdowns: bool = False,
    wide: bool = False, kinds: ErrorKinds = "all", own: Mapping[str, PublishedTable] | None = None,
) -> str:  # fmt: skip
    """Return all tables of `runs`, with one compact row per run and table, or with all columns.

    published: with the papers' figures; own: those of a user's benchmarks. markdown, wide: with all columns, and a list
    of all tasks with their counts. breakdowns: with tables by sub-task, source, weather and severity. kinds: of wrong
    options, as in `grid.grids`.
    """
    intervals = about_intervals(runs)
    found = [*grids(runs, with_published=published, kinds=kinds, own=own), *repeat_grids(runs)]
    found += breakdown_grids(runs) if breakdowns else []
    if not (markdown or wide):
        blocks = [wrapped(f"{LEGEND} {intervals}", WIDTH), *map(compact, found)]
        blocks.append("\n".join(wrapped(note, WIDTH, "  ") for note in [*warnings(runs), MORE]))
    elif markdown:
        tables = [*(whole(grid, "markdown") for grid in found), replace(overview(runs), notes=warnings(runs))]
        blocks = [LEGEND_MARKDOWN, escape(intervals + COUNTED), *(table.block(None) for table in tables)]
    else:
        blocks = [f"{textwrap.fill(LEGEND_WIDE, WIDE)}\n{textwrap.fill(intervals + COUNTED, WIDE)}"]
        blocks += [_wide(whole(grid, "text")) for grid in found]
        blocks.append("\n".join([_wide(overview(runs)), *(f"  {note}" for note in warnings(runs))]))
    return printable("\n\n".join(blocks)) + "\n"


def as_json(
    runs: Sequence[RunSummary], *, published: bool = True, kinds: ErrorKinds = "all",
    own: Mapping[str, PublishedTable] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The figures of all tables and tasks."""
    found = [*grids(runs, with_published=published, kinds=kinds, own=own), *repeat_grids(runs)]
    return {
        "runs": [{"folder": str(r.folder), "name": r.name, "role": r.role, "run": dict(r.about)} for r in runs],
        "tables": [asdict(grid) for grid in found],
        "tasks": [{"run": r.name, **asdict(task)} for r in runs for task in r.tasks.values()],
    }


def about_intervals(runs: Sequence[RunSummary]) -> str:
    """Explain how the intervals were computed."""
    other = [run.name for run in runs if any(task.interval_method != METHOD for task in run.tasks.values())]
    if not other:
        return INTERVALS
    return (
        f"{INTERVALS} Those of {', '.join(other)} are bootstrap intervals of an earlier version, too narrow below 20 "
        "clusters: see ad2 rescore."
    )


def warnings(runs: Sequence[RunSummary]) -> list[str]:
    """Remarks on the data and the coordinate frames of all runs, with the names of the runs concerned."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for task in run.tasks.values():
            name = str(task.data.get("name", "?"))
            for note in data_notes(name, run.about.get("limit"), task.maker):
                found.setdefault(f"{name}: {note}", []).append(run.name)
            for note in filter(None, (trained_note([task]), language_note(task), form_note(task))):
                found.setdefault(f"{task.name}: {note}", []).append(run.name)
    notes = [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]
    for run in runs:
        notes += misfit_warnings({f"{run.name}, {task.name}": task.coordinates for task in run.tasks.values()})
    return notes + meaning_of_floors(runs) + missing_floors(runs)


# --- all columns ---


def _wide(table: Table) -> str:
    """Title, caption, table and notes without a limit of the width."""
    caption = [textwrap.fill(line, WIDE) for line in table.caption]
    notes = [textwrap.fill(note, WIDE, initial_indent="  ", subsequent_indent="    ") for note in table.notes]
    return "\n".join([table.title, *caption, table.plain(), *notes])


def whole(grid: ResultGrid, form: Literal["text", "markdown", "page"]) -> Table:
    """The table with all columns. A cell has both scores of a run, on the page with the interval and counts apart."""
    counted = "n (unparsed / unscored)" if form == "markdown" else "n (unparsed\n/ unscored)"
    leading = (
        ("Model", "l", True), (counted, "r", not grid.kinds), ("Views", "l", grid.views),
        ("Data", "l", grid.data_column), ("Judge", "l", grid.judge_column),
    )  # fmt: skip
    rows = []
    for row in grid.rows:
        first = [cell for cell, (_, _, shown) in zip(_leading(row, form), leading, strict=True) if shown]
        cells = zip(row.cells, grid.columns, strict=True)
        rows.append([*first, *(_whole_cell(cell, row, column, grid, form) for cell, column in cells)])
    kept = [column for column in leading if column[2]]
    headings = [column.heading if form == "markdown" else _stacked(column) for column in grid.columns]
    return Table(
        [*(title for title, _, _ in kept), *headings],
        rows,
        # Texts and Markdown are read from the left, since a cell has two scores.
        align="".join(letter for _, letter, _ in kept) + "r" * len(headings) if form == "page" else "",
        title=_title(grid),
        caption=[grid.caption] if grid.caption else [],
        notes=grid.notes,
        kinds=[row.kind for row in grid.rows],
    )


def _title(grid: ResultGrid) -> str:
    return grid.title + (f" (layout of {grid.source})" if grid.source else "")


def _stacked(column: GridColumn) -> str:
    judge = (column.judge or "").replace("; ", ";\n").replace("paper: ", "paper:\n")
    return f"{column.title}\n[{judge}]" if judge else column.title


def _leading(row: GridRow, form: str) -> list[TableCell | str]:
    """Label, number of samples with those unparsed / unscored, views, data with a remark, judge."""
    bad = f"{row.n_unparsed} / {row.n_unscored}"
    if row.kind == "published":
        mark = "*published:*" if form == "markdown" else "published:"
        return [f"{mark} {row.label}", "", row.views, row.data, ""]
    judge = row.judge or NONE
    if form == "page":
        return [row.label, TableCell(str(row.n), bad), row.views, TableCell(row.data, row.note), judge]
    if form == "markdown":
        return [row.label, f"{row.n} ({bad})", row.views, f"{row.data} ({row.note})" if row.note else row.data, judge]
    label = row.label if row.n is None else f"{row.label}\n· strict"
    return [label, f"{row.n}\n({bad})", row.views, f"{row.data}\n{row.note}" if row.note else row.data, judge]


def _whole_cell(
    cell: ScoreCell | None, row: GridRow, column: GridColumn, grid: ResultGrid, form: str
) -> TableCell | str:  # fmt: skip
    if cell is None:
        return "" if row.kind == "published" else NONE
    spanned = bool(grid.kinds) or column.headline or column.interval or cell.official is None
    text = _score(cell, row, column, grid, spanned=spanned)
    strict = "" if cell.strict is None else number(cell.strict)
    if form == "page":
        figure, _, span = text.partition(" [")
        below = [*([f"[{span}"] if span else []), *([f"{strict} strict"] if strict else [])]
        tipped = row.kind != "published" and not grid.kinds
        return TableCell(figure, "\n".join(below), marked=column.headline, tip=tip(cell) if tipped else "")
    return text + (f" / {strict}" if form == "markdown" else f"\n{strict}") if strict else text


def _score(cell: ScoreCell, row: GridRow, column: GridColumn, grid: ResultGrid, *, spanned: bool) -> str:
    """The score under the benchmark's own rules; `spanned`: with its interval."""
    if row.kind == "published":
        return number(cell.official, grid.decimals)
    text = interval(cell) if spanned else number(cell.official, column.decimals) + ("†" if cell.partial else "")
    if grid.kinds:  # a share has the number of choices; a rate also the number of offers
        text += f" ({cell.n if cell.n == cell.n_ok else f'{cell.n_ok} of {cell.n}'})"
    return text


def overview(runs: Sequence[RunSummary]) -> Table:
    """All tasks with their counts."""
    headers = ["Run", "Task", "Data", "sha256", "Judge", "Score", "Clusters", "Strict", "n", "ok", "unparsed",
               "unscored", "partly", "Reasons"]  # fmt: skip
    rows = []
    for run in runs:
        for task in run.tasks.values():
            s = task.score
            rows.append([
                run.name, task.name, " ".join(str(task.data.get(k, "")) for k in ("name", "split")),
                str(task.data.get("sha256", ""))[:8], task.judge or NONE, NGRAM if task.open_ended else interval(s),
                NONE if s.clusters is None else str(s.clusters), number(s.strict),
                *map(str, (s.n, s.n_ok, s.n_unparsed, s.n_unscored, s.n_partly)),
                ", ".join(f"{reason} {n}" for reason, n in task.reasons.items()),
            ])  # fmt: skip
    return Table(headers, rows, title="All tasks")


# --- one row per model in 100 columns ---

CompactForm = tuple[tuple[int, ...], bool, bool]  # columns of the grid; main scores with intervals; a strict column


def compact(grid: ResultGrid) -> str:
    """The table with its title and notes."""
    lines = [wrapped(_title(grid), WIDTH, "  ")]
    if grid.caption:
        lines.append(wrapped(grid.caption, WIDTH, "  "))
    ours = [row for row in grid.rows if row.kind != "published"]
    parts: dict[str, list[GridRow]] = {}
    for row in ours:
        parts.setdefault(_part(row, grid), []).append(row)
    for name, rows in parts.items():
        lines += ["", wrapped(name, WIDTH, "  ")] if name else []
        lines += _compact_table(_of_rows(grid, rows))
    if len(ours) < len(grid.rows):
        published = [row for row in grid.rows if row.kind == "published"]
        lines += ["", "Published:", *_compact_table(_of_rows(grid, published))]
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
    caption = f"* rated by {judges.pop().removeprefix(PAPER)}" if len(judges) == 1 else ""
    return replace(grid, columns=tuple(columns), rows=tuple(cut), caption=caption)


def _compact_table(grid: ResultGrid) -> list[str]:
    """The table in the widest form that fits: other columns go first, the last one first, then strict scores and
    intervals; more main columns than fit are in several blocks."""
    every, main = tuple(range(len(grid.columns))), _main(grid)
    others = [i for i in every if i not in main]
    forms: list[CompactForm] = [(every, True, True)]
    if main:
        gone = [others[len(others) - n :] for n in range(len(others) + 1)]
        forms = [(tuple(i for i in every if i not in left_out), True, True) for left_out in gone]
        forms += [(main, True, False), (main, False, True), (main, False, False)]
    last: CompactForm = (main or every, not main, False)
    columns, intervals, strict = next((form for form in forms if _fits(_compact_form(grid, form))), last)
    lines = [_compact_form(grid, (columns, intervals, strict)).within(WIDTH)]
    out = [column.heading for i, column in enumerate(grid.columns) if i not in columns]
    out += ["strict"] if not strict and any(_strict(row, grid) for row in grid.rows) else []
    out += ["intervals"] if not intervals else []
    lines += [wrapped(f"  {grid.caption}", WIDTH, "    ")] if grid.caption else []
    return lines + ([wrapped(f"  Left out here, see --wide: {', '.join(out)}", WIDTH, "    ")] if out else [])


def _main(grid: ResultGrid) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(grid.columns) if column.main)


def _fits(table: Table) -> bool:
    """True if the table is one block with room for the names of models; longer names are wrapped."""
    longest = max(columns_of(str(row[0])) for row in table.rows)
    rows = [["x" * min(NARROW, longest), *row[1:]] for row in table.rows]
    return "\n\n" not in Table(table.headers, rows, "r" * len(table.align)).within(WIDTH)  # no text to be wrapped


def _compact_form(grid: ResultGrid, form: CompactForm) -> Table:
    places, intervals, strict = form
    main = _main(grid)
    strict = strict and any(_strict(row, grid) for row in grid.rows)
    counted = not grid.kinds and any(row.n is not None for row in grid.rows)
    views = grid.views and any(row.views for row in grid.rows)
    columns = [grid.columns[i] for i in places]
    headers = ["Model", *(["n (u/s)"] if counted else []), *(["Views"] if views else [])]
    headers += [f"{column.title}\n[{column.judge}]" if column.judge else column.title for column in columns]
    rows = []
    for row in grid.rows:
        cells = [row.label]
        if counted:
            cells.append("" if row.n is None else f"{row.n} ({row.n_unparsed}/{row.n_unscored})")
        cells += [row.views] if views else []
        for i, column in zip(places, columns, strict=True):
            cell = row.cells[i]
            spanned = not grid.kinds and ((column.main and intervals) or (column.interval and not main))
            known = cell is not None and cell.official is not None
            cells.append(_score(cell, row, column, grid, spanned=spanned) if cell and known else NONE)
        rows.append([*cells, *([_strict(row, grid)] if strict else [])])
    align = "l" + "r" * counted + "l" * views + "r" * (len(columns) + strict)
    return Table(headers + (["strict"] if strict else []), rows, align)


def _strict(row: GridRow, grid: ResultGrid) -> str:
    """The strict main scores of a row, one per main column with a value."""
    cells = [] if row.kind == "published" else [row.cells[i] for i in _main(grid)]
    return " / ".join(number(cell.strict) for cell in cells if cell is not None and cell.strict is not None)
