"""Dense parts of a route, and trigger points in the gap behind them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.maps.builders.smoothing import DENSE, bridged, runs, smoothed
from closedloop_plugin.maps.curves import length

STRAIGHT = [(2.0 * i, 0.0) for i in range(11)]  # to (20, 0)
AFTER = [(60.0, 40.0 + 2.0 * i) for i in range(11)]


def route(trigger: tuple[float, float, float], first: list[tuple[float, float]] = STRAIGHT) -> Route:
    return Route("7", "Town99", tuple(first + AFTER), "T_Junction", "T_1", trigger)


def on_circle(radius: float, degrees: float) -> tuple[float, float, float]:
    """Pose on the left bend of this radius that begins at (20, 0) with yaw 0."""
    a = math.radians(degrees)
    return 20 + radius * math.sin(a), radius * (1 - math.cos(a)), a


@pytest.mark.parametrize(
    ("trigger", "parts"),
    [
        ((26.0, 0.2, 0.0), [12, 11]),  # straight ahead: a point of the part
        (on_circle(10.0, 35), [11, 1, 11]),  # it continues the part in a bend: a part of its own
        ((24.0, 3.0, 0.0), [11, 11]),  # beside it
        ((30.0, 5.0, 0.6), [11, 11]),  # too far
    ],
)
def test_a_trigger_behind_a_part_belongs_to_it_if_it_continues_it(
    trigger: tuple[float, float, float], parts: list[int]
) -> None:
    assert [len(part) for part in runs(route(trigger))] == parts


def test_a_trigger_that_continues_a_bend_keeps_its_place_and_direction() -> None:
    trigger = on_circle(10.0, 35)
    chain, spans = bridged(runs(route(trigger))[:2], trigger)
    assert chain[-1].start == pytest.approx(trigger)
    assert [kind for *_, kind in spans] == ["measured", "interpolated", "measured"]


def test_a_part_of_one_point_points_from_the_part_before_to_the_part_after() -> None:
    parts = [np.array(STRAIGHT), np.array([[40.0, 20.0]]), np.array(AFTER)]
    chain, _ = bridged(parts, (0.0, 0.0, 0.0))
    single = next(s for s in chain if s.length == pytest.approx(0.01))
    assert single.yaw == pytest.approx(math.atan2(40, 40))


def test_the_junction_of_a_wide_bend_keeps_a_length() -> None:
    """Its tangents are longer than its path, so that both ends together would take all of it."""
    first = [(2.0 * i, 0.0) for i in range(11)]
    found = Route("7", "Town99", tuple(first + [(5.0 - 2.0 * i, 62.0) for i in range(15)]), "T_Junction", "T_1",
                  (18.0, 0.0, 0.0))  # fmt: skip
    plan = plan_for(found, RoadLayout("junction", arms=3, control="signal"))
    assert min(length(road.chain) for road in plan.roads) > 1.0
    (start, end), *_ = plan.crossed
    assert end - start >= 11.9


def test_long_routes_are_smoothed_as_short_ones() -> None:
    p = np.cumsum(np.random.default_rng(0).normal([2.0, 0.0], 0.1, (DENSE, 2)), axis=0)
    longer = np.vstack([p, p[-1] + np.cumsum(np.full((200, 2), [2.0, 0.0]), axis=0)])
    assert np.allclose(smoothed(longer)[: DENSE - 60], smoothed(p)[: DENSE - 60], atol=1e-6)
