"""The table type of all commands and reports: aligned text for a terminal, or Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmms_eval_ad2.errors import require
from lmms_eval_ad2.printed import printable

_ALIGNMENTS = {"l": "left", "r": "right", "c": "center"}


def escape(text: str) -> str:
    """Escape text for a Markdown cell: it cannot open a column, a tag or a link."""
    for char in "\\`|":
        text = text.replace(char, "\\" + char)
    text = text.replace("<", "&lt;").replace(">", "&gt;").replace("](", "]\\(")
    return text.replace("\n", " ")


def few(names: Sequence[str], most: int = 12) -> str:
    """The names, separated by commas; of more than `most` only the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True)
class TextTable:
    """Headers and rows of cells; numbers must be formatted by the caller.

    headers: one per column; all empty: the plain table has no heading.
    rows: cells, converted by str(); in plain text a cell may have several lines.
    align: one letter per column, "l", "r" or "c"; empty: all left.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    align: str = ""

    def plain(self, indent: int = 0) -> str:
        """Aligned text, each line indented by `indent` spaces."""
        style = "simple" if any(self.headers) else "plain"
        return textwrap.indent(self._tabulate(style, printable), " " * indent)

    def markdown(self, escape: Callable[[str], str] = escape) -> str:
        """A Markdown table; `escape` is applied to every header and cell."""
        return self._tabulate("pipe", lambda text: printable(escape(text)))

    def render(self, *, markdown: bool) -> str:
        """`markdown()` or `plain()`."""
        return self.markdown() if markdown else self.plain()

    def _tabulate(self, style: str, cleaned: Callable[[str], str]) -> str:
        # Cleaned first: tabulate measures the widths.
        headers = () if style == "plain" else [cleaned(h) for h in self.headers]
        rows = [[cleaned(str(cell)) for cell in row] for row in self.rows]
        align = [_ALIGNMENTS[letter] for letter in self.align] if rows and self.align else None
        text = require("tabulate", "tables").tabulate(
            rows, headers, tablefmt=style, disable_numparse=True, colalign=align
        )
        return "\n".join(line.rstrip() for line in text.splitlines())
