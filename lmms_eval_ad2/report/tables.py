"""Result tables as text for a terminal or as Markdown.

A run has two lines in a text table: scores under the benchmark's own rules, with the 95 % interval of main scores, and
strict scores below. In Markdown both are in one cell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from lmms_eval_ad2.coordinates.misfit import misfit_warnings
from lmms_eval_ad2.metrics.intervals import METHOD
from lmms_eval_ad2.printed import printable
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, grids
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell
from lmms_eval_ad2.report.task_groups import data_notes
from lmms_eval_ad2.report.text_table import TextTable, escape

NONE = "–"
WIDTH = 120  # of lines of prose in a terminal
NGRAM = "– (n-gram metrics only)"
LEGEND = (
    "First line: scores under the benchmark's own rules [95 % interval]. Second line, 'strict': unparsed and unscored "
    "answers count as the worst score. – : no value. Scores of different judges are in different columns."
)
LEGEND_MARKDOWN = (
    "official [95 % interval] / strict: official under the benchmark's own rules, strict with unparsed and unscored "
    "answers as the worst score. – : no value. Scores of different judges are in different columns."
)

LEGEND_PAGE = (
    "Upper value: score under the benchmark's own rules, with its 95 % interval. Lower value: strict, unparsed and "
    "unscored answers count as the worst score. – : no value. † : a mean over fewer columns than the paper's. "
    "Scores of different judges are in different columns. Hover over a value to see its counts."
)
INTERVALS = (
    "Intervals: each cluster (a scene or an image, with all questions on it) is left out in turn (jackknife), and few "
    "clusters widen the interval (Student's t)."
)
NO_INTERVAL = "[no interval: 1 cluster]"


def render(
    runs: Sequence[RunSummary], *, published: bool = True, markdown: bool = False, breakdowns: bool = False
) -> str:  # fmt: skip
    """Return all tables of `runs`, with published results (`published`), and a list of all tasks with their counts.

    `breakdowns`: include tables by sub-task, source, weather and severity.
    """
    intervals = about_intervals(runs)
    if markdown:
        blocks = [LEGEND_MARKDOWN, escape(intervals)]
    else:
        blocks = [f"{textwrap.fill(LEGEND, WIDTH)}\n{textwrap.fill(intervals, WIDTH)}"]
    blocks += [_grid(grid, markdown) for grid in grids(runs, with_published=published)]
    blocks += [_grid(grid, markdown) for grid in (breakdown_grids(runs) if breakdowns else ())]
    blocks.append(_overview(runs, markdown))
    return printable("\n\n".join(blocks)) + "\n"


def about_intervals(runs: Sequence[RunSummary]) -> str:
    """Explain how the intervals were computed."""
    other = [run.name for run in runs if any(task.interval_method != METHOD for task in run.tasks.values())]
    text = f"{INTERVALS} Their number is in the table of all tasks."
    if not other:
        return text
    return (
        f"{text} Those of {', '.join(other)} are bootstrap intervals of an earlier version, too narrow below 20 "
        "clusters: see ad2 rescore."
    )


def number(value: float | None, decimals: int = 1) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def span(ci: tuple[float, float] | None, clusters: int | None, sign: str = "") -> str:
    """Format " [55.1, 59.4]", or the reason for no interval; `sign`: "+" for differences."""
    if ci:
        return f" [{ci[0]:{sign}.1f}, {ci[1]:{sign}.1f}]"
    return f" {NO_INTERVAL}" if clusters == 1 else ""


def interval(cell: ScoreCell) -> str:
    """Format "57.3 [55.1, 59.4]"; without an interval the value (and reason), without a value a dash and the reason."""
    if cell.official is None:
        missing = [f"{n} {word}" for n, word in ((cell.n_unparsed, "unparsed"), (cell.n_unscored, "unscored")) if n]
        return f"{NONE} ({', '.join(missing)})" if missing else NONE
    mark = "†" if cell.partial else ""
    return f"{number(cell.official)}{mark}{span(cell.ci, cell.clusters)}"


def official(cell: ScoreCell | None, row: GridRow, column: GridColumn, grid: ResultGrid) -> str:
    """The text of a cell under the benchmark's own rules."""
    if cell is None:
        return NONE if row.kind != "published" else ""
    if row.kind == "published":
        return number(cell.official, grid.decimals)
    if grid.kinds:
        # A share has the number of choices; a rate also the number of offers.
        return f"{interval(cell)} ({cell.n if cell.n == cell.n_ok else f'{cell.n_ok} of {cell.n}'})"
    if column.headline or column.interval or cell.official is None:
        return interval(cell)
    return number(cell.official, column.decimals) + ("†" if cell.partial else "")


