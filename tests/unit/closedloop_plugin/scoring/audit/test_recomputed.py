"""Printed figures and the means that they are; paired differences, and the published orders that they confirm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.closedloop.audits import audited_result
from support.closedloop.scored import record

from closedloop_plugin.scoring.audit.recomputed import (
    OWN_KEYS,
    MeanBasis,
    bases,
    differences,
    explain,
    own_figures,
    ranking,
)
from closedloop_plugin.scoring.audit.result_list import PrintedFigures
from closedloop_plugin.scoring.audit.sample_size import paired_interval
from lmms_eval_ad2.scoring.metrics.paired_comparison import paired

CRASH = "Failed - Simulation crashed"
# Four routes: one perfect, one with half of the score, one crash, one without a record.
RECORDS = [record("1"), record("2", score=50.0, status="Failed"), record("3", score=10.0, status=CRASH)]


def whole(n: int, score: float, rate: float) -> MeanBasis:
    return {"what": "routes", "n": n, "driving_score": score, "success_rate": rate, "whole": True}


def test_bases_are_all_routes_records_and_records_without_a_crash() -> None:
    found = [tuple(basis.values())[:4] for basis in bases(RECORDS, 4)]
    assert found == [
        ("routes", 4, 40.0, 25.0),
        ("records", 3, pytest.approx(160 / 3), pytest.approx(100 / 3)),
        ("records without a crash", 2, 75.0, 50.0),
    ]


def test_a_complete_file_has_one_basis() -> None:
    assert [basis["n"] for basis in bases(RECORDS[:2], 2)] == [2]


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
    others = {"Other": [whole(4, 61.5, 0.0)]}
    figures = [PrintedFigures(source="page", driving_score=printed)]
    (found,) = explain(figures, bases(RECORDS, 4), others)
    assert (found["text"], found["reproduced"], found["recomputed"]) == (text, reproduced, 40.0)


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
    others = {"Other": [whole(8, 61.5, 30.0)]}
    figures = [PrintedFigures(source="page", driving_score=score, success_rate=rate)]
    assert [one["text"] for one in explain(figures, bases(RECORDS, 4), others)] == [text, text]


def test_a_figure_may_be_cut_off_instead_of_rounded() -> None:
    basis = [whole(220, 80.5958, 54.6296)]
    printed = [PrintedFigures(source="page", driving_score=80.59, success_rate=54.62)]
    assert all(one["reproduced"] for one in explain(printed, basis, {}))
    assert not any(one["reproduced"] for one in explain([PrintedFigures(source="p", driving_score=80.61)], basis, {}))


def test_the_file_states_its_own_means(tmp_path: Path) -> None:
    file = tmp_path / "merged.json"
    file.write_text(json.dumps({"driving score": 77.5, "success rate": 0.25, "eval num": 216}))
    assert own_figures(file) == PrintedFigures(source=OWN_KEYS, driving_score=77.5, success_rate=25.0)


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"driving score": "x"}', '{"driving score": 1e999}'])
def test_a_file_without_usable_means_states_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "merged.json").write_text(text)
    assert own_figures(tmp_path / "merged.json") is None
    assert own_figures(tmp_path) is None


LOW = np.array([0.0, 0.0, 60.0, 100.0] * 20)
HIGH = np.array([60.0, 100.0, 100.0, 100.0] * 20)


def verdicts(first: float, second: float, a: np.ndarray = HIGH, b: np.ndarray = LOW) -> list[str]:
    results = [audited_result("a", a, first), audited_result("b", b, second)]
    return [pair["verdict"] for pair in differences(results)["driving_score"]]


def test_a_difference_has_the_interval_of_the_paired_comparison() -> None:
    (pair,) = differences([audited_result("a", HIGH), audited_result("b", LOW)])["driving_score"]
    by_route = [{str(i): float(value) for i, value in enumerate(values)} for values in (HIGH, LOW)]
    expected = paired(*by_route, bounds=(0.0, 100.0))
    assert pair["difference"] == pytest.approx(expected.difference) == 50.0
    assert expected.ci is not None and pair["routes"] == len(HIGH)
    assert pair["interval"] == pytest.approx([expected.ci.low, expected.ci.high])
    interval = paired_interval(HIGH - LOW)  # whose coverage the sample size checks
    assert interval is not None and (interval.low, interval.high) == pytest.approx(tuple(pair["interval"]))


def test_a_route_without_a_record_is_0_in_the_difference() -> None:
    a, b = audited_result("a", HIGH, missing=[1]), audited_result("b", LOW)
    assert a.values()["success_rate"][1] == 0.0
    found = differences([a, b])
    assert found["driving_score"][0]["difference"] == pytest.approx(50.0 - 100.0 / len(HIGH))
    assert found["success_rate"][0]["difference"] == pytest.approx(50.0 - 100.0 / len(HIGH))


def test_an_order_holds_is_reversed_open_or_a_tie() -> None:
    assert verdicts(90.0, 40.0) == ["holds"]
    assert verdicts(40.0, 90.0) == ["reversed"]
    assert verdicts(50.0, 50.0) == ["tie"]
    assert verdicts(90.0, 40.0, LOW, np.roll(LOW, 1)) == ["open"]
    assert verdicts(90.0, 40.0, np.array([100.0]), np.array([0.0])) == ["open"]  # one route has no interval


def test_the_ranking_follows_the_printed_figures_and_shows_the_recomputed_places() -> None:
    results = [audited_result("a", LOW, 95.0), audited_result("b", HIGH, 90.0), audited_result("c", LOW - LOW, 0.0)]
    pairs = differences(results)["driving_score"]
    found = ranking(results, "driving_score", pairs)
    assert found["published_order"] == ["a", "b", "c"]
    assert found["recomputed_ranks"] == {"b": 1, "a": 2, "c": 3}
    assert [(pair["a"], pair["b"], pair["verdict"]) for pair in found["next_pairs"]] == [
        ("a", "b", "reversed"),
        ("b", "c", "holds"),
    ]
    assert found["verdicts"] == {"reversed": 1, "holds": 2}


def test_a_result_without_a_printed_figure_has_no_place_and_no_verdict() -> None:
    results = [audited_result("a", LOW, 30.0), audited_result("b", HIGH), audited_result("c", LOW - LOW, 0.0)]
    assert results[1].printed_figure("driving_score") is None
    pairs = differences(results)["driving_score"]
    assert [pair["verdict"] for pair in pairs] == [None, "holds", None]
    found = ranking(results, "driving_score", pairs)
    assert (found["published_order"], found["without_a_printed_figure"]) == (["a", "c"], ["b"])
    assert found["recomputed_ranks"] == {"a": 1, "c": 2}
    assert [(pair["a"], pair["b"]) for pair in found["next_pairs"]] == [("a", "c")] and found["verdicts"] == {
        "holds": 1
    }


def test_a_printed_figure_is_equal_to_two_decimals() -> None:
    """A key of a file has more decimals than a printed figure."""
    assert verdicts(48.64, 48.6363636) == ["tie"]
