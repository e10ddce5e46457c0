"""Result tables (ResultGrid) from runs, table layouts and published figures, for text, Markdown, page and plots.

Scores of different judges never share a column: a judged column is split by judge, and published figures are in a run's
column only if its judge is the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmms_eval_ad2.report import published
from lmms_eval_ad2.report.published import PublishedTable
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary
from lmms_eval_ad2.report.table_layouts import (
    CAPTIONS,
    TABLE_LAYOUTS,
    ErrorKinds,
    TableColumn,
    TableLayout,
    default_layout,
    in_papers_groups,
)
from lmms_eval_ad2.report.table_rows import Rows, fits, kind_title, means_of, rows_of, uncategorised, with_extras
from lmms_eval_ad2.report.task_groups import TaskGroup, data_sha, group_tasks, reason_notes, reasons


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column. `judge`: shown under the title; None if no value in the column needed a judge.

    `plotted`: can be plotted beside the others (same scale, higher is better). `decimals`: of the runs' values;
    published ones have those of the paper. `interval`: shown in text, as for headline columns. `main`: the figure of
    a table with one row per model: the mean of other columns, else each headline.
    """

    key: str
    title: str
    judge: str | None = None
    headline: bool = False
    plotted: bool = True
    decimals: int = 1
    interval: bool = False
    main: bool = False

    @property
    def heading(self) -> str:
        return f"{self.title} [{self.judge}]" if self.judge else self.title


@dataclass(frozen=True, slots=True)
class GridRow:
    """A row. `kind`: run | floor | ceiling | published. `cells`: one per column, None if there is no value."""

    kind: str
    label: str
    cells: tuple[ScoreCell | None, ...]
    views: str = ""
    data: str = ""
    note: str = ""
    judge: str = ""
    n: int | None = None
    n_unparsed: int = 0
    n_unscored: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    line: str = ""
    sha: str = ""


@dataclass(frozen=True, slots=True)
class ResultGrid:
    """A table. `source`: the paper's table ("" for our own); `kinds`: cells are percentages with numbers of choices.

    `caption`: data and judge, if all runs have the same; then they have no column of their own.
    """

    key: str
    title: str
    source: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    notes: tuple[str, ...]
    views: bool = False
    kinds: bool = False
    plotted: bool = True
    decimals: int = 1
    caption: str = ""
    data_column: bool = True
    judge_column: bool = True


def grids(
    runs: Sequence[RunSummary], *, with_published: bool = True, kinds: ErrorKinds = "all",
    own: Mapping[str, PublishedTable] | None = None,
) -> list[ResultGrid]:  # fmt: skip
    """Return all tables with a value of a run: first those of the papers, then benchmarks without a paper's table.

    kinds: "paper" has the shares of AutoDrive-QA Table 7 over the paper's three groups only. own: published rows of
    benchmarks of a user (published.own_tables).
    """
    own = own or {}
    benchmarks = list(dict.fromkeys(t.benchmark for run in runs for t in run.tasks.values()))
    layouts = [in_papers_groups(layout) if kinds == "paper" else layout for layout in TABLE_LAYOUTS]
    for name in benchmarks:
        if all(layout.benchmark != name for layout in TABLE_LAYOUTS):
            parts = dict.fromkeys(t.part for run in runs for t in run.tasks.values() if t.benchmark == name)
            parts |= dict.fromkeys(own[name].columns if name in own else ())
            layouts.append(default_layout(name, tuple(parts)))
    built = (
        _build(layout, group_tasks(runs, layout.benchmark), with_published, own.get(layout.benchmark))
        for layout in layouts
    )
    return [grid for grid in built if grid is not None]


def _build(
    layout: TableLayout, groups: Sequence[TaskGroup], with_published: bool, own: PublishedTable | None
) -> ResultGrid | None:
    printed = published.table(layout.benchmark, layout.number) if layout.number else own
    wanted = [group for group in groups if group.used(layout.parts) and fits(layout, group)]
    layout = with_extras(layout, wanted)
    ours = rows_of(layout, wanted)
    # A row without a value in the paper's columns belongs to another table; a user's benchmark has no other one.
    core = set(printed.columns) if printed and printed is not own else {column.key for column in layout.columns}
    ours = [row for row in ours if any(row[2].get(key) is not None for key in core)]
    if not ours:
        return None
    ours = _with_judges(layout, ours, printed)
    shown = printed if with_published else None
    columns, column_index = _split(layout, [cells for _, _, cells in ours], shown)
    rows = [_row(layout, group, extra, cells, columns, column_index) for group, extra, cells in ours]
    if shown:
        rows += _published_rows(layout, shown, columns, column_index)
    return finalise(ResultGrid(
        key=f"{layout.benchmark}/{layout.number or layout.name}",
        title=layout.title,
        source=printed.source if printed else "",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(*layout.notes, *_notes(layout, rows, columns, shown), *_without_categories(layout, wanted)),
        views=layout.views,
        kinds=bool(layout.kinds),
        plotted=not (layout.kinds or layout.sets),  # rows of a run would have the same colour
        decimals=1 if printed is None or all(round(v, 1) == v for v in printed.known()) else 2,
    ))  # fmt: skip


