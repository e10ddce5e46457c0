"""Table, the table type of all commands and reports: text for a terminal, Markdown, the page. ReportSection: several.

Texts may come from untrusted files: all outputs escape them.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.core.printed import printable

WIDTH = 100  # columns of a terminal
WIDE = 120  # of lines of prose beside tables that may be wider than a terminal
GAP = 2  # columns between two columns of a table
NARROW = 16  # a column of text is wrapped to no less
NONE = "–"  # no value
_ALIGNMENTS = {"l": "left", "r": "right", "c": "center"}

Span = tuple[float, float]


def escape(text: str) -> str:
    """Escape text for a Markdown cell: it cannot open a column, a tag or a link."""
    for char in "\\`|":
        text = text.replace(char, "\\" + char)
    text = text.replace("<", "&lt;").replace(">", "&gt;").replace("](", "]\\(")
    return text.replace("\n", " ")


def number(value: float | None, decimals: int = 1) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def few(names: Sequence[str], most: int = 12) -> str:
    """The names, separated by commas; of more than `most` only the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True)
class TableCell:
    """A figure with its interval, both formatted; the page shows the interval smaller, a marked figure bold, and the
    tip on hovering."""

    figure: str
    span: str = ""
    marked: bool = False
    tip: str = ""

    @classmethod
    def of(cls, value: float | None, span: Span | None, decimals: int, sign: str = "", mark: str = "") -> TableCell:
        """A value with its interval; sign: "+" for differences; mark: after a known value."""
        if value is None:
            return cls(NONE)
        text = f"[{span[0]:{sign}.{decimals}f}, {span[1]:{sign}.{decimals}f}]" if span else ""
        return cls(f"{value:{sign}.{decimals}f}{mark}", text)

    def __str__(self) -> str:
        return f"{self.figure}\n{self.span}" if self.span else self.figure


@dataclass(frozen=True)
class PlotSeries:
    """Values of one run by category; None: no value. spans: 95 % intervals."""

    name: str
    values: Sequence[float | None]
    spans: Sequence[Span | None]


@dataclass(frozen=True)
class CategoryPlot:
    """Values of a few runs by category. unit: title of the axis; top: its end; lines: one line per category; remark:
    what is left out."""

    categories: Sequence[str]
    series: Sequence[PlotSeries]
    unit: str
    top: float | None = None
    lines: bool = False
    remark: str = ""


@dataclass(frozen=True)
class DifferencePlot:
    """One difference per unit (route), drawn in descending order. signs: meaning of values above and below 0; names: of
    the units, below their bars."""

    values: Sequence[float]
    unit: str
    signs: tuple[str, str]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Headers and rows of cells; numbers must be formatted by the caller.

    headers: one per column; all empty: the plain table has no heading.
    rows: cells, converted by str(); in plain text a cell may have several lines.
    align: one letter per column, "l", "r" or "c"; empty: all left.
    caption: lines below the title; notes: below the table; plot: on the page.
    detail: the page opens the table on a click and shows its plot at once; text has it only if asked for details.
    kinds: of the rows, for their style on the page: run, floor, ceiling, published; empty: all are alike.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    align: str = ""
    title: str = ""
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    plot: CategoryPlot | DifferencePlot | None = None
    detail: bool = False
    kinds: Sequence[str] = ()

    def plain(self, indent: int = 0) -> str:
        """Aligned text, each line indented by `indent` spaces."""
        style = "simple" if any(self.headers) else "plain"
        return textwrap.indent(self._tabulate(style, printable), " " * indent)

    def within(self, width: int) -> str:
        """Aligned text of at most `width` columns (a wide East Asian character takes two).

        Headers, then cells are wrapped at spaces; a word breaks only where it must. Columns that still do not fit
        follow in further blocks below, each with the first column again.
        """
        if not self.rows:
            return self.plain()
        headers = [printable(header) for header in self.headers]
        rows = [[printable(str(cell)) for cell in row] for row in self.rows]
        align = self.align or "l" * max(map(len, [headers, *rows]))
        return "\n\n".join(
            _laid_out([headers[i] for i in block], [[row[i] for i in block] for row in rows],
                      "".join(align[i] for i in block), width)
            for block in _blocks(headers, rows, align, width)
        )  # fmt: skip

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

    def block(self, width: int | None, wide: bool = False) -> str:
        """Title, caption, table and notes, each without the blank line that Markdown needs between them in text.

        width: of prose, and of the table if it is not `wide`; None: Markdown.
        """
        if width is None:
            title, body = f"### {escape(self.title)}" if self.title else "", self.markdown()
        elif wide:
            title, body = self.title, self.plain()
        else:
            title, body = wrapped(self.title, width, "  "), self.within(width)
        caption = "\n".join(_filled(line, width) for line in self.caption)
        parts = [title, caption, body if self.rows else "", _listed(self.notes, width)]
        return ("\n\n" if width is None else "\n").join(part for part in parts if part)