def clusters(cell: ScoreCell) -> str:
    return NONE if cell.clusters is None else str(cell.clusters)


def tip(cell: ScoreCell) -> str:
    """The counts, interval and reason of a cell, as a tool tip."""
    text = f"n {cell.n}: {cell.n_ok} ok, {cell.n_unparsed} unparsed, {cell.n_unscored} unscored"
    if cell.ci:
        text += f"; 95 % interval {number(cell.ci[0])} to {number(cell.ci[1])}"
    if cell.clusters is not None:
        text += f"; {cell.clusters} cluster{'' if cell.clusters == 1 else 's'}"
    return text + (f"; {cell.reason}" if cell.reason else "")


def counts(row: GridRow) -> tuple[str, str]:
    """Format "400" and "2 / 1": the number of samples, and of those unparsed / unscored."""
    return ("", "") if row.n is None else (str(row.n), f"{row.n_unparsed} / {row.n_unscored}")


def _grid(grid: ResultGrid, markdown: bool) -> str:
    headers = _leading(
        grid, "Model", "n (unparsed / unscored)" if markdown else "n (unparsed\n/ unscored)", "Views", "Data", "Judge"
    )
    headers += [c.heading if markdown else _stacked(c) for c in grid.columns]
    rows = [(_markdown_row if markdown else _text_row)(row, grid) for row in grid.rows]
    title = grid.title + (f" (layout of {grid.source})" if grid.source else "")
    lines = [f"### {escape(title)}\n" if markdown else title]
    if grid.caption:
        lines.append(f"{escape(grid.caption)}\n" if markdown else textwrap.fill(grid.caption, WIDTH))
    lines.append(TextTable(headers, rows).render(markdown=markdown))
    for i, note in enumerate(grid.notes):
        wrapped = textwrap.fill(note, WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines.append(("\n- " if i == 0 else "- ") + escape(note) if markdown else wrapped)
    return "\n".join(lines)


def _leading(grid: ResultGrid, label: str, n: str, views: str, data: str, judge: str) -> list[str]:
    """The columns before the scores; data and judge are in the caption if all rows share them."""
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
        return [*leading, *_officials(row, grid)]
    n, bad = counts(row)
    cells = [
        f"{a} / {number(c.strict)}" if c is not None and c.strict is not None else a
        for a, c in zip(_officials(row, grid), row.cells, strict=True)
    ]
    data = f"{row.data} ({row.note})" if row.note else row.data
    leading = _leading(grid, row.label, f"{n} ({bad})" if n else "", row.views, data, row.judge or NONE)
    return [*leading, *cells]


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
    notes = "\n".join(f"- {escape(n)}" if markdown else f"  {n}" for n in warnings(runs))
    text = (f"### {title}\n\n" if markdown else f"{title}\n") + TextTable(headers, rows).render(markdown=markdown)
    return text + (f"\n\n{notes}" if notes and markdown else f"\n{notes}" if notes else "")


def warnings(runs: Sequence[RunSummary]) -> list[str]:
    """Remarks on the data and the coordinate frames of all runs, with the names of the runs concerned."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for task in run.tasks.values():
            name = str(task.data.get("name", "?"))
            for note in data_notes(name, run.about.get("limit"), task.maker):
                found.setdefault(f"{name}: {note}", []).append(run.name)
    notes = [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]
    for run in runs:
        blocks = {f"{run.name}, {task.name}": task.coordinates for task in run.tasks.values()}
        notes += misfit_warnings(blocks)
    return notes
