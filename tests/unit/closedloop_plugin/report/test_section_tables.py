"""Failures by cause in `ad2 report`, `ad2 report compare` and at the end of `ad2 drive run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.closedloop.run_folders import record, run_folder

from closedloop_plugin.cli.drive.run_kind import RUN_KIND
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.report.score_text import closing_text
from closedloop_plugin.report.section_tables import CAUSES
from lmms_eval_ad2.report.table import ReportSection, TableCell

WORLD = {"backend": "embedded", "version": "1", "waiting": "waits"}
KEPT = {**WORLD, "program": "ab", "standard": "kept"}
ROUTES = ("101", "102", "103", "104")
STANDARD = {"101": [(7.0, "s1")], "104": [(9.0, "b1")]}  # time, body of each collision
THREAT = {"101": [(7.0, "r1")], "102": [(5.0, "s1")], "103": [(4.0, "s1"), (6.0, "r1")]}


def drive(route: str, hits: list[tuple[float, str]], **more: Any) -> EpisodeRecord:
    places = [{"kind": "collisions_vehicle", "time_s": t, "x": 0.0, "y": 0.0, "text": "", "actor": a} for t, a in hits]
    return record(route, 60.0 if hits else 100.0, places=places, **more)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """(standard, threat): on 101 as before, 102 and 103 by the threat, 104 only without it."""
    before = [drive(route, STANDARD.get(route, []), suite="demo", world=WORLD) for route in ROUTES]
    under = [drive(route, THREAT.get(route, []), suite="threats", world=KEPT) for route in ROUTES]
    other = run_folder(tmp_path / "b", under, suite="threats", suite_sha256="ef" * 32)
    return run_folder(tmp_path / "a", before, suite="demo"), other


def row_of(section: ReportSection) -> list[str]:
    (table,) = [table for table in section.tables if table.title == CAUSES]
    (row,) = table.rows  # of the run with programs only
    return [str(cell).split("\n")[0] for cell in row]


def test_a_comparison_has_the_causes_of_the_threat_run_with_intervals(runs: tuple[Path, Path]) -> None:
    """Of four episodes: one each by the threat, both and the standard scenario, none by itself, one without failure;
    in two the threat is first, and these two are not on the standard route."""
    section = RUN_KIND.compare(*runs, force=False, routes=None, published=False)
    assert row_of(section)[1:] == ["4", "25.0", "25.0", "25.0", "0.0", "25.0", "50.0", "50.0"]
    (shares,) = section.data["causes"]
    assert (shares["episodes"], shares["both"]["share"], shares["new"]["share"]) == (4, 25.0, 50.0)
    low, high = shares["threat"]["interval"]
    assert 0 < low < 25.0 < high < 100
    (table,) = [table for table in section.tables if table.title == CAUSES]
    assert all(isinstance(cell, TableCell) and cell.span.startswith("[") for cell in table.rows[0][2:])


def test_a_report_has_them_without_the_standard_drives(runs: tuple[Path, Path]) -> None:
    section = RUN_KIND.report([runs[1]], routes="demo", published=False)
    assert row_of(section)[2:] == ["25.0", "25.0", "25.0", "0.0", "25.0", "50.0", "–"]
    plain = RUN_KIND.report([runs[0]], routes="demo", published=False)
    assert not [table for table in plain.tables if table.title == CAUSES]


def test_the_end_of_a_run_has_one_line() -> None:
    records = [drive(route, THREAT.get(route, []), world=KEPT) for route in ROUTES]
    lost = drive("105", [], world=KEPT, end="world failed", status="Failed - Simulation crashed")
    text = closing_text([*records, lost], [], profile("bench2advlm"), 1)
    line = "by the threat 1, by both 1, by the standard scenario 1, by itself 0, none 1; first by the threat 2"
    assert f"failures of 4 episodes with a program: {line}" in text.splitlines()
    standard = [drive(route, STANDARD.get(route, []), world=WORLD) for route in ROUTES]
    assert "by the threat" not in closing_text(standard, [], profile("bench2advlm"), 1)
