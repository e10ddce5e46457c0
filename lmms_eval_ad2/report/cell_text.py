"""Scores, intervals and counts of a cell as text, for tables in a terminal, in Markdown and on the page."""

from __future__ import annotations

from collections.abc import Mapping

from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.report.runs import ScoreCell
from lmms_eval_ad2.report.table import NONE, number

NGRAM = "– (n-gram metrics only)"
NO_INTERVAL = "[no interval: 1 cluster]"


def usage(counts: Mapping[str, object]) -> str:
    """A judge's counts as "requests 3, cost 0.27": the cost with two digits, or to a hundredth from 1 on."""
    shown = dict(counts)
    if is_number(cost := counts.get("cost")):
        shown["cost"] = f"{cost:.2f}" if cost >= 1 else f"{cost:.2g}"
    return ", ".join(f"{name} {value}" for name, value in shown.items())


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


def tip(cell: ScoreCell) -> str:
    """The counts, interval and reason of a cell, as a tool tip."""
    text = f"n {cell.n}: {cell.n_ok} ok, {cell.n_unparsed} unparsed, {cell.n_unscored} unscored"
    text += f", {cell.n_partly} partly scored" if cell.n_partly else ""
    if cell.ci:
        text += f"; 95 % interval {number(cell.ci[0])} to {number(cell.ci[1])}"
    if cell.clusters is not None:
        text += f"; {cell.clusters} cluster{'' if cell.clusters == 1 else 's'}"
    return text + (f"; {cell.reason}" if cell.reason else "")
