"""benchmarks/results.py: the texts that it writes, from records and scores, without driving."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
import yaml
from support.closedloop.run_folders import record
from support.running import REPO

from closedloop_plugin.scoring.ceilings import MeasuredCeiling

SCORES = {
    "driving_score": 97.123456, "success_rate": 95.0, "efficiency": 90.04, "comfortness": None, "n_routes": 219,
    "abilities": {"Overtaking": 80.0}, "skill_score": None, "n_missing": 1, "n_crashed": 2, "n_faulted": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def results() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", REPO / "benchmarks" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _driven(results: ModuleType):
    spoken = results.ResultDriver("speaking-expert", task="action", interpreter="rules")
    hit = {"collisions_vehicle": ["a", "b"], "min_speed_infractions": ["slow"]}
    records = [record("7", 36.0, infractions=hit), record("8", 100.0), record("9", 50.0, map={"experimental": True})]
    return results.DrivenResult(spoken, "embedded220", SCORES, records)


def test_only_routes_that_lose_points_on_certain_maps_are_listed(results: ModuleType) -> None:
    rows = results.lost([_driven(results)]).splitlines()[2:]
    assert len(rows) == 1 and rows[0].startswith("| action through rules | 7 |")
    assert "| 36.0 |" in rows[0] and rows[0].endswith("| collisions_vehicle 2 |")


def test_tables_show_a_missing_figure_as_a_dash_and_failed_episodes(results: ModuleType) -> None:
    row = results.table([_driven(results)]).splitlines()[-1]
    assert row == (
        "| speaking-expert action through rules (privileged) | 97.1 | 95.0 | 90.0 | – | 80.0 | – | – | – | – | – | 3 |"
    )
    assert results.short_table([_driven(results)]).endswith("| 97.1 | 95.0 | 90.0 | – |")


def test_the_ceilings_can_be_read_back(results: ModuleType) -> None:
    (row,) = yaml.safe_load(results.ceilings_text([_driven(results)], "0.2.0+abc"))
    found = MeasuredCeiling(**row)
    assert (found.task, found.interpreter, found.driving_score) == ("action", "rules", 97.1235)
    assert found.version == "0.2.0+abc"
