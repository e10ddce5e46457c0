"""Plots of the report page as SVG text; the only file of the page that imports matplotlib.

Text stays text (the page sets its colour for light and dark mode), backgrounds are transparent, and lines have a grey
that is visible in both modes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.core.printed import visible
from lmms_eval_ad2.report.grid import GridRow, ResultGrid
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary
from lmms_eval_ad2.report.table import CategoryPlot, DifferencePlot, PlotSeries, ReportSection
from lmms_eval_ad2.report.table_rows import kind_title, uncategorised

# Okabe and Ito's palette, suitable for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8B7FD1", "#B8A800")
MOST = 6  # runs in a plot
GREY = "#7A808A"
WIDTH = 9.6  # inches, of 72 SVG units each
FLOORS, CEILINGS = ("#6B7280", "#B9A38C"), ("#9DB58A", "#8A5A3C")
STATUS = {"ok": "#009E73", "partly": "#56B4E9", "unparsed": "#E69F00", "unscored": "#D55E00"}
NAMED = 80  # bars that have room for a name below
LINE = 0.2  # inches per category of a plot with one line each
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ad2",  # the same figures give the same bytes
    "text.parse_math": False,  # a "$" in a label is a dollar sign
    "font.size": 9,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def section_colours(section: ReportSection) -> dict[str, str]:
    """A colour per run, the same in all plots of the section."""
    return {run.name: COLOURS[i % len(COLOURS)] for i, run in enumerate(section.runs)}


def grid_colours(grids: Iterable[ResultGrid]) -> dict[str, str]:
    """A colour per row, the same in all plots; floors and ceilings have muted colours."""
    kinds = {_name(row): row.kind for grid in grids for row in grid.rows if row.kind != "published"}
    colours: dict[str, str] = {}
    for kind, choice in (("run", COLOURS), ("floor", FLOORS), ("ceiling", CEILINGS)):
        labels = [label for label, k in kinds.items() if k == kind]
        colours |= {label: choice[i % len(choice)] for i, label in enumerate(labels)}
    return colours


def _name(row: GridRow) -> str:
    return f"{row.label}, views: {row.views}" if row.views else row.label


def grid_plot(grid: ResultGrid, least: int = 0) -> CategoryPlot | None:
    """The columns of a table that can be plotted beside each other, of our rows; no value of fewer than `least`
    samples. None for a table whose rows are not plotted."""
    ours = [row for row in grid.rows if row.kind != "published"] if grid.plotted else []
    figures = {
        i: [cell if cell is not None and cell.n >= least else None for cell in (row.cells[i] for row in ours)]
        for i, column in enumerate(grid.columns)
        if column.plotted
    }
    figures = {i: cells for i, cells in figures.items() if any(c is not None and c.official is not None for c in cells)}
    if not figures:
        return None
    series = []
    for k, row in enumerate(ours):
        cells = [column[k] for column in figures.values()]
        values = [cell.official if cell else None for cell in cells]
        series.append(PlotSeries(_name(row), values, [cell.ci if cell else None for cell in cells]))
    largest = max(v for one in series for v in one.values if v is not None)
    judges = [(grid.columns[i].judge or "").split("; ")[0].removeprefix("openai:") for i in figures]
    return CategoryPlot(
        [f"{grid.columns[i].title}\n[{judge}]" if judge else grid.columns[i].title
         for i, judge in zip(figures, judges, strict=True)],
        series, "percent", max(100.0, largest) if largest > 40 else None,
        remark=f"groups of at least {least} samples" if least else "",
    )  # fmt: skip


def draw(plot: CategoryPlot | DifferencePlot | None, colours: Mapping[str, str]) -> str | None:
    """The plot as SVG text; None without a value to plot."""
    if plot is None:
        return None
    return _differences(plot) if isinstance(plot, DifferencePlot) else _categories(plot, colours)


def _categories(plot: CategoryPlot, colours: Mapping[str, str]) -> str | None:
    """Points with 95 % intervals, side by side in each category; at most MOST runs."""
    known = [s for s in plot.series if any(value is not None for value in s.values)]
    series = known[:MOST]
    if not series:
        return None
    n = len(plot.categories)
    with settings():
        if plot.lines:
            figure, axes = figure_of(0.9 + LINE * n, WIDTH * 0.8)
            axes.set_yticks(range(n), [shortened(name, 48) for name in plot.categories])
            axes.set_ylim(n - 0.4, -0.6)
            axes.set_xlabel(plot.unit)
        else:
            figure, axes = figure_of(2.8, min(WIDTH, max(4.8, 1.4 + n * (0.7 + 0.2 * len(series)))))
            room = min(24, max(9, round(11.5 * figure.get_figwidth() / n)))  # characters below a category
            names = ["\n".join(shortened(line, room) for line in name.split("\n")) for name in plot.categories]
            axes.set_xticks(range(n), names)
            axes.set_xlim(-0.6, n - 0.4)
            axes.set_ylabel(plot.unit)
        hollow = any(span is not None for one in series for span in one.spans)  # points without one among others
        for k, one in enumerate(series):
            shift = (k - (len(series) - 1) / 2) * 0.6 / len(series)
            _points(axes, one, shift, colour=colours.get(one.name, GREY), lines=plot.lines, hollow=hollow)
        if plot.top is not None:
            (axes.set_xlim if plot.lines else axes.set_ylim)(-0.02 * plot.top, 1.03 * plot.top)
        else:
            (axes.axvline if plot.lines else axes.axhline)(0.0, color=GREY, linewidth=1.0)
        left_out = [f"first {MOST} of {len(known)} runs"] if len(known) > MOST else []
        _remark(axes, [*left_out, *([plot.remark] if plot.remark else [])])
        return _svg(figure, axes, axis="both" if plot.lines else "y")


def _points(axes: Any, series: PlotSeries, shift: float, *, colour: str, lines: bool, hollow: bool) -> None:
    """One run: a point per known value, with its interval; without one it is `hollow` or a plain point."""
    label: str | None = shortened(series.name)
    for bare in (False, True):
        found = [
            (i + shift, value, span)
            for i, (value, span) in enumerate(zip(series.values, series.spans, strict=True))
            if value is not None and (span is None) == bare
        ]
        if not found:
            continue
        place, values = [p for p, _, _ in found], [v for _, v, _ in found]
        face = "none" if bare and hollow else colour
        style = {"linestyle": "none", "marker": "o", "markersize": 5, "color": colour, "markerfacecolor": face}
        error = [[max(0.0, v - s[0]) for _, v, s in found if s], [max(0.0, s[1] - v) for _, v, s in found if s]]
        direction = "xerr" if lines else "yerr"
        axes.errorbar(
            *((values, place) if lines else (place, values)), **({} if bare else {direction: error}), label=label,
            ecolor=colour, elinewidth=1.4, capsize=2.5, **style,
        )  # fmt: skip
        label = None


def _differences(plot: DifferencePlot) -> str | None:
    """Bars from the largest to the smallest difference; units without a difference are counted in the remark."""
    names = plot.names or [""] * len(plot.values)
    named = [(value, name) for value, name in zip(plot.values, names, strict=True) if value]
    named.sort(key=lambda pair: pair[0], reverse=True)  # equal ones in their order
    if not named:
        return None
    values = [value for value, _ in named]
    with settings():
        figure, axes = figure_of(2.8, WIDTH)
        for sign, colour, label in ((1, COLOURS[0], plot.signs[0]), (-1, COLOURS[1], plot.signs[1])):
            some = [(i, value) for i, value in enumerate(values) if value * sign > 0]
            if some:
                name = f"{label}: {len(some)}"
                axes.bar([i for i, _ in some], [v for _, v in some], 0.85, color=colour, label=name)
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        most = NAMED if plot.names else 0
        axes.set_xticks(range(len(values)) if len(values) <= most else [])
        if len(values) <= most:
            axes.set_xticklabels([shortened(name, 12) for _, name in named], rotation=90, fontsize=7)
        axes.set_xlim(-0.8, len(values) - 0.2)
        axes.set_ylabel(plot.unit)
        equal = len(plot.values) - len(values)
        remarks = [f"{equal} without a difference, not drawn"] if equal else []
        _remark(axes, [*remarks, *(["routes by name: see the table"] if len(values) > most and plot.names else [])])
        return _svg(figure, axes)


def status(runs: Sequence[RunSummary]) -> str | None:
    """Plot the shares of ok, partly scored, unparsed and unscored answers, one bar per task with failures, or None."""
    found = [(name, task.score) for name, task in _tasks(runs) if task.score.failures]
    partly = any(cell.n_partly for _, cell in found)
    shares = {
        name: [100 * getattr(cell, f"n_{name}") / cell.n for _, cell in found]
        for name in STATUS
        if name != "partly" or partly
    }
    return _stacked([name for name, _ in found], shares, STATUS, "percent of the samples", len(runs))


def error_kinds(runs: Sequence[RunSummary], only: Sequence[str] = ()) -> str | None:
    """Plot the kinds of distractors chosen by wrong answers, in percent, one bar per run and task. `only`: of these."""
    found = []
    for name, task in _tasks(runs):
        counts = {kind: n for kind, n in task.error_kinds.items() if n and (not only or kind in only)}
        if counts and not uncategorised([task]):
            found.append((f"{name} (n {sum(counts.values())})", counts))
    kinds = sorted({kind for _, counts in found for kind in counts})
    shares = {
        kind_title(kind): [100 * counts.get(kind, 0) / sum(counts.values()) for _, counts in found] for kind in kinds
    }
    colours = {title: COLOURS[k % len(COLOURS)] for k, title in enumerate(shares)}
    return _stacked([name for name, _ in found], shares, colours, "percent of the wrong answers", len(runs))


def _tasks(runs: Sequence[RunSummary]) -> list[tuple[str, TaskSummary]]:
    """The tasks of the runs that are plotted, with the label of their bars."""
    return [(f"{shortened(run.name)} · {task.name}", task) for run in runs[:MOST] for task in run.tasks.values()]


def _stacked(
    bars: Sequence[str], shares: Mapping[str, Sequence[float]], colours: Mapping[str, str], unit: str, n_runs: int
) -> str | None:  # fmt: skip
    """Horizontal bars of parts, in percent; shares: by part, one per bar. None without a bar."""
    if not bars:
        return None
    with settings():
        figure, axes = figure_of(0.9 + 0.25 * len(bars))
        left = [0.0] * len(bars)
        for name, values in shares.items():
            axes.barh(range(len(bars)), values, 0.7, left=left, color=colours[name], label=shortened(name))
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.set_yticks(range(len(bars)), bars)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel(unit)
        _remark(axes, [f"first {MOST} of {n_runs} runs"] if n_runs > MOST else [])
        return _svg(figure, axes, axis="x")


def settings() -> Any:
    return require("matplotlib", "plots of the report page").rc_context(SETTINGS)


def figure_of(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure of `width` x `height` inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Any, axes: Any, axis: str = "y") -> str:
    """Add grid and legend; returns the figure as SVG."""
    axes.grid(axis=axis, color=GREY, alpha=0.25, linewidth=0.8)
    axes.set_axisbelow(True)
    longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
    columns = max(1, int(figure.get_figwidth() / (0.09 * longest + 0.6)))
    figure.legend(loc="outside upper left", ncols=min(columns, 4), frameon=False)
    return svg(figure)


def svg(figure: Any) -> str:
    """The <svg> element only, without XML header, metadata and external references."""
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with warnings.catch_warnings():
        # Chinese labels: the browser has the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    return str(visible(text[text.index("<svg") :]))


def _remark(axes: Any, remarks: Sequence[str]) -> None:
    if remarks:
        axes.set_title("; ".join(remarks), loc="right", fontsize=8)


def shortened(text: str, limit: int = 96) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
