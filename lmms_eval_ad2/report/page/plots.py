"""Plots as SVG text for the report page; the only file that imports matplotlib.

Text stays text (the page sets its colour for light and dark mode), backgrounds are transparent, and lines have a grey
that is visible in both modes.
"""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.errors import require
from lmms_eval_ad2.report.grid import GridRow, ResultGrid
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell
from lmms_eval_ad2.report.table_rows import kind_title

# Okabe and Ito's palette, suitable for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8B7FD1", "#B8A800")
FLOORS, CEILINGS = ("#6B7280", "#B9A38C"), ("#9DB58A", "#8A5A3C")
MOST = 6  # runs in a plot
GREY = "#7A808A"
STATUS = {"ok": "#009E73", "unparsed": "#E69F00", "unscored": "#D55E00"}
WIDTH = 9.6  # inches, of 72 SVG units each
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
    with _settings():
        names = _names(rows)
        longest = max(map(len, names))
        wanted = max(4.8, 0.8 + 0.09 * longest, 1.4 + len(indices) * (0.6 + 0.2 * len(rows)))
        figure, axes = _figure(2.5, min(WIDTH, wanted))
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
        _remark(axes, remarks)
        _finish(figure, axes)
        return _svg(figure)


def _remark(axes: Any, remarks: Sequence[str]) -> None:
    if remarks:
        axes.set_title("; ".join(remarks), loc="right", fontsize=8)


def _value(row: GridRow, column: int, least: int) -> float | None:
    cell = row.cells[column]
    return None if cell is None or cell.n < least else cell.official


def _names(rows: Sequence[GridRow]) -> list[str]:
    """Legend names of the rows: the label, with the views if several rows have the same label."""
    repeats = Counter(row.label for row in rows)
    return [_short(f"{r.label}, views: {r.views}" if r.views and repeats[r.label] > 1 else r.label) for r in rows]


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
    """Plot the shares of ok, unparsed and unscored answers, one bar per task with failures; None without any."""
    bars_ = [
        (f"{_short(run.name)} · {task.name}", task.score)
        for run in runs[:MOST] for task in run.tasks.values() if task.score.n_unparsed or task.score.n_unscored
    ]  # fmt: skip
    if not bars_:
        return None
    with _settings():
        figure, axes = _figure(0.9 + 0.24 * len(bars_))
        left = [0.0] * len(bars_)
        for name, colour in STATUS.items():
            share = [100 * getattr(c, f"n_{name}") / c.n for _, c in bars_]
            axes.barh(range(len(bars_)), share, 0.7, left=left, color=colour, label=name)
            left = [a + b for a, b in zip(left, share, strict=True)]
        axes.set_yticks(range(len(bars_)), [label for label, _ in bars_])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("percent of the samples")
        _remark(axes, [f"first {MOST} of {len(runs)} runs"] if len(runs) > MOST else [])
        _finish(figure, axes, axis="x")
        return _svg(figure)


def error_kinds(runs: Sequence[RunSummary]) -> str | None:
    """Plot the kinds of distractors chosen by wrong answers, in percent, one bar per run and task."""
    bars_ = [
        (f"{_short(run.name)} · {task.name}", task.error_kinds)
        for run in runs[:MOST] for task in run.tasks.values() if sum(task.error_kinds.values())
    ]  # fmt: skip
    if not bars_:
        return None
    kinds = sorted({kind for _, counts in bars_ for kind in counts})
    with _settings():
        figure, axes = _figure(0.9 + 0.26 * len(bars_))
        left = [0.0] * len(bars_)
        for k, kind in enumerate(kinds):
            share = [_percent(counts, kind) for _, counts in bars_]
            axes.barh(
                range(len(bars_)),
                share,
                0.7,
                left=left,
                color=COLOURS[k % len(COLOURS)],
                label=_short(kind_title(kind)),
            )
            left = [a + b for a, b in zip(left, share, strict=True)]
        axes.set_yticks(range(len(bars_)), [f"{label} (n {sum(c.values())})" for label, c in bars_])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("percent of the wrong answers")
        _remark(axes, [f"first {MOST} of {len(runs)} runs"] if len(runs) > MOST else [])
        _finish(figure, axes, axis="x")
        return _svg(figure)


def _percent(counts: Mapping[str, int], kind: str) -> float:
    return 100 * counts.get(kind, 0) / sum(counts.values())


def _short(text: str, limit: int = 96) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _tick(title: str, judge: str | None, limit: int) -> str:
    """Title and judge under a group of bars, each shortened to `limit` characters."""
    name = (judge or "").split("; ")[0].removeprefix("openai:")
    return _short(title, limit) + (f"\n[{_short(name, limit)}]" if name else "")


def palette(all_grids: Iterable[ResultGrid]) -> dict[str, str]:
    """Return a colour per row label, equal in all plots; floors and ceilings have muted colours."""
    kinds = {row.line: row.kind for grid in all_grids for row in grid.rows if row.kind != "published"}
    colours: dict[str, str] = {}
    for kind, choice in (("run", COLOURS), ("floor", FLOORS), ("ceiling", CEILINGS)):
        labels = [label for label, k in kinds.items() if k == kind]
        colours |= {label: choice[i % len(choice)] for i, label in enumerate(labels)}
    return colours


def _settings() -> Any:
    return require("matplotlib", "plots of the report page").rc_context(SETTINGS)


def _figure(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure of `width` x `height` inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _finish(figure: Any, axes: Any, axis: str = "y") -> None:
    axes.grid(axis=axis, color=GREY, alpha=0.25, linewidth=0.8)
    axes.set_axisbelow(True)
    longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
    columns = max(1, int(figure.get_figwidth() / (0.09 * longest + 0.6)))
    figure.legend(loc="outside upper left", ncols=min(columns, 4), frameon=False)


def _svg(figure: Any) -> str:
    """Return the <svg> element only, without XML header, metadata and external references."""
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with warnings.catch_warnings():
        # Chinese labels: the browser has the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
