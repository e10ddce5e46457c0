"""Courses of several vehicles and models as one table, in the layout of the Bench2ADVLM paper's Table 3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.driver_name import driver_name
from closedloop_plugin.robots.course.published import PublishedVehicleTable
from closedloop_plugin.robots.course.records import SegmentRunRecord
from closedloop_plugin.robots.course.report import BESIDE, METHOD, CourseResult, course, ends
from lmms_eval_ad2.report import cell_text
from lmms_eval_ad2.report.table import ReportSection, SectionRun, Table, TableCell

NAME = "robot"  # key of the section in JSON


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
        agent, slow = (found if isinstance(found := self.identity.get(key), Mapping) else {} for key in _DRIVER)
        names = [driver_name(agent), " ".join(dict.fromkeys(str(slow[k]) for k in ("name", "mode") if slow.get(k)))]
        return " + ".join(name for name in names if name)


_DRIVER = ("agent", "interpreter")


def course_section(runs: Sequence[CourseRun], paper: PublishedVehicleTable | None) -> ReportSection:
    """One row per vehicle and model, one column per segment; then why runs ended early, and the paper's table."""
    segments = sorted({record.segment for run in runs for record in run.records}, key=_natural)
    results = [course(run.records, segments) for run in runs]
    names = _names(runs)
    order = sorted(range(len(runs)), key=lambda i: (runs[i].vehicle, i))
    return ReportSection(
        name=NAME,
        title="Robot courses",
        runs=[SectionRun(name, _facts(run)) for name, run in zip(names, runs, strict=True)],
        tables=[_table([(runs[i], results[i], names[i]) for i in order], segments)],
        warnings=_warnings(names),
        notes=[
            METHOD,
            *(f"{name}: {line}" for name, run in zip(names, runs, strict=True) for line in ends(run.records)),
        ],
        footer=[_published(paper)] if paper else [],
        data={"runs": [_data(run, result) for run, result in zip(runs, results, strict=True)]},
    )


def _early_ends(runs: Sequence[CourseRun], names: Sequence[str]) -> list[str]:
    return [f"{name}: {line}" for name, run in zip(names, runs, strict=True) for line in ends(run.records)]


def _natural(name: str) -> tuple[str, int]:
    """route2 before route10."""
    words = re.fullmatch(r"(.*?)(\d{0,9})", name, re.DOTALL)
    return (words[1], int(words[2] or 0)) if words else (name, 0)


def _names(runs: Sequence[CourseRun]) -> list[str]:
    """Vehicle and model of each run; with the folder where another run has the same."""
    plain = [f"{run.vehicle}, {run.model}" for run in runs]
    same = Counter(plain)
    return [f"{name} ({run.folder.name})" if same[name] > 1 else name for name, run in zip(plain, runs, strict=True)]


def _table(rows: Sequence[tuple[CourseRun, CourseResult, str]], segments: Sequence[str]) -> Table:
    body: list[list[TableCell | str]] = []
    for run, result, name in rows:
        done, driven = result.completed
        cells = [_cell(cell.completion, cell.completed, cell.runs) for cell in result.cells]
        body.append(
            [run.vehicle, name.removeprefix(f"{run.vehicle}, "), *cells, _cell(result.completion, done, driven)]
        )
    return Table(
        title="Route completion in percent, and completed runs (layout of Bench2ADVLM, Table 3)",
        headers=["vehicle", "model", *segments, "Average"],
        rows=body,
        align="ll" + "r" * (len(segments) + 1),
    )


def _cell(completion: float | None, completed: int, runs: int) -> TableCell:
    return TableCell(cell_text.number(completion), f"{completed}/{runs}" if runs else "")


def _warnings(names: Sequence[str]) -> list[str]:
    return [f"{'; '.join(names)}: a simulated vehicle; NOT comparable with real ones"]


def _facts(run: CourseRun) -> dict[str, str]:
    facts = {key: str(run.identity.get(key)) for key in ("course", "profile", "seed", "version")}
    return {**facts, "runs": str(len(run.records)), "from": "/".join(run.folder.absolute().parts[-2:])}


def _published(paper: PublishedVehicleTable) -> Table:
    return Table(
        title=f"{paper.paper}, {paper.table} ({paper.world})",
        headers=["vehicle", "model", *paper.routes, "Average"],
        rows=[[r.vehicle, r.agent, *(f"{n}/{paper.of}" for n in r.routes), f"{r.average:g} %"] for r in paper.rows],
        align="ll" + "r" * (len(paper.routes) + 1),
        notes=[BESIDE, *(f"{c.where}: '{c.says}'; {c.computed}" for c in paper.contradictions)],
    )


def _data(run: CourseRun, result: CourseResult) -> dict[str, Any]:
    return {
        "folder": str(run.folder), "vehicle": run.vehicle, "model": run.model,
        "segments": [asdict(cell) for cell in result.cells], "completion": result.completion,
    }  # fmt: skip
