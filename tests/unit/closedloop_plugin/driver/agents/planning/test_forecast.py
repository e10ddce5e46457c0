"""Forecasts of motion and contact times against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.driver.agents.planning import forecast

ROAD = RoutePath([(0, 0), (200, 0)])


def car(
    x: float, y: float = 0.0, speed: float = 0.0, yaw: float = 0.0, kind: ActorKind = ActorKind.CAR, name: str = "a"
) -> Actor:
    return Actor(id=name, kind=kind, x=x, y=y, yaw=yaw, speed=speed, length=4.5, width=2.0, height=1.5)


def one_rollout(speed: float, first: float, then: float, top: float) -> np.ndarray:
    """The definition of a rollout, step by step."""
    out, v, travelled = [], speed, 0.0
    fine = forecast.STEP_S / 2
    for i in range(2 * len(forecast.TIMES)):
        a = first if i * fine < forecast.HOLD_S else then
        new = min(max(v + a * fine, 0.0), max(top, v if a < 0 else top))
        travelled += (v + new) / 2 * fine
        v = new
        if i % 2:
            out.append(travelled)
    return np.array(out)


def test_a_rollout_stops_and_stays_stopped() -> None:
    stop, steady = forecast.rollouts(5.0, (-5.0, 0.0), (-5.0, 0.0), 8.0)[[0, 3]]
    assert stop[-1] == pytest.approx(2.5, abs=0.1)  # v^2 / 2a
    assert stop[-1] == stop[-5]
    assert steady[-1] == pytest.approx(25.0)


@given(
    st.floats(0, 30), st.floats(3, 20), st.lists(st.floats(-8, 2), min_size=1, max_size=7), st.sampled_from([0.0, 1.8])
)
def test_rollouts_are_bit_equal_to_their_definition(speed: float, top: float, firsts: list[float], then: float) -> None:
    expected = [one_rollout(speed, a, b, top) for a in firsts for b in (then, -5.0)]
    assert np.array_equal(forecast.rollouts(speed, firsts, (then, -5.0), top), expected)


def test_forecasts_at_constant_motion_and_along_the_road() -> None:
    bend = RoutePath([(0, 0), (50, 0), (50, 50)])
    car_ahead = car(40, speed=10.0)
    straight = forecast.constant_motion([car_ahead, car(0, 5)])
    assert straight.shape == (3, 2, len(forecast.TIMES))
    assert straight[:, 0, 7] == pytest.approx([60, 0, 0]) and straight[:, 1, -1] == pytest.approx([0, 5, 0])
    column = np.array([[40.0], [1.0], [10.0], [0.0]])[:, :, None]
    turned = forecast.along_path(bend, *column)
    assert turned[:, 0, 7] == pytest.approx([49, 10, np.pi / 2], abs=0.01)


def test_contact_times() -> None:
    cars = [car(30)]
    still = forecast.forecast(cars, forecast.constant_motion(cars))
    runs = forecast.rollouts(5.0, (0, -5), (0, -5), 9)[[0, 3]]
    hit = forecast.contact_times(ROAD, runs, np.zeros_like, (4.7, 2.0), still, 0.0)
    assert hit[0] == pytest.approx((30 - 4.6) / 5, abs=0.3)
    assert np.isinf(hit[1])
    beside = forecast.contact_times(ROAD, runs, lambda s: np.full_like(s, 2.6), (4.7, 2.0), still, 0.15)
    assert np.isinf(beside).all(), "0.6 m of air beside a parked car is a free way"
    none = forecast.forecast([], forecast.constant_motion([]))
    assert np.isinf(forecast.contact_times(ROAD, runs, np.zeros_like, (4.7, 2.0), none, 0.0)).all()
