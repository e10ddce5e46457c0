"""Plots of a section's tables as SVG text: values by category, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from lmms_eval_ad2.report.sections import CategoryPlot, DifferencePlot, PlotSeries, ReportSection

NAMED = 80  # bars that have room for a name below
LINE = 0.2  # inches per category of a plot with one line each
ABOVE, BELOW = COLOURS[:2]  # of the first and the second run


def palette(section: ReportSection) -> dict[str, str]:
    """A colour per run, the same in all plots of the section."""
    return {run.name: COLOURS[i % len(COLOURS)] for i, run in enumerate(section.runs)}


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
            axes.set_xticks(range(n), [shortened(name, 24) for name in plot.categories])
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
        remark(axes, [f"first {MOST} of {len(known)} runs"] if len(known) > MOST else [])
        finish(figure, axes, axis="both" if plot.lines else "y")
        return svg(figure)


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
        for sign, colour, label in ((1, ABOVE, plot.signs[0]), (-1, BELOW, plot.signs[1])):
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
        remark(axes, [*remarks, *(["routes by name: see the table"] if len(values) > most and plot.names else [])])
        finish(figure, axes)
        return svg(figure)