def finalise(grid: ResultGrid) -> ResultGrid:
    """Remove empty columns, move data and judge into the caption if all runs share them, and mark differing data sets.

    Data sets of equal name and split but different sha256 get their short hash and a footnote.
    """
    kept = [i for i in range(len(grid.columns)) if any(row.cells[i] is not None for row in grid.rows)]
    ours = [row for row in grid.rows if row.kind != "published"]
    shas: dict[str, set[str]] = {}
    for row in ours:
        shas.setdefault(row.data, set()).add(row.sha)
    ambiguous = {name for name, found in shas.items() if len(found) > 1}
    rows = []
    for row in grid.rows:
        data = f"{row.data} {row.sha}" if row.kind != "published" and row.data in ambiguous else row.data
        rows.append(replace(row, data=data, cells=tuple(row.cells[i] for i in kept)))
    all_data = {(row.data, row.note) for row in rows if row.kind != "published"}
    judges = {row.judge for row in ours}
    caption = []
    if len(all_data) == 1:
        caption.append("Data: " + ", ".join(x for x in all_data.pop() if x))
        all_data = set()
    if len(judges) == 1 and "" not in judges:
        caption.append(f"Judge: {next(iter(judges))}")
    return replace(
        grid,
        columns=tuple(grid.columns[i] for i in kept),
        rows=tuple(rows),
        notes=(*grid.notes, *(["Rows with different hashes were asked different questions."] if ambiguous else [])),
        caption=". ".join(caption),
        data_column=bool(all_data),
        judge_column=len(judges) > 1,
    )


def _with_judges(layout: TableLayout, rows: Rows, printed: PublishedTable | None) -> Rows:
    """Name the judge of cells whose answers were all unparsed or failed, so that they stay in its column.

    No judge was asked about them, so their summary names none: it is the judge of the run, else the only one of the
    column.
    """
    used: dict[str, list[str]] = {}
    for _, _, cells in rows:
        for key, cell in cells.items():
            if cell is not None and cell.judge and cell.judge not in used.setdefault(key, []):
                used[key].append(cell.judge)

    def judged(key: str, cell: ScoreCell | None, group: TaskGroup) -> ScoreCell | None:
        in_paper = printed is not None and printed.judge_of(key) is not None
        if cell is None or cell.judge or cell.n_ok or not (used.get(key) or in_paper):
            return cell
        return replace(cell, judge=group.judge or (used[key][0] if len(used.get(key, ())) == 1 else None))

    named: Rows = []
    for group, extra, cells in rows:
        found = {key: judged(key, cell, group) for key, cell in cells.items()}
        named.append((group, extra, found | means_of(layout, found)))
    return named


# --- columns ---

ColumnIndex = dict[tuple[str, str | None], int]  # (column key, judge of a run's score | PRINTED) -> position
PRINTED = "\0printed"
NO_JUDGE = "no judge"  # label of exact scores in a grid whose other scores of the column are judged


def _split(
    layout: TableLayout, rows: Sequence[Mapping[str, ScoreCell | None]], printed: PublishedTable | None
) -> tuple[list[GridColumn], ColumnIndex]:
    """Split columns by judge and return the position of each value: a block per judge, the paper's block last."""
    judges = list(dict.fromkeys(c.judge for row in rows for c in row.values() if c is not None and c.judge))
    blocks: list[tuple[int, GridColumn, list[tuple[str, str | None]]]] = []
    for column in layout.columns:
        used = list(dict.fromkeys(c.judge for row in rows if (c := row.get(column.key)) is not None))
        in_paper = printed if printed and column.key in printed.columns else None
        alike = [j for j in used if in_paper and in_paper.judged_alike(column.key, j)]
        paper = (in_paper.judge_of(column.key) or NO_JUDGE) if in_paper else ""
        for judge in used:
            shared = alike == [judge]
            label = f"{judge}; paper: {paper}" if judge and shared else judge
            if judge is None and (len(used) > 1 or (in_paper and not shared)):
                label = NO_JUDGE
            places = [(column.key, judge)] + ([(column.key, PRINTED)] if shared else [])
            blocks.append((judges.index(judge) if judge else 0, _column(layout, column, label), places))
        if in_paper and len(alike) != 1:
            plain = paper == NO_JUDGE and not used
            heading = None if plain else f"paper: {paper}"
            blocks.append((len(judges), _column(layout, column, heading), [(column.key, PRINTED)]))
        elif not used and not in_paper:
            blocks.append((0, _column(layout, column, None), []))  # no values: an empty column keeps the layout
    blocks.sort(key=lambda block: block[0])
    column_index = {place: position for position, (_, _, places) in enumerate(blocks) for place in places}
    return [column for _, column, _ in blocks], column_index


