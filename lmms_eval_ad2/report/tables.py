"""Grids as text for a terminal or as Markdown.

A run takes two lines in a text table: the benchmark's own rules with the 95 % interval of
headline figures, and beneath it the strict ones. In Markdown both stand in one cell.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from lmms_eval_ad2.errors import require
from lmms_eval_ad2.metrics.intervals import METHOD
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, grids
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell
from lmms_eval_ad2.report.task_groups import data_notes

NONE = "–"
WIDTH = 120  # of lines of prose in a terminal
NGRAM = "– (n-gram metrics only)"
LEGEND = (
    "First line: as the benchmark's own rules count [95 % interval]. Second line, 'strict': everything unread or "
    "unscored counts as the worst score. – : no figure. Figures of different judges stand in different columns."
)
LEGEND_MARKDOWN = (
    "official [95 % interval] / strict: official as the benchmark's own rules count, strict with everything unread or "
    "unscored as the worst score. – : no figure. Figures of different judges stand in different columns."
)

LEGEND_PAGE = (
    "Upper figure: as the benchmark's own rules count, with its 95 % interval. Lower figure: strict, everything unread "
    "or unscored counts as the worst score. – : no figure. † : a mean over fewer columns than the paper's. "
    "Figures of different judges stand in different columns. Point at a figure to see its counts."
)
INTERVALS = (
    "Intervals: each cluster (a scene or an image, with all questions on it) is left out in turn (jackknife), and few "
    "clusters widen the interval (Student's t)."
)
NO_INTERVAL = "[no interval: 1 cluster]"


def render(
    runs: Sequence[RunSummary], *, published: bool = True, markdown: bool = False, breakdowns: bool = False
) -> str:  # fmt: skip
    """All tables of `runs` with the papers' figures beneath (`published`), and a list of every task with its counts.

    `breakdowns`: also those by sub-task, source, weather and severity.
    """
    said = about_intervals(runs)
    if markdown:
        blocks = [LEGEND_MARKDOWN, escape(said)]
    else:
        blocks = [f"{textwrap.fill(LEGEND, WIDTH)}\n{textwrap.fill(said, WIDTH)}"]
    blocks += [_grid(grid, markdown) for grid in grids(runs, with_published=published)]
    blocks += [_grid(grid, markdown) for grid in (breakdown_grids(runs) if breakdowns else ())]
    blocks.append(_overview(runs, markdown))
    return printable("\n\n".join(blocks)) + "\n"


def about_intervals(runs: Sequence[RunSummary]) -> str:
    """How the intervals were made, and where to find over how many clusters."""
    other = [run.name for run in runs if any(task.interval_method != METHOD for task in run.tasks.values())]
    text = f"{INTERVALS} Their number stands in the table of all tasks."
    if not other:
        return text
    names = ", ".join(other)
    return f"{text} Those of {names} are an earlier version's bootstrap, too narrow below 20 clusters: see ad2 rescore."


def number(value: float | None, decimals: int = 1) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def span(ci: tuple[float, float] | None, clusters: int | None, sign: str = "") -> str:
    """ " [55.1, 59.4]", or why there is no interval; `sign`: "+" for differences."""
    if ci:
        return f" [{ci[0]:{sign}.1f}, {ci[1]:{sign}.1f}]"
    return f" {NO_INTERVAL}" if clusters == 1 else ""


def interval(cell: ScoreCell) -> str:
    """ "57.3 [55.1, 59.4]"; without an interval the figure alone (or why), without a figure a dash and why."""
    if cell.official is None:
        missing = [f"{n} {word}" for n, word in ((cell.n_unparsed, "unparsed"), (cell.n_unscored, "unscored")) if n]
        return f"{NONE} ({', '.join(missing)})" if missing else NONE
    mark = "†" if cell.partial else ""
    return f"{number(cell.official)}{mark}{span(cell.ci, cell.clusters)}"


def official(cell: ScoreCell | None, row: GridRow, column: GridColumn, grid: ResultGrid) -> str:
    """The text of a figure under the benchmark's own rules."""
    if cell is None:
        return NONE if row.kind != "published" else ""
    if row.kind == "published":
        return number(cell.official, grid.decimals)
    if grid.kinds:
        # Of a share the number of choices; of a rate also out of how many.
        return f"{interval(cell)} ({cell.n if cell.n == cell.n_ok else f'{cell.n_ok} of {cell.n}'})"
    if column.headline or column.interval or cell.official is None:
        return interval(cell)
    return number(cell.official, column.decimals) + ("†" if cell.partial else "")


def clusters(cell: ScoreCell) -> str:
    return NONE if cell.clusters is None else str(cell.clusters)


def tip(cell: ScoreCell) -> str:
    """All that is known of a figure, in words."""
    text = f"n {cell.n}: {cell.n_ok} ok, {cell.n_unparsed} unparsed, {cell.n_unscored} unscored"
    if cell.ci:
        text += f"; 95 % interval {number(cell.ci[0])} to {number(cell.ci[1])}"
    if cell.clusters is not None:
        text += f"; {cell.clusters} cluster{'' if cell.clusters == 1 else 's'}"
    return text + (f"; {cell.reason}" if cell.reason else "")


def counts(row: GridRow) -> tuple[str, str]:
    """ "400" and "2 / 1": how many samples, and how many of them unparsed / unscored."""
    return ("", "") if row.n is None else (str(row.n), f"{row.n_unparsed} / {row.n_unscored}")


