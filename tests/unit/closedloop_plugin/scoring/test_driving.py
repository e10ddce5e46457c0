"""Penalties, Driving Score and Success Rate: numbers computed by hand from the reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.closedloop.scored import record

from closedloop_plugin.core.profiles import PROFILES
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.scoring.driving import (
    composed,
    driving_score,
    latest,
    message,
    penalty,
    penalty_of,
    percent,
    percents,
    route_efficiency,
    success_rate,
)

B2D = PROFILES["bench2drive"].penalties
LB20 = PROFILES["leaderboard-2.0"].penalties
LB21 = PROFILES["leaderboard-2.1"].penalties


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("collisions_pedestrian", 0.5),
        ("collisions_vehicle", 0.6),
        ("collisions_layout", 0.65),
        ("red_light", 0.7),
        ("stop_infraction", 0.8),
        ("scenario_timeouts", 0.7),
        ("yield_emergency_vehicle_infractions", 0.7),
        ("min_speed_infractions", 1.0),
        ("route_dev", 1.0),
        ("vehicle_blocked", 1.0),
        ("route_timeout", 1.0),
    ],
)
def test_each_event_has_its_factor(name: str, factor: float) -> None:
    assert penalty({name: 1}, 0.0, B2D) == pytest.approx(factor)
    assert penalty({name: 2}, 0.0, B2D) == pytest.approx(factor**2)


def test_factors_multiply_and_lanes_reduce_by_their_share() -> None:
    # 0.6 * 0.6 * 0.7 * (1 - 0.25) = 0.189
    assert penalty({"collisions_vehicle": 2, "red_light": 1}, 25.0, B2D) == pytest.approx(0.189)
    assert penalty({}, 100.0, B2D) == 0.0
    assert penalty({}, 0.0, B2D) == 1.0


def test_the_additive_penalty_rule() -> None:
    # two vehicles and a stop sign: 1 / (1 + 0.7 + 0.7 + 0.25) = 1 / 2.65
    assert penalty({"collisions_vehicle": 2, "stop_infraction": 1}, 0.0, LB21) == pytest.approx(1 / 2.65)
    # pedestrian 1.0 -> 0.5; half the route outside lanes -> 0.25
    assert penalty({"collisions_pedestrian": 1}, 50.0, LB21) == pytest.approx(0.25)


def test_minimum_speed_costs_only_in_the_leaderboard_and_only_below_100() -> None:
    assert penalty({"min_speed_infractions": 3}, 0.0, B2D, [10.0, 50.0, 200.0]) == 1.0
    # 2.0: at 50 % half of the 0.3, at 0 % all of it, above 100 % nothing: 0.85 * 0.7
    assert penalty({"min_speed_infractions": 3}, 0.0, LB20, [50.0, 0.0, 180.0]) == pytest.approx(0.595)
    # 2.1: 1 / (1 + 0.4 * 0.5)
    assert penalty({"min_speed_infractions": 1}, 0.0, LB21, [50.0]) == pytest.approx(1 / 1.2)


@pytest.mark.parametrize(("counts", "outside"), [({"collision": 1}, 0), ({"red_light": -1}, 0), ({}, 101), ({}, -1)])
def test_invalid_counts_are_refused(counts: dict[str, int], outside: float) -> None:
    with pytest.raises(ValueError):
        penalty(counts, outside, B2D)


def test_composed_has_six_decimals_and_is_never_negative() -> None:
    assert composed(100.0, 0.9572251234) == 95.722512
    assert composed(45.14, 0.6) == 27.084
    assert composed(50.0, -0.5) == 0.0


def test_penalty_of_reads_the_messages() -> None:
    lanes = "Agent went outside its route lanes for about 3.0 meters (5.42% of the completed route)"
    found = penalty_of({"outside_route_lanes": [lanes], "collisions_layout": ["hit"]}, B2D)
    assert found == pytest.approx(0.65 * (1 - 0.0542))
    assert penalty_of({"outside_route_lanes": [lanes, lanes]}, B2D) == pytest.approx((1 - 0.0542) ** 2)


def test_missing_routes_count_zero() -> None:
    records = [record("1"), record("2", score=50.0, penalty=0.6, infractions={"collisions_vehicle": ["x"]})]
    assert driving_score(records, 4) == pytest.approx((100 + 30) / 4)
    assert success_rate(records, 4) == 25.0


@pytest.mark.parametrize(
    ("status", "lists", "success"),
    [
        ("Completed", {}, True),
        ("Perfect", {}, True),
        ("Completed", {"min_speed_infractions": ["Average speed is 5% of"]}, True),
        *(("Completed", {name: ["x"]}, False) for name in INFRACTIONS if name != "min_speed_infractions"),
        ("Completed", {"a_list_of_a_newer_version": ["x"]}, False),
        ("Failed", {}, False),
        ("Failed - TickRuntime", {}, False),
    ],
)
def test_success_needs_completion_without_infractions(status: str, lists: dict[str, list[str]], success: bool) -> None:
    assert record(status=status, infractions=lists).success is success


def test_the_later_of_two_records_counts() -> None:
    kept, doubled = latest([record("1", score=10.0), record("1", rep=1), record("1", score=90.0)])
    assert doubled == 1
    assert {key: r.score for key, r in kept.items()} == {("1", 0): 90.0, ("1", 1): 100.0}


def test_percent_of_the_traffic() -> None:
    assert percent(6.0, 8.0) == 75.0
    assert percent(6.0, 3.0) == 200.0
    assert percent(6.0, None) == 100.0
    assert percent(6.0, 0.0) == 100.0


@pytest.mark.parametrize(("ego", "traffic"), [(float("nan"), 1.0), (-1.0, 1.0), (1.0, float("inf")), (1.0, -2.0)])
def test_percent_refuses_invalid_speeds(ego: float, traffic: float) -> None:
    with pytest.raises(ValueError):
        percent(ego, traffic)


def test_messages_have_the_official_wording() -> None:
    assert message(179.638) == "Average speed is 179.64% of the surrounding traffic's one"
    assert message(325.0) == "Average speed is 325.0% of the surrounding traffic's one"


def test_the_route_mean_ignores_values_above_1000() -> None:
    texts = [message(v) for v in (100.0, 300.0, 1000.0, 1000.01, 5502.78)]
    assert route_efficiency(texts) == pytest.approx(1400 / 3)
    assert route_efficiency([message(1098.69)]) is None
    assert route_efficiency([]) is None


def test_a_message_without_a_percentage_is_ignored() -> None:
    assert percents(["too slow", "x12%", "Average speed is 7% of 50%"]) == [7.0]


def test_a_route_with_an_unreadable_percentage_has_no_efficiency() -> None:
    assert percents(["Average speed is 179,21% of the surrounding traffic's one", message(50.0)]) == [50.0]
    assert route_efficiency(["Average speed is 179,21% of the surrounding traffic's one", message(50.0)]) is None


@given(st.floats(min_value=0, max_value=1e6))
def test_messages_are_parsed_as_written(value: float) -> None:
    found = percents([message(value)])
    assert found == [round(value, 2)]


@given(st.text())
def test_any_text_is_parsed_or_ignored(text: str) -> None:
    assert all(value >= 0 for value in percents([text]))
