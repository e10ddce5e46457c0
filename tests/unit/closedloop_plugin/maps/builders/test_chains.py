"""Chains through the points of a route: directions worked out by hand, dense parts, triggers in gaps, random routes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, RouteScenario
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.maps.builders.chains import (
    DENSE,
    RouteKeypoint,
    bridged,
    directions,
    is_sparse,
    keypoint_chain,
    runs,
    smoothed,
    with_triggers,
)
from closedloop_plugin.maps.curves import STRAIGHT, length
from lmms_eval_ad2.core.errors import Ad2Error

YAW = st.floats(-math.pi, math.pi)


def route(points: list[tuple[float, float]], *triggers: tuple[float, float, float], kind: str = "") -> Route:
    scenarios = tuple(RouteScenario(kind, f"{kind}_{i}", trigger, {}) for i, trigger in enumerate(triggers))
    return Route("7", "Town99", tuple(points), kind, kind, triggers[0] if triggers else (*points[0], 0.0),
                 scenarios=scenarios)  # fmt: skip


def degrees(points: list[tuple[float, float]]) -> list[float]:
    return [round(math.degrees(yaw), 6) for yaw in directions([RouteKeypoint(*p) for p in points])]


def test_most_steps_decide_whether_a_route_is_sparse() -> None:
    assert is_sparse(route([(0, 0), (100, 0)]))
    assert not is_sparse(route([(2.0 * i, 0) for i in range(20)] + [(90, 0)]))


def test_the_tangent_of_a_single_bend_is_that_of_the_circle() -> None:
    """Three points of a circle of radius 50: at 0, 45 and 90 degrees."""
    half = 50 / math.sqrt(2)
    assert degrees([(50, 0), (half, half), (0, 50)])[1] == pytest.approx(135)


def test_a_straight_road_stays_straight_up_to_a_bend() -> None:
    assert degrees([(0, 0), (50, 0), (100, 0), (120, 20), (120, 70)])[1:3] == [0, 0]


def test_the_first_and_last_direction_continue_the_arc_of_their_neighbours() -> None:
    """Circle: the chord from 0 to 45 degrees has the direction 112.5, its ends 90 and 135."""
    half = 50 / math.sqrt(2)
    yaws = directions([RouteKeypoint(50, 0), RouteKeypoint(half, half, math.radians(135)), RouteKeypoint(0, 50)])
    assert [math.degrees(yaw) for yaw in yaws] == pytest.approx([90, 135, 180])
    assert degrees([(0, 0), (0, 80)]) == [90, 90], "two points are a straight line"


def test_a_trigger_point_gives_a_place_and_its_direction() -> None:
    found = with_triggers([(0, 0), (100, 0), (100, 60)], [(40.0, 1.0, 0.1)])
    assert found == [RouteKeypoint(0, 0), RouteKeypoint(40.0, 1.0, 0.1), RouteKeypoint(100, 0), RouteKeypoint(100, 60)]


@pytest.mark.parametrize(
    "trigger",
    [(3.0, 0.0, 0.0), (97.0, 0.0, 0.0), (40.0, 20.0, 0.0), (40.0, 0.0, 2.0), (-30.0, 0.0, 0.0)],
    ids=["at the start", "at the end", "far beside", "across", "before the route"],
)
def test_a_trigger_point_that_is_not_on_the_way_is_ignored(trigger: tuple[float, float, float]) -> None:
    assert len(with_triggers([(0, 0), (100, 0)], [trigger])) == 2


def test_points_of_one_place_are_one_keypoint() -> None:
    assert with_triggers([(0, 0), (0.5, 0), (60, 0)], []) == [RouteKeypoint(0, 0), RouteKeypoint(60, 0)]


@st.composite
def keypoints(draw: st.DrawFn) -> list[tuple[float, float]]:
    """A walk with steps of 20 to 200 m and turns of up to 100 degrees."""
    x, y, yaw = draw(st.floats(-5e3, 5e3)), draw(st.floats(-5e3, 5e3)), draw(YAW)
    points = [(x, y)]
    for _ in range(draw(st.integers(1, 12))):
        yaw += math.radians(draw(st.floats(-100, 100)))
        step = draw(st.floats(20, 200))
        x, y = x + step * math.cos(yaw), y + step * math.sin(yaw)
        points.append((x, y))
    return points


@settings(max_examples=examples(1500), deadline=None)
@given(keypoints())
def test_a_chain_through_keypoints_is_smooth_and_reaches_them_all(points: list[tuple[float, float]]) -> None:
    chain, spans = keypoint_chain(route(points))
    assert spans == [(0.0, length(chain), "interpolated")]
    for a, b in pairwise(chain):
        flat = STRAIGHT * a.length**2 / 2  # offset of a line that stands for an arc of that curvature
        assert math.dist(a.end[:2], b.start[:2]) < 2e-3 + flat
        assert abs(math.remainder(a.end[2] - b.start[2], math.tau)) < 1e-3
    path = RoutePath(np.array([s.start[:2] for s in chain] + [chain[-1].end[:2]]), 0.5)
    assert path.length <= length(chain) + 1e-6
    ends = np.array([s.start[:2] for s in chain] + [chain[-1].end[:2]])
    assert max(np.hypot(*(ends - p).T).min() for p in np.array(points)) < 2e-3
    polyline = sum(math.dist(a, b) for a, b in pairwise(points))
    assert length(chain) < 2.5 * polyline


@settings(max_examples=examples(400), deadline=None)
@given(keypoints(), st.sampled_from(["corridor", "junction", "merge", "diverge"]))
def test_a_route_of_keypoints_has_a_map_of_its_length_or_a_named_reason(
    points: list[tuple[float, float]], topology: str
) -> None:
    found = route(points)
    try:
        plan = plan_for(found, RoadLayout(topology))
    except Ad2Error as exc:
        assert str(exc).startswith("route 7 has no map: ") and str(exc).endswith("--towns DIR")
        return
    assert abs(RoutePath(plan.path).length - found.length) <= found.length / 3 + 1


def test_a_path_that_differs_from_its_points_by_more_than_a_third_is_refused() -> None:
    """There and back: each turn needs a loop."""
    zigzag = route([(0, 0), (20, 0), (1, 0), (21, 0), (2, 0)])
    with pytest.raises(Ad2Error, match=r"route 7 has no map: .* their polyline 78 m, which differ by .*--towns DIR"):
        plan_for(zigzag, RoadLayout())


def test_the_junction_of_a_route_of_keypoints_is_the_bend_next_to_its_trigger() -> None:
    points = [(0, 0), (150, 0), (170, 20), (170, 250), (190, 270), (400, 270)]
    near = plan_for(route(points, (170.0, 200.0, math.pi / 2), kind="T_Junction"), RoadLayout("junction"))
    first = plan_for(route(points, (100.0, 0.0, 0.0), kind="T_Junction"), RoadLayout("junction"))
    (a, _), (b, _) = first.crossed[0], near.crossed[0]
    assert a == pytest.approx(150, abs=15) and b == pytest.approx(405, abs=15)


ROW = [(2.0 * i, 0.0) for i in range(11)]  # to (20, 0)
AFTER = [(60.0, 40.0 + 2.0 * i) for i in range(11)]


def rows_route(trigger: tuple[float, float, float], first: list[tuple[float, float]] = ROW) -> Route:
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
    assert [len(part) for part in runs(rows_route(trigger))] == parts


def test_a_trigger_that_continues_a_bend_keeps_its_place_and_direction() -> None:
    trigger = on_circle(10.0, 35)
    chain, spans = bridged(runs(rows_route(trigger))[:2], trigger)
    assert chain[-1].start == pytest.approx(trigger)
    assert [kind for *_, kind in spans] == ["measured", "interpolated", "measured"]


def test_a_part_of_one_point_points_from_the_part_before_to_the_part_after() -> None:
    parts = [np.array(ROW), np.array([[40.0, 20.0]]), np.array(AFTER)]
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
