"""ReportSection: the part of a report that a run kind adds; one object for text, Markdown, page and JSON.

A section holds facts about its runs, tables, plots and notes. `render` returns it as text or Markdown; the page shows
the same tables with their plots (page/section_plots.py). Texts may come from untrusted files: both outputs escape them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.text_table import TextTable, escape, printable

Span = tuple[float, float]


@dataclass(frozen=True)
class SectionCell:
    """A figure with its interval, both formatted; the page shows the interval smaller."""

    figure: str
    span: str = ""

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
    """Values with intervals of up to a few runs, by category. unit: title of the axis; limits: of the axis."""

    categories: Sequence[str]
    series: Sequence[PlotSeries]
    unit: str
    limits: tuple[float, float] | None = None
    wide: bool = False  # many categories: one line each


@dataclass(frozen=True)
class DifferencePlot:
    """One difference per unit (route), drawn from the smallest to the largest. signs: meaning of above and below 0."""

    labels: Sequence[str]
    values: Sequence[float]
    unit: str
    signs: tuple[str, str]


@dataclass(frozen=True)
class SectionTable:
    """A table. lead: lines above it; caption: line below the title, and notes: below the table, both in every output.

    align: as in TextTable. folded: the page opens it on a click, and text omits it.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[SectionCell | str]]
    align: str = ""
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    plot: CategoryPlot | DifferencePlot | None = None
    folded: bool = False


@dataclass(frozen=True)
class SectionRun:
    """A run of a section: its name, its facts for the page, and one line for text."""

    name: str
    facts: Mapping[str, str]
    line: str


@dataclass(frozen=True)
class ReportSection:
    """All of a run kind. name: key of `data` in JSON and anchor of the page; notes: after the tables."""

    name: str
    title: str
    runs: Sequence[SectionRun]
    tables: Sequence[SectionTable]
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def render(section: ReportSection, *, markdown: bool = False) -> str:
    """The section as text or Markdown."""
    lines = [*(run.line for run in section.runs), *section.warnings]
    blocks = [_listed(lines, markdown)]
    blocks += [_table(table, markdown) for table in section.tables if not table.folded]
    blocks.append(_listed(section.notes, markdown))
    return printable("\n\n".join(block for block in blocks if block)) + "\n"


def _table(table: SectionTable, markdown: bool) -> str:
    title = f"### {escape(table.title)}\n" if markdown and table.title else table.title
    body = TextTable(table.headers, table.rows, table.align).render(markdown=markdown) if table.rows else ""
    caption = "\n".join(_filled(line, markdown) for line in table.caption)
    above = "\n".join(text for text in (title, caption) if text)
    gap = "\n\n" if markdown and caption else "\n"
    return "\n\n".join(
        block for block in (f"{above}{gap if above else ''}{body}".strip("\n"), _listed(table.notes, markdown)) if block
    )


def _listed(lines: Sequence[str], markdown: bool) -> str:
    return "\n".join(_filled(f"- {line}", markdown) for line in lines)


def _filled(text: str, markdown: bool) -> str:
    return escape(text) if markdown else textwrap.fill(text, tables.WIDTH, subsequent_indent="  ")
