"""Result tables as text for a terminal or as Markdown.

A run has one line in a compact text table (compact.py). In a wide one it has two: scores under the benchmark's own
rules, with the 95 % interval of main scores, and strict scores below. In Markdown both are in one cell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from lmms_eval_ad2.core.coordinates import misfit_warnings
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report import compact
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.cell_text import NGRAM, NONE, clusters, counts, interval, number, official
from lmms_eval_ad2.report.floors import meaning_of_floors, missing_floors
from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid, grids
from lmms_eval_ad2.report.published import PublishedTable
from lmms_eval_ad2.report.repeat_grids import repeat_grids
from lmms_eval_ad2.report.runs import RunSummary
from lmms_eval_ad2.report.table_layouts import ErrorKinds
from lmms_eval_ad2.report.task_groups import data_notes, form_note, language_note, trained_note
from lmms_eval_ad2.report.text_table import TextTable, escape, wrapped
from lmms_eval_ad2.scoring.metrics.intervals import METHOD

WIDTH = 120  # of lines of prose in a terminal
LEGEND = (
    "First line: scores under the benchmark's own rules [95 % interval]. Second line, 'strict': unparsed and unscored "
    "answers count as the worst score. – : no value. Scores of different judges are in different columns. "
    + compact.MEAN
)
LEGEND_MARKDOWN = (
    "official [95 % interval] / strict: official under the benchmark's own rules, strict with unparsed and unscored "
    "answers as the worst score. – : no value. Scores of different judges are in different columns. " + compact.MEAN
)

LEGEND_PAGE = (
    "Upper value: score under the benchmark's own rules, with its 95 % interval. Lower value: strict, unparsed and "
    "unscored answers count as the worst score. – : no value. † : a mean over fewer columns than the paper's. "
    "Scores of different judges are in different columns. Hover over a value to see its counts. " + compact.MEAN
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
    """Return all tables of `runs`, as one compact row per run and table (compact.py), or with all columns.

    published: with the papers' figures; own: those of a user's benchmarks. markdown, wide: with all columns, and a list
    of all tasks with their counts. breakdowns: with tables by sub-task, source, weather and severity. kinds: of wrong
    options, as in `grid.grids`.
    """
    intervals = about_intervals(runs)
    found = [*grids(runs, with_published=published, kinds=kinds, own=own), *repeat_grids(runs)]
    found += breakdown_grids(runs) if breakdowns else []
    if not (markdown or wide):
        blocks = [wrapped(f"{compact.LEGEND} {intervals}", compact.WIDTH), *map(compact.render, found)]
        blocks.append("\n".join(wrapped(note, compact.WIDTH, "  ") for note in [*warnings(runs), compact.MORE]))
        return printable("\n\n".join(blocks)) + "\n"
    intervals += COUNTED
    if markdown:
        blocks = [LEGEND_MARKDOWN, escape(intervals)]
    else:
        blocks = [f"{textwrap.fill(LEGEND, WIDTH)}\n{textwrap.fill(intervals, WIDTH)}"]
    blocks += [_grid(grid, markdown) for grid in found]
    blocks.append(_overview(runs, markdown))
    return printable("\n\n".join(blocks)) + "\n"


def about_intervals(runs: Sequence[RunSummary]) -> str:
    """Explain how the intervals were computed."""
    other = [run.name for run in runs if any(task.interval_method != METHOD for task in run.tasks.values())]
    if not other:
        return INTERVALS
    return (
        f"{INTERVALS} Those of {', '.join(other)} are bootstrap intervals of an earlier version, too narrow below 20 "
        "clusters: see ad2 rescore."
    )


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
        "partly",
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
                clusters(s), number(s.strict),
                *map(str, (s.n, s.n_ok, s.n_unparsed, s.n_unscored, s.n_partly)), why,
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
            if trained := trained_note([task]):
                found.setdefault(f"{task.name}: {trained}", []).append(run.name)
            for note in filter(None, (language_note(task), form_note(task))):
                found.setdefault(f"{task.name}: {note}", []).append(run.name)
    notes = [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]
    for run in runs:
        blocks = {f"{run.name}, {task.name}": task.coordinates for task in run.tasks.values()}
        notes += misfit_warnings(blocks)
    return notes + meaning_of_floors(runs) + missing_floors(runs)
