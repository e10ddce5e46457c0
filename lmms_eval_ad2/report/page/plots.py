"""Plots of the open-loop tables as SVG text for the report page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.report.grid import GridRow, ResultGrid
from lmms_eval_ad2.report.page.svg import (
    COLOURS,
    GREY,
    MOST,
    WIDTH,
    figure_of,
    finish,
    remark,
    settings,
    shortened,
    svg,
)
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell
from lmms_eval_ad2.report.table_rows import kind_title, uncategorised

FLOORS, CEILINGS = ("#6B7280", "#B9A38C"), ("#9DB58A", "#8A5A3C")
STATUS = {"ok": "#009E73", "partly": "#56B4E9", "unparsed": "#E69F00", "unscored": "#D55E00"}


def bars(grid: ResultGrid, colours: Mapping[str, str], least: int = 0) -> str | None:
    """Plot one group of bars per column, one bar per run, with 95 % intervals; None without a value to plot.

    At most MOST runs, and no value over fewer than `least` samples; a bar without an interval is hollow.
    """
    ours = [row for row in grid.rows if row.kind != "published"]
    indices = [
        i for i, c in enumerate(grid.columns) if c.plotted and any(_value(row, i, least) is not None for row in ours)
    ]
    every = [row for row in ours if any(_value(row, i, least) is not None for i in indices)]
    rows = every[:MOST]
    if not grid.plotted or not rows:
        return None
    remarks = [f"first {MOST} of {len(every)} runs"] if len(every) > MOST else []
    remarks += [f"groups of at least {least} samples"] if least else []
    with settings():
        names = _names(rows)
        longest = max(map(len, names))
        wanted = max(4.8, 0.8 + 0.09 * longest, 1.4 + len(indices) * (0.6 + 0.2 * len(rows)))
        figure, axes = figure_of(2.5, min(WIDTH, wanted))
        hollow = False
        for r, (row, name) in enumerate(zip(rows, names, strict=True)):
            shift, width = (r - (len(rows) - 1) / 2) * 0.8 / len(rows), 0.74 / len(rows)
            values = [
                (x + shift, v, row.cells[i]) for x, i in enumerate(indices) if (v := _value(row, i, least)) is not None
            ]
            hollow |= _series(axes, name, values, width, colours[row.line], _opacity(rows[:r], row))
        remarks += ["hollow: no interval"] if hollow else []
        max_chars = max(9, round(11.5 * figure.get_figwidth() / len(indices)))
        titles = [_tick(grid.columns[i].title, grid.columns[i].judge, max_chars) for i in indices]
        axes.set_xticks(range(len(indices)), titles)
        axes.set_xlim(-0.6, len(indices) - 0.4)
        top = max(axes.dataLim.y1, 0.0)
        axes.set_ylim(0, max(103.0, top) if top > 40 else max(5.0, top * 1.2))
        axes.set_ylabel("percent")
        remark(axes, remarks)
        finish(figure, axes)
        return svg(figure)


def _value(row: GridRow, column: int, least: int) -> float | None:
    cell = row.cells[column]
    return None if cell is None or cell.n < least else cell.official


def _names(rows: Sequence[GridRow]) -> list[str]:
    """Legend names of the rows: the label, with the views if several rows have the same label."""
    repeats = Counter(row.label for row in rows)
    return [shortened(f"{r.label}, views: {r.views}" if r.views and repeats[r.label] > 1 else r.label) for r in rows]


def _opacity(before: Sequence[GridRow], row: GridRow) -> float:
    """Opacity of a row's bars: rows of one model share a colour, and each further row is paler."""
    return float(max(0.25, 1 - 0.2 * sum(other.line == row.line for other in before)))