@dataclass(frozen=True)
class SectionRun:
    """A run of a section: its name, and its facts for the page."""

    name: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class ReportSection:
    """The part of a report that a run kind adds: facts about its runs, tables, notes; for text, Markdown, page, JSON.

    name: key of `data` in JSON, anchor on the page; head: lines on top of the text, which the page has in `runs`;
    warnings, notes: before and after the tables; footer: the papers' tables, last, on the page below the
    tables too.
    """

    name: str
    title: str
    runs: Sequence[SectionRun]
    tables: Sequence[Table]
    head: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    footer: Sequence[Table] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def render(
        self, *, markdown: bool = False, details: bool = False, wide: bool = False, published: bool = True
    ) -> str:  # fmt: skip
        """The section as text or Markdown; text has no line above WIDTH, except with `wide`.

        details: with detail tables. published: with the footer, the papers' tables.
        """
        width = None if markdown else WIDE if wide else WIDTH
        blocks = [_listed([*self.head, *self.warnings], width)]
        blocks += [table.block(width, wide) for table in self.tables if details or not table.detail]
        blocks.append(_listed(self.notes, width))
        blocks += [table.block(width, wide) for table in self.footer if published]
        return printable("\n\n".join(block for block in blocks if block)) + "\n"


def _listed(lines: Sequence[str], width: int | None) -> str:
    return "\n".join(_filled(f"- {line}", width) for line in lines)


def _filled(text: str, width: int | None) -> str:
    return escape(text) if width is None else wrapped(text, width, "  ")


def columns_of(text: str) -> int:
    """The width of the widest line in a terminal; wide East Asian characters take two columns."""
    return max((_width(line) for line in text.splitlines()), default=0)


def _width(line: str) -> int:
    if line.isascii():
        return len(line)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in line)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """`text` in lines of at most `width` columns, broken at spaces; a longer word after "/", "-" or "_", else anywhere.

    indent: of all lines but the first of each line of `text`.
    """
    return "\n".join(line for part in text.split("\n") for line in _wrapped(part, width, indent))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    if _width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for piece in _pieces(text, width - len(indent)):
        if line.strip() and _width(line + piece.rstrip()) > width:
            lines, line = [*lines, line.rstrip()], indent + piece.lstrip()
        else:
            line += piece
        while _width(line.rstrip()) > width:  # a long word
            cut = next(
                i for i in range(len(line), len(indent), -1) if _width(line[:i]) <= width or i == len(indent) + 1
            )
            lines, line = [*lines, line[:cut]], indent + line[cut:]
    return [*lines, line.rstrip()] if line.strip() else lines


def _pieces(text: str, width: int) -> list[str]:
    """The text in pieces after which a line may break: words, and the parts of words that are wider than `width`."""
    words = re.findall(r"\s*\S+\s*|\s+", text)
    parts = (re.findall(r"[^/_-]*(?:[/_-]+|$)", word) if _width(word.rstrip()) > width else [word] for word in words)
    return [part for found in parts for part in found]


def _blocks(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str, width: int) -> list[list[int]]:
    """The columns of each block: as many as fit, each block with the first column."""
    least = [_least(headers[i] if headers else "", [row[i] for row in rows], align[i]) for i in range(len(align))]
    blocks, block, used = [], [0], least[0]
    for i in range(1, len(least)):
        if len(block) > 1 and used + GAP + least[i] > width:
            blocks.append(block)
            block, used = [0], least[0]
        block, used = [*block, i], used + GAP + least[i]
    return [*blocks, block]


def _least(header: str, cells: Sequence[str], align: str) -> int:
    """The least width of a column: figures stay in one line, headers and texts are wrapped."""
    word = max((_width(piece.rstrip()) for piece in _pieces(header.replace("\n", " "), NARROW)), default=0)
    body = max(map(columns_of, cells), default=0)
    return max(word, min(body, NARROW) if align == "l" else body)


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str, total: int) -> list[int]:
    """The widths of the columns of a block: each the least, the rest evenly to columns of text, then to headers."""
    n = len(align)
    widths = [_least(headers[i] if headers else "", [row[i] for row in rows], align[i]) for i in range(n)]
    whole = [max(columns_of(row[i]) for row in [headers, *rows] if row) for i in range(n)]
    for growing in ([i for i in range(n) if align[i] == "l"], range(n)):
        while sum(widths) < total and (short := [i for i in growing if widths[i] < whole[i]]):
            widths[min(short, key=lambda i: widths[i])] += 1
    return widths


def _laid_out(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str, width: int) -> str:
    """One block, wrapped to fit."""
    n = len(align)
    widths = _widths(headers, rows, align, width - GAP * (n - 1))
    cells = [[wrapped(cell, w, "  ") for cell, w in zip(row, widths, strict=True)] for row in rows]
    lines = list(cells)
    if any(headers):
        heads = [wrapped(header, w) for header, w in zip(headers, widths, strict=True)]
        rules = ["-" * max(columns_of(row[i]) for row in [heads, *cells]) for i in range(n)]
        lines = [heads, rules, *cells]
    text = require("tabulate", "tables").tabulate(
        lines, (), tablefmt="plain", disable_numparse=True, colalign=[_ALIGNMENTS[letter] for letter in align]
    )
    return "\n".join(line.rstrip() for line in text.splitlines())
