"""Figures of the report page as SVG text; the only file of the page that imports matplotlib.

Text stays text (the page sets its colour for light and dark mode), backgrounds are transparent, and lines have a grey
that is visible in both modes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.core.printed import visible

# Okabe and Ito's palette, suitable for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8B7FD1", "#B8A800")
MOST = 6  # runs in a plot
GREY = "#7A808A"
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


def settings() -> Any:
    return require("matplotlib", "plots of the report page").rc_context(SETTINGS)


def figure_of(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure of `width` x `height` inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def finish(figure: Any, axes: Any, axis: str = "y") -> None:
    axes.grid(axis=axis, color=GREY, alpha=0.25, linewidth=0.8)
    axes.set_axisbelow(True)
    longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
    columns = max(1, int(figure.get_figwidth() / (0.09 * longest + 0.6)))
    figure.legend(loc="outside upper left", ncols=min(columns, 4), frameon=False)


def svg(figure: Any) -> str:
    """Return the <svg> element only, without XML header, metadata and external references."""
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with warnings.catch_warnings():
        # Chinese labels: the browser has the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    return str(visible(text[text.index("<svg") :]))


def remark(axes: Any, remarks: Sequence[str]) -> None:
    if remarks:
        axes.set_title("; ".join(remarks), loc="right", fontsize=8)


def shortened(text: str, limit: int = 96) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
