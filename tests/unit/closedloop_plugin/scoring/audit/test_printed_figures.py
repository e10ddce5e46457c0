"""Printed figures and the means that they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.closedloop.scored import record

from closedloop_plugin.scoring.audit.printed_figures import OWN_KEYS, MeanBasis, bases, explain, own_figures
from closedloop_plugin.scoring.audit.result_list import PrintedFigures

CRASH = "Failed - Simulation crashed"
# Four routes: one perfect, one with half of the score, one crash, one without a record.
RECORDS = [record("1"), record("2", score=50.0, status="Failed"), record("3", score=10.0, status=CRASH)]


def test_bases_are_all_routes_records_and_records_without_a_crash() -> None:
    found = [(basis.what, basis.n, basis.driving_score, basis.success_rate) for basis in bases(RECORDS, 4)]
    assert found == [
        ("routes", 4, 40.0, 25.0),
        ("records", 3, pytest.approx(160 / 3), pytest.approx(100 / 3)),
        ("records without a crash", 2, 75.0, 50.0),
    ]


def test_a_complete_file_has_one_basis() -> None:
    assert [basis.n for basis in bases(RECORDS[:2], 2)] == [2]


@pytest.mark.parametrize(
    ("printed", "text", "reproduced"),
    [
        (40.0, "the mean over the 4 routes", True),
        (53.33, "the mean over the 3 records", False),
        (75.0, "the mean over the 2 records without a crash", False),
        (61.5, "unexplained", False),  # one figure alone may equal that of another result by chance
        (12.0, "unexplained", False),
    ],
)
def test_each_printed_figure_is_explained(printed: float, text: str, reproduced: bool) -> None:
    others = {"Other": [MeanBasis("routes", 4, 61.5, 0.0, whole=True)]}
    figures = [PrintedFigures(source="page", driving_score=printed)]
    (found,) = explain(figures, bases(RECORDS, 4), others)
    assert (found.text, found.reproduced, found.recomputed) == (text, reproduced, 40.0)


@pytest.mark.parametrize(
    ("score", "rate", "text"),
    [
        (40.0, 25.0, "the mean over the 4 routes"),
        (61.5, 30.0, "the mean over the 8 routes of Other"),
        (61.5, 25.0, "unexplained"),  # each one is a mean, of two results
        (40.0, 33.33, "unexplained"),  # each one is a mean, over 4 routes and over 3 records
    ],
)
def test_figures_of_one_source_are_of_one_result_and_denominator(score: float, rate: float, text: str) -> None:
    others = {"Other": [MeanBasis("routes", 8, 61.5, 30.0, whole=True)]}
    figures = [PrintedFigures(source="page", driving_score=score, success_rate=rate)]
    assert [one.text for one in explain(figures, bases(RECORDS, 4), others)] == [text, text]


def test_a_figure_may_be_cut_off_instead_of_rounded() -> None:
    basis = [MeanBasis("routes", 220, 80.5958, 54.6296, whole=True)]
    printed = [PrintedFigures(source="page", driving_score=80.59, success_rate=54.62)]
    assert all(one.reproduced for one in explain(printed, basis, {}))
    assert not any(one.reproduced for one in explain([PrintedFigures(source="p", driving_score=80.61)], basis, {}))


def test_the_file_states_its_own_means(tmp_path: Path) -> None:
    file = tmp_path / "merged.json"
    file.write_text(json.dumps({"driving score": 77.5, "success rate": 0.25, "eval num": 216}))
    assert own_figures(file) == PrintedFigures(source=OWN_KEYS, driving_score=77.5, success_rate=25.0)


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"driving score": "x"}', '{"driving score": 1e999}'])
def test_a_file_without_usable_means_states_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "merged.json").write_text(text)
    assert own_figures(tmp_path / "merged.json") is None
    assert own_figures(tmp_path) is None
