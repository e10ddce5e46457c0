"""Steering and pedals that follow a path, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.driver.agents import tracking

ROAD = RoutePath([(0, 0), (200, 0)])


def car(
    x: float, y: float = 0.0, speed: float = 0.0, yaw: float = 0.0, kind: ActorKind = ActorKind.CAR, name: str = "a"
) -> Actor:
    return Actor(id=name, kind=kind, x=x, y=y, yaw=yaw, speed=speed, length=4.5, width=2.0, height=1.5)


def test_pursuit_turns_towards_the_path() -> None:
    assert tracking.pursuit(car(20, 0), ROAD, 20, 0.0, 8) == pytest.approx(0.0, abs=1e-9)
    assert tracking.pursuit(car(20, -1), ROAD, 20, 0.0, 8) < -0.02, "the path is to the left: steer < 0"
    assert tracking.pursuit(car(20, 0), ROAD, 20, -1.0, 8) > 0.02, "the offset is to the right: steer > 0"


def test_pedals() -> None:
    assert tracking.pedals(0.0, 0.0) == (0.0, 0.6)  # a stationary car stays stationary
    throttle, brake = tracking.pedals(2.25, 0.0)
    assert (throttle, brake) == (pytest.approx(0.5), 0.0)
    assert tracking.pedals(-4.1, 0.5)[1] == pytest.approx((4.1 - 0.105) / 8)
    assert tracking.pedals(-50, 10) == (0.0, 1.0)


def test_the_speed_in_a_bend_limits_the_lateral_acceleration_to_2_2() -> None:
    angle = np.linspace(0, math.pi / 2, 200)
    bend = RoutePath(np.column_stack([20 * np.sin(angle), 20 - 20 * np.cos(angle)]))
    assert tracking.curve_speed(bend, 10, 5, 14) == pytest.approx(math.sqrt(2.2 * 20), rel=0.03)
    assert tracking.curve_speed(ROAD, 10, 5, 14) == 14
