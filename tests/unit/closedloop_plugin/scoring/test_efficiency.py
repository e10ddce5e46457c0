"""Efficiency: messages both ways, and the mean of one route."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.scoring.efficiency import message, percent, percents, route_efficiency


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
