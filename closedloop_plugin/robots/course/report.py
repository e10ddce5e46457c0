"""The results of a course as text or Markdown, in the form of the paper's Table 3, with the published figures."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from closedloop_plugin.core.driver_name import driver_name
from closedloop_plugin.robots.course.published import PublishedVehicleTable
from closedloop_plugin.robots.course.records import SegmentRunRecord
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report import cell_text
from lmms_eval_ad2.report.table import WIDE, Table, escape

METHOD = (
    "completed: runs that reached the segment's end, of those that count. completion: share of the planned path driven "
    "before a yellow line was crossed, something was hit or the allowed number of decisions was used up, in percent, "
    "mean over runs; its average is over segments, each counted once."
)
BESIDE = (
    "Other routes, other models, real vehicles: not comparable with the rows of the table above. n/10 is quoted from "
    "the paper, which does not say what was counted."
)


@dataclass(frozen=True)
class SegmentResult:
    """One column of the table. `completion`: mean share of the planned path, percent."""

    segment: str
    runs: int
    completed: int
    completion: float | None  # None: not driven yet


@dataclass(frozen=True)
class CourseResult:
    """The requested segments in their order: the columns of the paper's Table 3."""

    cells: tuple[SegmentResult, ...]

    @property
    def driven(self) -> list[SegmentResult]:
        return [cell for cell in self.cells if cell.completion is not None]

    @property
    def completion(self) -> float | None:
        """Mean over segments; each counts once, however often it was driven."""
        return fmean(c.completion for c in self.driven if c.completion is not None) if self.driven else None

    @property
    def completed(self) -> tuple[int, int]:
        return sum(c.completed for c in self.cells), sum(c.runs for c in self.cells)


def render(
    records: Sequence[SegmentRunRecord],
    segments: Sequence[str],
    paper: PublishedVehicleTable | None,
    *,
    markdown: bool = False,
) -> str:
    """Heading, our table, reasons of early ends, and the paper's table."""
    selected = [r for r in records if r.segment in segments]
    result = course(selected, segments)
    notes = "\n".join(_line(text, markdown) for text in [METHOD, *ends(selected)])
    blocks = [_heading(selected), _ours(result, markdown), notes]
    if paper:
        blocks.append(_published(paper, markdown))
    return printable("\n\n".join(block for block in blocks if block)) + "\n"


def _heading(records: Sequence[SegmentRunRecord]) -> str:
    if not records:
        return "nothing driven yet"
    r = records[0]
    interpreter = r.interpreter or {}
    driver = " + ".join(str(name) for name in (driver_name(r.agent), interpreter.get("name")) if name)
    return f"{r.robot.get('name')}, {driver}, profile {r.profile}"


def _ours(result: CourseResult, markdown: bool) -> str:
    counts = [f"{c.completed}/{c.runs}" if c.runs else cell_text.NONE for c in result.cells]
    means = [cell_text.number(c.completion) for c in result.cells]
    done, runs = result.completed
    rows = [
        ["completed", *counts, f"{done}/{runs} = {100 * done / runs:.0f} %" if runs else cell_text.NONE],
        ["completion, %", *means, cell_text.number(result.completion)],
    ]
    return Table(["", *(c.segment for c in result.cells), "Average"], rows).render(markdown=markdown)


def ends(records: Sequence[SegmentRunRecord]) -> list[str]:
    """Lines: why runs ended early, most frequent first, and how many replies failed."""
    lines = []
    early = Counter((r.segment, r.end, r.what) for r in records if not r.completed)
    for (segment, end, what), n in early.most_common():
        reason = what if what.startswith(end) else f"{end}: {what}" if what else end
        count = f", {n} runs" if n > 1 else ""
        lines.append(f"{segment}: {reason}{count}" + (" (not counted)" if _retryable(records, segment, end) else ""))
    for name, title in (("unparsed", "replies could not be read"), ("agent_errors", "answers failed")):
        n = sum(r.counts.get(name, 0) for r in records)
        if n:
            lines.append(f"{n} of {sum(r.counts.get('cycles', 0) for r in records)} {title}")
    return lines


def _retryable(records: Sequence[SegmentRunRecord], segment: str, end: str) -> bool:
    return any(r.retryable for r in records if (r.segment, r.end) == (segment, end))


def _published(paper: PublishedVehicleTable, markdown: bool) -> str:
    rows = [[r.vehicle, r.agent, *(f"{n}/{paper.of}" for n in r.routes), f"{r.average:g} %"] for r in paper.rows]
    grid = Table(["vehicle", "model", *paper.routes, "Average"], rows).render(markdown=markdown)
    title = f"{paper.paper}, {paper.table} ({paper.world})"
    notes = [BESIDE] + [f"{c.where}: '{c.says}'; {c.computed}" for c in paper.contradictions]
    return "\n".join([title, *([""] if markdown else []), grid, *(_line(note, markdown) for note in notes)])


def _line(text: str, markdown: bool) -> str:
    return f"- {escape(text)}" if markdown else textwrap.fill(f"- {text}", WIDE, subsequent_indent="  ")


def course(records: Sequence[SegmentRunRecord], segments: Sequence[str]) -> CourseResult:
    """Counts and means of each segment. Runs in which the agent failed are not counted. (A run that was
    interrupted has no record.)"""
    counted = [r for r in records if not r.retryable]
    return CourseResult(tuple(_cell(name, [r for r in counted if r.segment == name]) for name in segments))


def _cell(name: str, runs: list[SegmentRunRecord]) -> SegmentResult:
    mean = fmean(r.completion for r in runs) if runs else None
    return SegmentResult(name, len(runs), sum(r.completed for r in runs), mean)
