"""ReportSection: the part of a report that a run kind adds; one object for text, Markdown, page and JSON.

A section holds facts about its runs, tables, plots and notes. `render` returns it as text or Markdown; the page shows
the same tables with their plots (page/section_plots.py). Texts may come from untrusted files: both outputs escape them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report import compact, tables
from lmms_eval_ad2.report.text_table import TextTable, escape, wrapped

Span = tuple[float, float]


@dataclass(frozen=True)
class SectionCell:
    """A figure with its interval, both formatted; the page shows the interval smaller, and a marked figure bold."""

    figure: str
    span: str = ""
    marked: bool = False

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
    """Values of a few runs by category. unit: title of the axis; top: its end; lines: one line per category."""

    categories: Sequence[str]
    series: Sequence[PlotSeries]
    unit: str
    top: float | None = None
    lines: bool = False


@dataclass(frozen=True)
class DifferencePlot:
    """One difference per unit (route), drawn in descending order. signs: meaning of values above and below 0; names: of
    the units, below their bars."""

    values: Sequence[float]
    unit: str
    signs: tuple[str, str]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class SectionTable:
    """A table. caption: lines below the title; notes: below the table; align: as in TextTable.

    detail: the page opens the table on a click and shows its plot at once; text has it only if asked for details.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[SectionCell | str]]
    align: str = ""
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    plot: CategoryPlot | DifferencePlot | None = None
    detail: bool = False


@dataclass(frozen=True)
class SectionRun:
    """A run of a section: its name, and its facts for the page."""

    name: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class ReportSection:
    """What a run kind adds to a report.

    name: key of `data` in JSON, anchor on the page; head: lines on top of the text, which the page has in `runs`;
    warnings, notes: before and after the tables; footer: the papers' tables, last, on the page below the
    tables too.
    """

    name: str
    title: str
    runs: Sequence[SectionRun]
    tables: Sequence[SectionTable]
    head: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    footer: Sequence[SectionTable] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def render(
    section: ReportSection, *, markdown: bool = False, details: bool = False, wide: bool = False, published: bool = True
) -> str:  # fmt: skip
    """The section as text or Markdown; text has no line above compact.WIDTH, except with `wide`.

    details: with detail tables. published: with the footer, the papers' tables.
    """

    width = None if markdown else tables.WIDTH if wide else compact.WIDTH

    def shown(table: SectionTable) -> str:
        return _table(table, width, wide)

    blocks = [_listed([*section.head, *section.warnings], width)]
    blocks += [shown(table) for table in section.tables if details or not table.detail]
    blocks.append(_listed(section.notes, width))
    blocks += [shown(table) for table in section.footer if published]
    return printable("\n\n".join(block for block in blocks if block)) + "\n"


def _table(table: SectionTable, width: int | None, wide: bool) -> str:
    """Title, caption, table and notes, each without the blank line that Markdown needs between them in text.

    width: of prose, and of the table if it is not `wide`; None: Markdown.
    """
    figures = TextTable(table.headers, table.rows, table.align)
    if width is None:
        title, body = f"### {escape(table.title)}" if table.title else "", figures.markdown()
    elif wide:
        title, body = table.title, figures.plain()
    else:
        title, body = wrapped(table.title, width, "  "), figures.within(width)
    caption = "\n".join(_filled(line, width) for line in table.caption)
    parts = [title, caption, body if table.rows else "", _listed(table.notes, width)]
    return ("\n\n" if width is None else "\n").join(part for part in parts if part)


def _listed(lines: Sequence[str], width: int | None) -> str:
    return "\n".join(_filled(f"- {line}", width) for line in lines)


def _filled(text: str, width: int | None) -> str:
    return escape(text) if width is None else wrapped(text, width, "  ")
