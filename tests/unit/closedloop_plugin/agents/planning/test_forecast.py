"""Forecasts of motion and contact times against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from closedloop_plugin.agents.planning import forecast
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, ActorKind

ROAD = RoutePath([(0, 0), (200, 0)])


def car(
    x: float, y: float = 0.0, speed: float = 0.0, yaw: float = 0.0, kind: ActorKind = ActorKind.CAR, name: str = "a"
) -> Actor:
    return Actor(id=name, kind=kind, x=x, y=y, yaw=yaw, speed=speed, length=4.5, width=2.0, height=1.5)


def test_a_rollout_stops_and_stays_stopped() -> None:
    stop = forecast.rollout(5.0, -5.0, -5.0, 8.0)
    assert stop[-1] == pytest.approx(2.5, abs=0.1)  # v^2 / 2a
    assert stop[-1] == stop[-5]
    assert forecast.rollout(5.0, 0.0, 0.0, 8.0)[-1] == pytest.approx(25.0)


def test_contact_times() -> None:
    still = forecast.forecast([car(30)])
    runs = np.stack([forecast.rollout(5.0, 0, 0, 9), forecast.rollout(5.0, -5, -5, 9)])
    hit = forecast.contact_times(ROAD, runs, np.zeros_like, (4.7, 2.0), still, 0.0)
    assert hit[0] == pytest.approx((30 - 4.6) / 5, abs=0.3)
    assert np.isinf(hit[1])
    beside = forecast.contact_times(ROAD, runs, lambda s: np.full_like(s, 2.6), (4.7, 2.0), still, 0.15)
    assert np.isinf(beside).all(), "0.6 m of air beside a parked car is a free way"
