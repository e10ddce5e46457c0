"""Axes of CARLA, Scenic and the ego, with values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core import frames


def test_carla_is_left_handed() -> None:
    assert frames.from_carla(3, 4, 90) == (3, -4, pytest.approx(-math.pi / 2))
    assert frames.to_carla(3, -4, -math.pi / 2) == (3, 4, pytest.approx(90))


@given(st.floats(-500, 500), st.floats(-500, 500), st.floats(-3.1, 3.1))
def test_conversions_round_trip(x: float, y: float, yaw: float) -> None:
    back = frames.from_carla(*frames.to_carla(x, y, yaw))
    assert back == (pytest.approx(x), pytest.approx(y), pytest.approx(yaw))
    assert frames.yaw_of_heading(frames.scenic_heading(yaw)) == pytest.approx(yaw)


def test_scenic_headings_start_at_north() -> None:
    assert frames.scenic_heading(math.pi / 2) == pytest.approx(0.0)
    assert frames.to_ego(0, 1, 0, 0, 0) == (pytest.approx(0), pytest.approx(1)), "north is left of a car heading east"