def _column(layout: TableLayout, column: TableColumn, judge: str | None) -> GridColumn:
    plotted = column.plotted and not (column.lower_is_better or column.place[-1] in CAPTIONS)
    return GridColumn(
        key=column.key,
        title=column.title,
        judge=judge,
        headline=column.headline,
        plotted=plotted,
        decimals=column.decimals,
        interval=column.interval,
        main=bool(column.mean_of) or (column.headline and not any(c.mean_of for c in layout.columns)),
    )


# --- rows ---


def _row(
    layout: TableLayout,
    group: TaskGroup,
    extra: str,
    cells: Mapping[str, ScoreCell | None],
    columns: Sequence[GridColumn],
    column_index: ColumnIndex,
) -> GridRow:
    placed: list[ScoreCell | None] = [None] * len(columns)
    for key, cell in cells.items():
        if cell is not None:
            placed[column_index[key, cell.judge]] = cell
    tasks = group.used(layout.parts)
    judges = dict.fromkeys(
        [*(str(t.judge) for t in tasks if t.judge), *(c.judge for c in cells.values() if c and c.judge)]
    )
    row = group_row(group, tasks, placed, views=layout.views, judge=" + ".join(judges))
    row = replace(row, label=f"{row.label}: {extra}") if extra else row
    return replace(row, n=None, reasons=()) if layout.kinds else row


def group_row(
    group: TaskGroup, tasks: Sequence[TaskSummary], cells: Sequence[ScoreCell | None], *, views: bool, judge: str
) -> GridRow:  # fmt: skip
    """The row of a group with the counts of these tasks."""
    return GridRow(
        kind=group.run.role,
        label=group.label,
        cells=tuple(cells),
        views=group.views if views else "",
        data=f"{group.data} {group.split}".strip(),
        note=group.note,
        judge=judge,
        n=sum(t.score.n for t in tasks),
        n_unparsed=sum(t.score.n_unparsed for t in tasks),
        n_unscored=sum(t.score.n_unscored for t in tasks),
        reasons=reasons(tasks),
        line=group.label,
        sha=data_sha(tasks),
    )


def _published_rows(
    layout: TableLayout, printed: PublishedTable, columns: Sequence[GridColumn], column_index: ColumnIndex
) -> list[GridRow]:  # fmt: skip
    rows = []
    for row in printed.rows:
        placed: list[ScoreCell | None] = [None] * len(columns)
        for key, value in row.values.items():
            if value is not None and (key, PRINTED) in column_index:
                placed[column_index[key, PRINTED]] = ScoreCell.exact(float(value), n=0)
        labels = dict(row.labels)
        views, llm, kind = labels.pop("views", ""), labels.pop("llm", ""), labels.pop(layout.row_label, "")
        label = kind_title(kind) if kind else labels["model"] + (f" ({llm})" if llm else "")
        rows.append(GridRow("published", label, tuple(placed), views=views, data="paper", judge=""))
    return rows


# --- notes ---


def _notes(
    layout: TableLayout, rows: Sequence[GridRow], columns: Sequence[GridColumn],
    printed: PublishedTable | None,
) -> list[str]:  # fmt: skip
    notes = reason_notes((row.line, row.reasons) for row in rows)
    for row in rows:
        notes += [f"{k.title}: {c.reason}" for k, c in zip(columns, row.cells, strict=True) if c and c.reason]
    if any(c is not None and c.partial for row in rows for c in row.cells):
        notes.append("† a mean over fewer columns than the paper's: the data have no samples for the others.")
    if printed:
        other = "other data and another judge" if printed.judged else "other data"
        notes.append(f"Published rows are {printed.source}: {other}; not directly comparable.")
        known = published.inconsistent(layout.benchmark, printed.number) if printed.number else ()
        for found in known:
            notes.append(f"The paper is inconsistent ({found.where}): {found.says}; but: {found.computed}.")
    return list(dict.fromkeys(notes))


def _without_categories(layout: TableLayout, groups: Sequence[TaskGroup]) -> list[str]:
    """The reason for no table by error category (AutoDrive-QA Table 7), below the first table of the benchmark."""
    if (layout.benchmark, layout.number) != ("autodrive_qa", 1):
        return []
    found = dict.fromkeys(share for group in groups if (share := uncategorised(group.used(layout.parts))))
    return [
        f"No table by error category (Table 7): {share} wrong options have none, since it does not follow from the "
        "operation that made them."
        for share in found
    ]
