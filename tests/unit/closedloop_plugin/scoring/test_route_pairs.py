"""Fail2Drive's gap: figures worked out by hand by its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.route_pairs import gap_text, pair_gap, pairs_of


def route(id_: str, suite: str = "fail2drive") -> Route:
    return Route(id_, "Town13", ((0, 0), (90, 0)), "", "", (0, 0, 0), suite=suite)


def record(id_: str, score: float, **infractions: tuple[str, ...]) -> OfficialRecord:
    return OfficialRecord(id_, 0, "", "", "Town13", "Completed", infractions, 100.0, score / 100, score)


ROUTES = [route(id_) for id_ in ("0", "1", "1000", "1001", "7", "1008")]


def test_a_pair_is_a_base_route_and_the_one_1000_above() -> None:
    assert pairs_of(ROUTES) == [("0", "1000"), ("1", "1001")]
    assert pairs_of([route("0", "Base_Animals_0000"), route("1000", "Generalization_Animals_1000")]) == [("0", "1000")]
    assert pairs_of([route("0", "mine"), route("1000", "mine")]) == []


def test_the_gap_is_the_change_of_the_base_figure_in_percent() -> None:
    """Base: 100 and 80, one success of two; Generalization: 60 and 30, none. HM 2 * 90 * 50 / 140."""
    lanes = {"outside_route_lanes": ("3 m",), "min_speed_infractions": ("90%",)}
    gap = pair_gap(
        [
            record("0", 100.0, **lanes), record("1", 80.0, red_light=("x",)),
            replace(record("1000", 60.0, collisions_vehicle=("x",)), not_played={"RoadBlocked": "no program"}),
            record("1001", 30.0, vehicle_blocked=("x",)), record("7", 1.0),
        ],
        ROUTES,
    )  # fmt: skip
    assert gap is not None and (gap["pairs"], gap["without_record"], gap["not_played"]) == (2, 0, 1)
    assert gap["base"] == {"driving_score": 90.0, "success_rate": 50.0, "harmonic_mean": pytest.approx(9000 / 140)}
    assert gap["generalization"] == {"driving_score": 45.0, "success_rate": 0.0, "harmonic_mean": 0.0}
    assert gap["change_percent"] == {"driving_score": -50.0, "success_rate": -100.0, "harmonic_mean": -100.0}
    assert gap["difference"]["driving_score"]["mean"] == -45.0
    low, high = gap["difference"]["driving_score"]["interval"]
    assert -100 <= low < -45 < high
    text = gap_text(gap)
    assert "Driving Score: 90.0 -> 45.0 (-50.0 %)" in text and "1 of the Generalization routes were driven" in text


def test_pairs_without_a_record_are_counted_and_not_in_the_figures() -> None:
    gap = pair_gap([record("0", 100.0), record("1000", 50.0), record("1", 0.0)], ROUTES)
    assert gap is not None and (gap["pairs"], gap["without_record"]) == (1, 1)
    assert gap["base"]["driving_score"] == 100.0
    assert pair_gap([record("0", 100.0)], [route("0", "mine")]) is None
    empty = pair_gap([], ROUTES)
    assert empty is not None and empty["base"]["driving_score"] is None and gap_text(empty) == ""
