"""The results of courses, in the form of the Bench2ADVLM paper's Table 3: one run folder as text or Markdown, and
several vehicles and models as one table of `ad2 report`.

The published figures (`published.yaml`) are shown in a separate table, because routes and models differ.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from pydantic import BaseModel

from closedloop_plugin.core.record import driver_name
from closedloop_plugin.robots.course.records import SegmentRunRecord
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report import cell_text, tables
from lmms_eval_ad2.report.table import ReportSection, SectionRun, Table, TableCell, escape

NAME = "robot"  # key of the section in JSON
METHOD = (
    "completed: runs that reached the segment's end, of those that count. completion: share of the planned path driven "
    "before a yellow line was crossed, something was hit or the allowed number of decisions was used up, in percent, "
    "mean over runs; its average is over segments, each counted once."
)
BESIDE = (
    "Other routes, other models, real vehicles: not comparable with the rows of the table above. n/10 is quoted from "
    "the paper, which does not say what was counted."
)


class PublishedVehicleTable(BaseModel):
    """Table 3 of the paper: route completion of real vehicles in their sandbox. See the comments of the file."""

    paper: str
    table: str
    world: str
    of: int
    vehicles: list[str]
    routes: list[str]
    rows: list[
        tuple[str, str, int, int, int, int, int, float]
    ]  # vehicle, model, counts out of `of`, average in percent
    claims: list[dict[str, str | bool]]

    @property
    def headers(self) -> list[str]:
        return ["vehicle", "model", *self.routes, "Average"]

    @property
    def cells(self) -> list[list[str]]:
        return [
            [vehicle, model, *(f"{n}/{self.of}" for n in counts), f"{average:g} %"]
            for vehicle, model, *counts, average in self.rows
        ]

    @property
    def title(self) -> str:
        return f"{self.paper}, {self.table} ({self.world})"

    @property
    def notes(self) -> list[str]:
        """How to read the table, and the paper's sentences that contradict its figures."""
        contradictions = [claim for claim in self.claims if not claim["agrees"]]
        return [BESIDE, *(f"{claim['where']}: '{claim['says']}'; {claim['computed']}" for claim in contradictions)]


@functools.cache
def published() -> PublishedVehicleTable:
    """The table as printed in the paper."""
    text = resources.files(__package__).joinpath("published.yaml").read_text("utf-8")
    return PublishedVehicleTable.model_validate(yaml.safe_load(text))


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
    def completion(self) -> float | None:
        """Mean over segments; each counts once, however often it was driven."""
        driven = [cell.completion for cell in self.cells if cell.completion is not None]
        return fmean(driven) if driven else None

    @property
    def completed(self) -> tuple[int, int]:
        return sum(c.completed for c in self.cells), sum(c.runs for c in self.cells)


def course(records: Sequence[SegmentRunRecord], segments: Sequence[str]) -> CourseResult:
    """Counts and means of each segment. Runs in which the agent failed are not counted. (A run that was
    interrupted has no record.)"""
    cells = []
    for name in segments:
        runs = [r for r in records if r.segment == name and not r.retryable]
        mean = fmean(r.completion for r in runs) if runs else None
        cells.append(SegmentResult(name, len(runs), sum(r.completed for r in runs), mean))
    return CourseResult(tuple(cells))


def ends(records: Sequence[SegmentRunRecord]) -> list[str]:
    """Lines: why runs ended early, most frequent first, and how many replies failed."""
    lines = []
    early = Counter((r.segment, r.end, r.what, r.retryable) for r in records if not r.completed)
    for (segment, end, what, retryable), n in early.most_common():
        reason = what if what.startswith(end) else f"{end}: {what}" if what else end
        count = f", {n} runs" if n > 1 else ""
        lines.append(f"{segment}: {reason}{count}" + (" (not counted)" if retryable else ""))
    for name, title in (("unparsed", "replies could not be read"), ("agent_errors", "answers failed")):
        n = sum(r.counts.get(name, 0) for r in records)
        if n:
            lines.append(f"{n} of {sum(r.counts.get('cycles', 0) for r in records)} {title}")
    return lines


def render(
    records: Sequence[SegmentRunRecord],
    segments: Sequence[str],
    paper: PublishedVehicleTable | None,
    *,
    markdown: bool = False,
) -> str:
    """Heading, our table, reasons of early ends, and the paper's table."""

    def listed(notes: Sequence[str]) -> str:
        if markdown:
            return "\n".join(f"- {escape(note)}" for note in notes)
        return "\n".join(textwrap.fill(f"- {note}", tables.WIDTH, subsequent_indent="  ") for note in notes)

    selected = [r for r in records if r.segment in segments]
    ours = _course_table(course(selected, segments)).render(markdown=markdown)
    blocks = [_heading(selected), ours, listed([METHOD, *ends(selected)])]
    if paper:
        grid = Table(paper.headers, paper.cells).render(markdown=markdown)
        blocks.append("\n".join([paper.title, *([""] if markdown else []), grid, listed(paper.notes)]))
    return printable("\n\n".join(blocks)) + "\n"


