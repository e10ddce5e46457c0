"""Route completion in the form of the paper's Table 3: a column a segment, counts and means, averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from closedloop_plugin.robots.course.records import RunRecord


@dataclass(frozen=True)
class Cell:
    """One segment: runs, those that came to the end, and the mean share of the planned path in percent."""

    segment: str
    runs: int
    completed: int
    completion: float | None  # None: not driven yet


@dataclass(frozen=True)
class Course:
    """All segments that were asked for, in their order."""

    cells: tuple[Cell, ...]

    @property
    def driven(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.completion is not None]

    @property
    def completion(self) -> float | None:
        """Mean over segments, each counted once however often it was driven."""
        return fmean(c.completion for c in self.driven if c.completion is not None) if self.driven else None

    @property
    def completed(self) -> tuple[int, int]:
        return sum(c.completed for c in self.cells), sum(c.runs for c in self.cells)


def course(records: Sequence[RunRecord], segments: Sequence[str]) -> Course:
    """Runs in which the agent failed say nothing about its driving and are not counted. (A run that was stopped, or
    whose link was lost, has no record.)"""
    counted = [r for r in records if not r.again]
    return Course(tuple(_cell(name, [r for r in counted if r.segment == name]) for name in segments))


def _cell(name: str, runs: list[RunRecord]) -> Cell:
    mean = fmean(r.completion for r in runs) if runs else None
    return Cell(name, len(runs), sum(r.completed for r in runs), mean)
