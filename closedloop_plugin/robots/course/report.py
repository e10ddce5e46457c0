"""A course's result as text or Markdown, in the form of the paper's Table 3; the paper's own figures beneath it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from closedloop_plugin.robots.course.published import PublishedVehicleTable
from closedloop_plugin.robots.course.records import SegmentRunRecord
from lmms_eval_ad2.report import tables

METHOD = (
    "completed: runs that came to the segment's end, of those that count. completion: share of the planned path before "
    "a yellow line was crossed, something was hit or the decisions that a path may take were used up, mean over runs, "
    "in percent; its average is over segments, each counted once."
)
BESIDE = (
    "Other routes, other models, real vehicles: to be read beside the table above, never as its rows. n/10 is printed "
    "so; what was counted is not said."
)


def render(
    records: Sequence[SegmentRunRecord],
    segments: Sequence[str],
    paper: PublishedVehicleTable | None,
    *,
    markdown: bool = False,
) -> str:
    """Who drove what, ours, how the runs ended, the paper's."""
    asked = [r for r in records if r.segment in segments]
    found = course(asked, segments)
    blocks = [_heading(asked), _ours(found, markdown), _ends(asked, markdown)]
    if paper:
        blocks.append(_published(paper, markdown))
    return tables.printable("\n\n".join(block for block in blocks if block)) + "\n"


def _heading(records: Sequence[SegmentRunRecord]) -> str:
    if not records:
        return "nothing driven yet"
    r = records[0]
    slow = r.interpreter or {}
    who = " + ".join(str(name) for name in (r.agent.get("name"), slow.get("name")) if name)
    return f"{r.robot.get('name')}, {who}, profile {r.profile}, transport {r.transport}"


def _ours(found: CourseResult, markdown: bool) -> str:
    counts = [f"{c.completed}/{c.runs}" if c.runs else tables.NONE for c in found.cells]
    means = [tables.number(c.completion) for c in found.cells]
    done, runs = found.completed
    rows = [
        ["completed", *counts, f"{done}/{runs} = {100 * done / runs:.0f} %" if runs else tables.NONE],
        ["completion, %", *means, tables.number(found.completion)],
    ]
    return tables.table(["", *(c.segment for c in found.cells), "Average"], rows, markdown)


def _ends(records: Sequence[SegmentRunRecord], markdown: bool) -> str:
    """Why runs ended before their time, the commonest first, and what was unread."""
    lines = [METHOD]
    early = Counter((r.segment, r.end, r.what) for r in records if not r.completed)
    for (segment, end, what), n in early.most_common():
        reason = what if what.startswith(end) else f"{end}: {what}" if what else end
        count = f", {n} runs" if n > 1 else ""
        lines.append(f"{segment}: {reason}{count}" + (" (not counted)" if _again(records, segment, end) else ""))
    for name, title in (("unparsed", "replies could not be read"), ("agent_errors", "answers failed")):
        n = sum(r.counts.get(name, 0) for r in records)
        if n:
            lines.append(f"{n} of {sum(r.counts.get('cycles', 0) for r in records)} {title}")
    return "\n".join(_line(text, markdown) for text in lines)


def _again(records: Sequence[SegmentRunRecord], segment: str, end: str) -> bool:
    return any(r.again for r in records if (r.segment, r.end) == (segment, end))


def _published(paper: PublishedVehicleTable, markdown: bool) -> str:
    rows = [[r.vehicle, r.agent, *(f"{n}/{paper.of}" for n in r.routes), f"{r.average:g} %"] for r in paper.rows]
    grid = tables.table(["vehicle", "model", *paper.routes, "Average"], rows, markdown)
    title = f"{paper.paper}, {paper.table} ({paper.world})"
    notes = [BESIDE] + [f"{c.where}: '{c.says}'; {c.computed}" for c in paper.contradictions]
    return "\n".join([title, *([""] if markdown else []), grid, *(_line(note, markdown) for note in notes)])


def _line(text: str, markdown: bool) -> str:
    return f"- {tables.escape(text)}" if markdown else textwrap.fill(f"- {text}", tables.WIDTH, subsequent_indent="  ")


# Route completion in the form of the paper's Table 3: a column a segment, counts and means, averages.
@dataclass(frozen=True)
class SegmentResult:
    """One segment: runs, those that came to the end, and the mean share of the planned path in percent."""

    segment: str
    runs: int
    completed: int
    completion: float | None  # None: not driven yet


@dataclass(frozen=True)
class CourseResult:
    """All segments that were asked for, in their order."""

    cells: tuple[SegmentResult, ...]

    @property
    def driven(self) -> list[SegmentResult]:
        return [cell for cell in self.cells if cell.completion is not None]

    @property
    def completion(self) -> float | None:
        """Mean over segments, each counted once however often it was driven."""
        return fmean(c.completion for c in self.driven if c.completion is not None) if self.driven else None

    @property
    def completed(self) -> tuple[int, int]:
        return sum(c.completed for c in self.cells), sum(c.runs for c in self.cells)


def course(records: Sequence[SegmentRunRecord], segments: Sequence[str]) -> CourseResult:
    """Runs in which the agent failed say nothing about its driving and are not counted. (A run that was stopped, or
    whose link was lost, has no record.)"""
    counted = [r for r in records if not r.again]
    return CourseResult(tuple(_cell(name, [r for r in counted if r.segment == name]) for name in segments))


def _cell(name: str, runs: list[SegmentRunRecord]) -> SegmentResult:
    mean = fmean(r.completion for r in runs) if runs else None
    return SegmentResult(name, len(runs), sum(r.completed for r in runs), mean)