def _heading(records: Sequence[SegmentRunRecord]) -> str:
    if not records:
        return "nothing driven yet"
    r = records[0]
    interpreter = r.interpreter or {}
    driver = " + ".join(str(name) for name in (driver_name(r.agent), interpreter.get("name")) if name)
    return f"{r.robot.get('name')}, {driver}, profile {r.profile}"


def _course_table(result: CourseResult) -> Table:
    counts = [f"{c.completed}/{c.runs}" if c.runs else cell_text.NONE for c in result.cells]
    means = [cell_text.number(c.completion) for c in result.cells]
    done, runs = result.completed
    rows = [
        ["completed", *counts, f"{done}/{runs} = {100 * done / runs:.0f} %" if runs else cell_text.NONE],
        ["completion, %", *means, cell_text.number(result.completion)],
    ]
    return Table(["", *(c.segment for c in result.cells), "Average"], rows)


@dataclass(frozen=True)
class CourseRun:
    """A folder of `ad2 robot run`. records: one per segment and run; identity: of run.json."""

    folder: Path
    records: tuple[SegmentRunRecord, ...]
    identity: Mapping[str, Any]

    @property
    def vehicle(self) -> str:
        robot = self.identity.get("robot")
        return str(robot.get("name") if isinstance(robot, Mapping) else robot)

    @property
    def model(self) -> str:
        """The fast system, then the slow system with its mode."""
        agent, slow = (
            found if isinstance(found := self.identity.get(key), Mapping) else {} for key in ("agent", "interpreter")
        )
        names = [driver_name(agent), " ".join(dict.fromkeys(str(slow[k]) for k in ("name", "mode") if slow.get(k)))]
        return " + ".join(name for name in names if name)

    @property
    def facts(self) -> dict[str, str]:
        facts = {key: str(self.identity.get(key)) for key in ("course", "profile", "seed", "version")}
        return {**facts, "runs": str(len(self.records)), "from": "/".join(self.folder.absolute().parts[-2:])}

    def data(self, result: CourseResult) -> dict[str, Any]:
        """The run as JSON values."""
        return {
            "folder": str(self.folder), "vehicle": self.vehicle, "model": self.model,
            "segments": [asdict(cell) for cell in result.cells], "completion": result.completion,
        }  # fmt: skip


def course_section(runs: Sequence[CourseRun], paper: PublishedVehicleTable | None) -> ReportSection:
    """One row per vehicle and model, one column per segment; then why runs ended early, and the paper's table."""
    segments = sorted({record.segment for run in runs for record in run.records}, key=_natural)
    results = [course(run.records, segments) for run in runs]
    models = _models(runs)
    names = [f"{run.vehicle}, {model}" for run, model in zip(runs, models, strict=True)]
    rows = sorted(zip(runs, results, models, strict=True), key=lambda row: row[0].vehicle)
    early = [f"{name}: {line}" for name, run in zip(names, runs, strict=True) for line in ends(run.records)]
    return ReportSection(
        name=NAME,
        title="Robot courses",
        runs=[SectionRun(name, run.facts) for name, run in zip(names, runs, strict=True)],
        tables=[_section_table(rows, segments)],
        warnings=[f"{'; '.join(names)}: a simulated vehicle; NOT comparable with real ones"],
        notes=[METHOD, *early],
        footer=[
            Table(
                title=paper.title,
                headers=paper.headers,
                rows=[list(row) for row in paper.cells],
                align="ll" + "r" * (len(paper.routes) + 1),
                notes=paper.notes,
            )
        ]
        if paper
        else [],
        data={"runs": [run.data(result) for run, result in zip(runs, results, strict=True)]},
    )


def _natural(name: str) -> tuple[str, int]:
    """route2 before route10."""
    words = re.fullmatch(r"(.*?)(\d{0,9})", name, re.DOTALL)
    return (words[1], int(words[2] or 0)) if words else (name, 0)


def _models(runs: Sequence[CourseRun]) -> list[str]:
    """The model of each run; with the folder where another run has the same vehicle and model."""
    same = Counter((run.vehicle, run.model) for run in runs)
    return [f"{run.model} ({run.folder.name})" if same[run.vehicle, run.model] > 1 else run.model for run in runs]


def _section_table(rows: Sequence[tuple[CourseRun, CourseResult, str]], segments: Sequence[str]) -> Table:
    body: list[list[TableCell | str]] = []
    for run, result, model in rows:
        of_segments = [(cell.completion, cell.completed, cell.runs) for cell in result.cells]
        cells = [
            TableCell(cell_text.number(completion), f"{done}/{count}" if count else "")
            for completion, done, count in [*of_segments, (result.completion, *result.completed)]
        ]
        body.append([run.vehicle, model, *cells])
    return Table(
        title="Route completion in percent, and completed runs (layout of Bench2ADVLM, Table 3)",
        headers=["vehicle", "model", *segments, "Average"],
        rows=body,
        align="ll" + "r" * (len(segments) + 1),
    )
