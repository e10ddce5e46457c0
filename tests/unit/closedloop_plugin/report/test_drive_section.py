"""The section of drives in `ad2 report`: the grid of fast system, slow system and mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.closedloop.run_folders import record, run_folder

from closedloop_plugin.cli.drive.run_kind import RUN_KIND
from closedloop_plugin.report.drive_section import report_section
from closedloop_plugin.report.results import read_results
from closedloop_plugin.scoring import ceilings
from lmms_eval_ad2.report.page import plots
from lmms_eval_ad2.report.table import ReportSection


def drive(folder: Path, fast: str, slow: str | None, mode: str, score: float, suite: str = "demo") -> Path:
    """A run of one pair of systems on two routes, with equal scores."""
    driver: dict[str, Any] = {
        "agent": {"name": fast, "privileged": False}, "interpreter": {"name": slow, "mode": mode} if slow else None,
    }  # fmt: skip
    records = [record(route, score, suite=suite, **driver) for route in ("101", "102")]
    return run_folder(folder, records, suite=suite, **driver)


def section_of(*folders: Path) -> ReportSection:
    section: ReportSection = RUN_KIND.report(folders, routes="demo", published=False)
    return section


def grid_of(section: ReportSection) -> list[list[str]] | None:
    tables = [table for table in section.tables if table.title.startswith("Fast system by slow system")]
    return [[str(cell).split("\n")[0] for cell in row] for row in tables[0].rows] if tables else None


def test_the_grid_has_the_papers_layout(tmp_path: Path) -> None:
    section = section_of(
        drive(tmp_path / "d", "qwen", "llava", "dcs", 60.0),
        drive(tmp_path / "c", "qwen", "llama", "cng", 80.0),
        drive(tmp_path / "b", "internvl", "llama", "dcs", 100.0),
        drive(tmp_path / "a", "straight", None, "", 40.0),
    )
    table = next(table for table in section.tables if table.title.startswith("Fast system"))
    assert table.title == "Fast system by slow system and mode: demo (layout of Bench2ADVLM, Table 1)"
    titles = [header.replace("\n", " ") for header in table.headers]
    assert titles == [
        "Fast system", "Slow system", "Mode", "Success Rate %", "Driving Score", "Efficiency %", "Comfortness %",
        "Skill Score %", "run",
    ]  # fmt: skip
    assert [row[:5] + row[-1:] for row in grid_of(section) or []] == [
        ["internvl", "llama", "DCS", "100.00", "100.00", "b"],
        ["qwen", "llama", "CNG", "0.00", "80.00", "c"],
        ["qwen", "llava", "DCS", "0.00", "60.00", "d"],
    ]


def test_the_version_of_reference_rows_is_said_once_below_the_table(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(ceilings, "__version__", "99.0.0")
    scores = section_of(drive(tmp_path / "a", "straight", None, "", 40.0)).tables[0]
    reference = next(row for row in scores.rows if "expert" in str(row[0]))
    assert str(reference[0]) == "expert (demo, bench2advlm)"
    (note,) = scores.notes
    assert note.startswith("reference rows: version ") and note.endswith("scores may differ from this version's")


def test_a_ratio_without_a_bound_has_no_interval(tmp_path: Path) -> None:
    low = run_folder(tmp_path / "low", [record("101", 0.0), record("102", 1.0), record("103", 90.0)])
    other = run_folder(tmp_path / "other", [record("101", 50.0), record("102", 90.0), record("103", 10.0)])
    section = RUN_KIND.compare(low, other, force=False, routes=None, published=False)
    rows = {str(row[0]): row for row in section.tables[0].rows}
    assert str(rows["Driving Score"][5]) == "-64.8"  # A 30.33, B 50
    assert any("no interval where that of A reaches 0" in note for note in section.notes)
    assert next(row for row in section.data["rows"] if row["name"] == "driving_score")["ci_relative"]


def test_bars_of_routes_have_their_names(tmp_path: Path) -> None:
    a = run_folder(tmp_path / "a", [record("101", 100.0), record("102", 40.0)])
    b = run_folder(tmp_path / "b", [record("101", 60.0), record("102", 90.0)])
    section = RUN_KIND.compare(a, b, force=False, routes=None, published=False)
    plot = next(table.plot for table in section.tables if table.title == "Driving Score by route")
    drawn = plots.draw(plot, {})
    assert drawn and drawn.index(">101<") < drawn.index(">102<")  # +40, -50


def test_a_suite_of_programs_is_in_the_layout_of_table_2(tmp_path: Path) -> None:
    folders = [drive(tmp_path / slow, "qwen", slow, "cng", 50.0) for slow in ("llama", "llava")]
    results = [read_results(folder, "demo", folder.name) for folder in folders]
    threats = [replace(one, suite=replace(one.suite, programs={"101": "a.scenic"})) for one in results if one.suite]
    titles = [table.title for table in report_section(threats, published=False).tables]
    assert "Fast system by slow system and mode: demo (layout of Bench2ADVLM, Table 2)" in titles


def test_one_pair_of_systems_is_no_grid(tmp_path: Path) -> None:
    one = drive(tmp_path / "a", "qwen", "llama", "cng", 80.0)
    assert grid_of(section_of(one, drive(tmp_path / "b", "qwen", "llama", "cng", 70.0))) is None
    assert grid_of(section_of(one, drive(tmp_path / "c", "straight", None, "", 70.0))) is None
