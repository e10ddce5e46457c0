"""benchmarks/results.py and result_pages.py: rows from records, texts from rows, and the pages of this checkout."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
import yaml
from support.closedloop.run_folders import record
from support.scripts import script

from closedloop_plugin.scoring.ceilings import MeasuredCeiling

SCORES = {
    "driving_score": 97.123456, "success_rate": 95.0, "efficiency": 90.04, "comfortness": None, "n_routes": 219,
    "abilities": {"Overtaking": 80.0}, "skill_score": None, "n_missing": 1, "n_crashed": 2, "n_faulted": 0,
    "experimental": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return script("results", "benchmarks")


@pytest.fixture(scope="module")
def pages(results: ModuleType) -> ModuleType:
    return results.result_pages


@pytest.fixture
def row(results: ModuleType) -> dict:
    spoken = results.ResultDriver("speaking-expert", task="action", interpreter="rules")
    hit = {"collisions_vehicle": ["a", "b"], "min_speed_infractions": ["slow"]}
    records = [record("7", 36.0, infractions=hit), record("8", 100.0), record("9", 50.0, map={"experimental": True})]
    return results.row_of(spoken, "demo", "bench2advlm", SCORES, records)


def test_only_routes_that_lose_points_on_certain_maps_are_listed(pages: ModuleType, row: dict) -> None:
    (line,) = pages.lost([row]).splitlines()[2:]
    assert line.startswith("| action through rules | 7 |")
    assert "| 36.0 |" in line and line.endswith("| collisions_vehicle 2 |")


def test_tables_show_a_missing_figure_as_a_dash_and_failed_episodes(pages: ModuleType, row: dict) -> None:
    assert pages.table([row]).splitlines()[-1] == (
        "| speaking-expert action through rules (privileged) | 97.1 | 95.0 | 90.0 | – | 80.0 | – | – | – | – | – | 3 |"
    )
    assert pages.short_table([row]).endswith("| 97.1 | 95.0 | 90.0 | – |")
    assert pages.suites_table([row]).endswith("| 219 | – | 6 of 6 | 97.1 | 95.0 | 3 |")


def test_the_ceilings_can_be_read_back(pages: ModuleType, row: dict) -> None:
    ceiling = MeasuredCeiling(**yaml.safe_load(pages.ceilings_text([row]))[0])
    assert (ceiling.task, ceiling.interpreter, ceiling.driving_score) == ("action", "rules", 97.1235)
    assert ceiling.version == row["version"]


def test_the_pages_and_ceilings_are_those_of_the_figures(pages: ModuleType) -> None:
    rows = pages.read()
    assert {row["suite"] for row in rows} == {"embedded220", "demo", "embedded220v4", "longest6", "fail2drive"}
    for page, blocks in pages.blocks(rows).items():
        text = page.read_text("utf-8")
        for name, block in blocks.items():
            assert f"<!-- {name}: begin -->\n{block}\n<!-- {name}: end -->" in text, f"{page.name}: make results"
    assert pages.CEILINGS.read_text("utf-8") == pages.ceilings_text(rows)


def test_each_route_that_the_expert_loses_has_its_cause(pages: ModuleType) -> None:
    rows = [row for row in pages.read() if row["agent"] == "expert"]
    lost = {one["route"] for row in rows for one in row["lost"]}
    causes = pages.OTHER_PAGE.read_text("utf-8").partition("Causes, by route:")[2].partition("## ")[0]
    named = {route for line in re.findall(r"(?m)^- ([\d, ]+)", causes) for route in re.findall(r"\d+", line)}
    assert named == lost