def _grid(grid: ResultGrid, markdown: bool) -> str:
    headers = _leading(
        grid, "Model", "n (unparsed / unscored)" if markdown else "n (unparsed\n/ unscored)", "Views", "Data", "Judge"
    )
    headers += [c.heading if markdown else _stacked(c) for c in grid.columns]
    rows = [(_markdown_row if markdown else _text_row)(row, grid) for row in grid.rows]
    title = grid.title + (f" (shape of {grid.source})" if grid.source else "")
    lines = [f"### {escape(title)}\n" if markdown else title]
    if grid.caption:
        lines.append(f"{escape(grid.caption)}\n" if markdown else textwrap.fill(grid.caption, WIDTH))
    lines.append(table(headers, rows, markdown))
    for i, note in enumerate(grid.notes):
        wrapped = textwrap.fill(note, WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines.append(("\n- " if i == 0 else "- ") + escape(note) if markdown else wrapped)
    return "\n".join(lines)


def _leading(grid: ResultGrid, label: str, n: str, views: str, data: str, judge: str) -> list[str]:
    """The columns before the figures; data and judge stand in the caption where all rows share them."""
    optional = ((grid.views, views), (grid.data_column, data), (grid.judge_column, judge))
    return [label, *([] if grid.kinds else [n]), *(text for shown, text in optional if shown)]


def _stacked(column: GridColumn) -> str:
    judge = (column.judge or "").replace("; ", ";\n").replace("paper: ", "paper:\n")
    return f"{column.title}\n[{judge}]" if judge else column.title


def _text_row(row: GridRow, grid: ResultGrid) -> list[str]:
    if row.kind == "published":
        return [*_leading(grid, f"published: {row.label}", "", row.views, row.data, ""), *_officials(row, grid)]
    data = f"{row.data}\n{row.note}" if row.note else row.data
    if grid.kinds:
        return [*_leading(grid, row.label, "", row.views, data, NONE), *_officials(row, grid)]
    n, bad = counts(row)
    strict = [number(c.strict) if c is not None and c.strict is not None else "" for c in row.cells]
    cells = [f"{a}\n{b}" if b else a for a, b in zip(_officials(row, grid), strict, strict=True)]
    return [*_leading(grid, f"{row.label}\n· strict", f"{n}\n({bad})", row.views, data, row.judge or NONE), *cells]


def _markdown_row(row: GridRow, grid: ResultGrid) -> list[str]:
    if row.kind == "published":
        leading = _leading(grid, f"*published:* {row.label}", "", row.views, row.data, "")
        return [escape(c) for c in (*leading, *_officials(row, grid))]
    n, bad = counts(row)
    cells = [
        f"{a} / {number(c.strict)}" if c is not None and c.strict is not None else a
        for a, c in zip(_officials(row, grid), row.cells, strict=True)
    ]
    data = f"{row.data} ({row.note})" if row.note else row.data
    leading = _leading(grid, row.label, f"{n} ({bad})" if n else "", row.views, data, row.judge or NONE)
    return [escape(c) for c in (*leading, *cells)]


def _officials(row: GridRow, grid: ResultGrid) -> list[str]:
    return [official(c, row, column, grid) for c, column in zip(row.cells, grid.columns, strict=True)]


def _overview(runs: Sequence[RunSummary], markdown: bool) -> str:
    headers = [
        "Run",
        "Task",
        "Data",
        "sha256",
        "Judge",
        "Score",
        "Clusters",
        "Strict",
        "n",
        "ok",
        "unparsed",
        "unscored",
        "Reasons",
    ]
    rows = []
    for run in runs:
        for task in run.tasks.values():
            data = " ".join(str(task.data.get(k, "")) for k in ("name", "split"))
            s = task.score
            why = ", ".join(f"{reason} {n}" for reason, n in task.reasons.items())
            rows.append([
                run.name, task.name, data, str(task.data.get("sha256", ""))[:8], task.judge or NONE,
                NGRAM if task.open_ended else interval(s),
                clusters(s), number(s.strict), str(s.n), str(s.n_ok), str(s.n_unparsed), str(s.n_unscored), why,
            ])  # fmt: skip
    title = "All tasks"
    shown = [[escape(c) for c in row] for row in rows] if markdown else rows
    notes = "\n".join(f"- {escape(n)}" if markdown else f"  {n}" for n in warnings(runs))
    text = (f"### {title}\n\n" if markdown else f"{title}\n") + table(headers, shown, markdown)
    return text + (f"\n\n{notes}" if notes and markdown else f"\n{notes}" if notes else "")


def warnings(runs: Iterable[RunSummary]) -> list[str]:
    """What must be known of the data before any figure is read, with the runs that it is true of."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for task in run.tasks.values():
            name = str(task.data.get("name", "?"))
            for note in data_notes(name, run.about.get("limit"), task.maker):
                found.setdefault(f"{name}: {note}", []).append(run.name)
    return [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> str:
    """A plain table: aligned text, or Markdown (cells already escaped)."""
    tabulate = require("tabulate", "tables").tabulate
    clean = [[printable(c) for c in row] for row in rows]  # first, or the widths would be wrong
    text = tabulate(
        clean, [printable(h) for h in headers], tablefmt="pipe" if markdown else "simple", disable_numparse=True
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def printable(text: str) -> str:
    """Without control characters (a label could otherwise rewrite the terminal); line breaks stay."""
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf"))


def escape(text: str) -> str:
    """Text for a Markdown cell: nothing in a label may open a column, a tag or a link."""
    for char in "\\`|":
        text = text.replace(char, "\\" + char)
    text = text.replace("<", "&lt;").replace(">", "&gt;").replace("](", "]\\(")
    return text.replace("\n", " ")
