"""Tyre grip by weather."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.embedded.world import grip


def test_grip_is_1_on_dry_roads_and_0_6_in_standing_water() -> None:
    assert grip(Weather()) == 1.0
    assert math.isclose(grip(Weather(wetness=50)), 0.9)
    assert math.isclose(grip(Weather(wetness=100, precipitation_deposits=100)), 0.6)
    assert grip(Weather(precipitation=100)) < 0.9  # it wets the road as it falls


@given(*[st.floats(allow_nan=True)] * 4)
def test_any_numbers_give_a_grip_in_range(a: float, b: float, c: float, d: float) -> None:
    weather = Weather(wetness=a, precipitation=b, precipitation_deposits=c, fog_density=d)
    assert 0.6 <= grip(weather) <= 1.0