def _series(
    axes: Any,
    name: str,
    values: Sequence[tuple[float, float, ScoreCell | None]],
    width: float,
    colour: str,
    shade: float,
) -> bool:
    """Draw the bars of one row, given as (x, height, cell), with known intervals; return whether one is hollow.

    A value from a single cluster has no interval: its bar is an outline, so that it does not look exact.
    """
    label: str | None = name
    known = [(x, v) for x, v, cell in values if cell is not None and cell.ci]
    bare = [(x, v) for x, v, cell in values if cell is None or not cell.ci]
    for some, style in (
        (known, {"color": colour, "alpha": shade}),
        (bare, {"fill": False, "edgecolor": colour, "linewidth": 1.6}),
    ):
        if some:
            axes.bar([x for x, _ in some], [v for _, v in some], width, label=label, **style)
            label = None
    spans = [(x, v, cell.ci) for x, v, cell in values if cell is not None and cell.ci]
    if spans:
        below, above = [max(0.0, v - ci[0]) for _, v, ci in spans], [max(0.0, ci[1] - v) for _, v, ci in spans]
        style = {"fmt": "none", "ecolor": GREY, "elinewidth": 1.2, "capsize": 2.5}
        axes.errorbar([x for x, *_ in spans], [v for _, v, _ in spans], [below, above], **style)
    return bool(bare)


def status(runs: Sequence[RunSummary]) -> str | None:
    """Plot the shares of ok, partly scored, unparsed and unscored answers, one bar per task with failures, or None."""
    bars_ = [
        (f"{shortened(run.name)} · {task.name}", task.score)
        for run in runs[:MOST] for task in run.tasks.values() if task.score.failures
    ]  # fmt: skip
    if not bars_:
        return None
    with settings():
        figure, axes = figure_of(0.9 + 0.24 * len(bars_))
        left = [0.0] * len(bars_)
        for name, colour in STATUS.items():
            if name == "partly" and not any(c.n_partly for _, c in bars_):
                continue
            share = [100 * getattr(c, f"n_{name}") / c.n for _, c in bars_]
            axes.barh(range(len(bars_)), share, 0.7, left=left, color=colour, label=name)
            left = [a + b for a, b in zip(left, share, strict=True)]
        axes.set_yticks(range(len(bars_)), [label for label, _ in bars_])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("percent of the samples")
        remark(axes, [f"first {MOST} of {len(runs)} runs"] if len(runs) > MOST else [])
        finish(figure, axes, axis="x")
        return svg(figure)


def error_kinds(runs: Sequence[RunSummary], only: Sequence[str] = ()) -> str | None:
    """Plot the kinds of distractors chosen by wrong answers, in percent, one bar per run and task. `only`: of these."""
    bars_ = [
        (f"{shortened(run.name)} · {task.name}", counts)
        for run in runs[:MOST] for task in run.tasks.values()
        if (counts := {kind: n for kind, n in task.error_kinds.items() if n and (not only or kind in only)})
        and not uncategorised([task])
    ]  # fmt: skip
    if not bars_:
        return None
    kinds = sorted({kind for _, counts in bars_ for kind in counts})
    with settings():
        figure, axes = figure_of(0.9 + 0.26 * len(bars_))
        left = [0.0] * len(bars_)
        for k, kind in enumerate(kinds):
            share = [_percent(counts, kind) for _, counts in bars_]
            axes.barh(
                range(len(bars_)),
                share,
                0.7,
                left=left,
                color=COLOURS[k % len(COLOURS)],
                label=shortened(kind_title(kind)),
            )
            left = [a + b for a, b in zip(left, share, strict=True)]
        axes.set_yticks(range(len(bars_)), [f"{label} (n {sum(c.values())})" for label, c in bars_])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("percent of the wrong answers")
        remark(axes, [f"first {MOST} of {len(runs)} runs"] if len(runs) > MOST else [])
        finish(figure, axes, axis="x")
        return svg(figure)


def _percent(counts: Mapping[str, int], kind: str) -> float:
    return 100 * counts.get(kind, 0) / sum(counts.values())


def _tick(title: str, judge: str | None, limit: int) -> str:
    """Title and judge under a group of bars, each shortened to `limit` characters."""
    name = (judge or "").split("; ")[0].removeprefix("openai:")
    return shortened(title, limit) + (f"\n[{shortened(name, limit)}]" if name else "")


def palette(all_grids: Iterable[ResultGrid]) -> dict[str, str]:
    """Return a colour per row label, equal in all plots; floors and ceilings have muted colours."""
    kinds = {row.line: row.kind for grid in all_grids for row in grid.rows if row.kind != "published"}
    colours: dict[str, str] = {}
    for kind, choice in (("run", COLOURS), ("floor", FLOORS), ("ceiling", CEILINGS)):
        labels = [label for label, k in kinds.items() if k == kind]
        colours |= {label: choice[i % len(choice)] for i, label in enumerate(labels)}
    return colours
