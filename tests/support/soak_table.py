"""Table of the soak tests at the end of a test run: repetitions of each test, and the figures that it recorded.

A test records figures with `record_property(name, value)`. Repetitions of a test are added up; a name that starts with
"most" is a maximum. The property-based tests are one row.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

PROPERTIES = "property-based tests"
SOAK = "marked soak"  # name of a user property without figures


@dataclass
class SoakRow:
    """Repetitions of one test. `failed`: their seeds, or the whole name of a test without seeds."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def add(self, report: pytest.TestReport) -> None:
        """Count one repetition: the call, or a failure before or after it."""
        if report.failed:
            self.failed.append(_seed(report.nodeid) or report.nodeid)
        elif report.when == "call":
            self.passed += 1
        if report.when == "call":
            for name, value in report.user_properties:
                if isinstance(value, int | float):
                    best = max if name.startswith("most") else sum
                    self.figures[name] = best([self.figures.get(name, 0), value])

    def cells(self) -> list[str]:
        """Repetitions, outcome and figures as text."""
        outcome = "all passed" if not self.failed else f"{len(self.failed)} failed: {', '.join(self.failed)}"
        figures = ", ".join(f"{name} {value:,.6g}" for name, value in self.figures.items())
        return [f"{self.passed + len(self.failed)}", outcome, figures]


def soak_table(reports: Iterable[object]) -> list[str]:
    """Lines of a Markdown table; empty if no soak test ran. Reports of failed collections are left out."""
    rows: dict[str, SoakRow] = {}
    for report in (report for report in reports if isinstance(report, pytest.TestReport)):
        soak = SOAK in dict(report.user_properties)
        if (soak or "hypothesis" in report.keywords) and not report.skipped:
            name = report.nodeid.split("[")[0].removeprefix("tests/") if soak else PROPERTIES
            rows.setdefault(name, SoakRow()).add(report)
    if not rows.keys() - {PROPERTIES}:
        return []
    lines = ["| test | repetitions | outcome | figures |", "|---|---|---|---|"]
    return lines + [" | ".join([f"| {name}", *row.cells()]) + " |" for name, row in sorted(rows.items())]


def machine() -> str:
    """Date, cores and Python version of this run."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system, python = f"{platform.system()} {platform.machine()}", f"Python {platform.python_version()}"
    return f"{datetime.date.today()}, {system}, {cores} cores, {python}"


def _seed(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")
