"""Scores, intervals and counts of a cell as text, for tables in a terminal, in Markdown and on the page."""

from __future__ import annotations

from collections.abc import Mapping

from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.report.grid import GridColumn, GridRow, ResultGrid
from lmms_eval_ad2.report.runs import ScoreCell

NONE = "–"
NGRAM = "– (n-gram metrics only)"
NO_INTERVAL = "[no interval: 1 cluster]"


def number(value: float | None, decimals: int = 1) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def usage(counts: Mapping[str, object]) -> str:
    """A judge's counts as "requests 3, cost 0.27": the cost with two digits, or to a hundredth from 1 on."""
    return ", ".join(f"{name} {_cost(value) if name == 'cost' else value}" for name, value in counts.items())


def _cost(value: object) -> str:
    return (f"{value:.2f}" if value >= 1 else f"{value:.2g}") if is_number(value) else str(value)


def span(ci: tuple[float, float] | None, clusters: int | None, sign: str = "") -> str:
    """Format " [55.1, 59.4]", or the reason for no interval; `sign`: "+" for differences."""
    if ci:
        return f" [{ci[0]:{sign}.1f}, {ci[1]:{sign}.1f}]"
    return f" {NO_INTERVAL}" if clusters == 1 else ""


def interval(cell: ScoreCell) -> str:
    """Format "57.3 [55.1, 59.4]"; without an interval the value (and reason), without a value a dash and the reason."""
    if cell.official is None:
        return f"{NONE} ({cell.failures})" if cell.failures else NONE
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
    text += f", {cell.n_partly} partly scored" if cell.n_partly else ""
    if cell.ci:
        text += f"; 95 % interval {number(cell.ci[0])} to {number(cell.ci[1])}"
    if cell.clusters is not None:
        text += f"; {cell.clusters} cluster{'' if cell.clusters == 1 else 's'}"
    return text + (f"; {cell.reason}" if cell.reason else "")


def counts(row: GridRow) -> tuple[str, str]:
    """Format "400" and "2 / 1": the number of samples, and of those unparsed / unscored."""
    return ("", "") if row.n is None else (str(row.n), f"{row.n_unparsed} / {row.n_unscored}")
