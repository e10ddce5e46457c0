"""Lines, arcs and biarcs: hand-computed values, and properties for any pair of poses."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.maps import curves
from closedloop_plugin.maps.builders.chains import lane_jumps, smoothed

COORDINATE = st.floats(-200, 200)
YAW = st.floats(-math.pi, math.pi)


def test_the_end_of_an_arc_after_a_quarter_turn() -> None:
    arc = curves.CurveSegment(0, 0, 0, 10 * math.pi / 2, 0.1)
    assert arc.end == pytest.approx((10, 10, math.pi / 2))


def test_a_fillet_of_a_right_angle_has_the_hand_computed_radius() -> None:
    """Right angle, 20 m to the corner and 12 m from it, 2 m kept straight: tangent 10, radius 10."""
    first, arc, last = curves.fillet((0, 0, 0), (20, 12, math.pi / 2), lead=2.0) or ()
    assert (first.length, last.length) == pytest.approx((10, 2))
    assert arc.curvature == pytest.approx(0.1)
    assert last.end[:2] == pytest.approx((20, 12))


def test_tangents_that_do_not_meet_get_a_biarc() -> None:
    assert curves.fillet((0, 0, 0), (30, 4, 0)) is None
    chain = curves.join((0, 0, 0), (30, 4, 0))
    assert len(chain) == 2
    assert chain[0].curvature == pytest.approx(-chain[1].curvature)  # an S
    assert chain[-1].end == pytest.approx((30, 4, 0), abs=1e-9)


@given(COORDINATE, COORDINATE, YAW, st.floats(5, 80), st.floats(-1.2, 1.2), st.floats(-1.2, 1.2))
def test_a_join_reaches_its_goal_and_is_smooth(
    x: float, y: float, yaw: float, far: float, side: float, turn: float
) -> None:
    goal = (x + far * math.cos(yaw + side), y + far * math.sin(yaw + side), yaw + turn)
    chain = curves.join((x, y, yaw), goal)
    assert chain[0].start == (x, y, yaw)
    assert math.dist(chain[-1].end[:2], goal[:2]) < curves.IN_LINE_M
    for a, b in pairwise(chain):
        assert math.dist(a.end[:2], b.start[:2]) < 1e-6
        assert abs(math.remainder(a.end[2] - b.start[2], math.tau)) < 1e-6
    assert abs(math.remainder(chain[-1].end[2] - goal[2], math.tau)) < 1e-4


@settings(max_examples=examples(4000), deadline=None)
@given(COORDINATE, COORDINATE, YAW, COORDINATE, COORDINATE, YAW)
def test_any_two_poses_are_joined_smoothly_and_without_a_needless_loop(
    x: float, y: float, yaw: float, to_x: float, to_y: float, to_yaw: float
) -> None:
    start, end = (x, y, yaw), (to_x, to_y, to_yaw)
    chain = curves.join(start, end)
    chord = math.dist(start[:2], end[:2])
    if not chain:
        assert chord < 1e-5 and abs(math.remainder(yaw - to_yaw, math.tau)) < 1e-4
        return
    assert chain[0].start == start
    assert all(s.length > 0 and math.isfinite(s.curvature) for s in chain)
    for a, b in pairwise(chain):
        assert math.dist(a.end[:2], b.start[:2]) < 1e-6
        assert abs(math.remainder(a.end[2] - b.start[2], math.tau)) < 1e-6
    flat = curves.STRAIGHT * chord**2 / 2  # offset of a line that stands for an arc of that curvature
    assert math.dist(chain[-1].end[:2], end[:2]) < curves.IN_LINE_M + flat
    assert abs(math.remainder(chain[-1].end[2] - to_yaw, math.tau)) < 1e-4
    assert curves.length(chain) <= 3 * chord + 2.5 * math.tau * curves.TURNING_M[1]


@pytest.mark.parametrize(
    ("end", "metres"),
    [
        ((0.0, 0.0, 0.0), 0.0),
        ((10.0, 0.0, 0.0), 10.0),
        # Around and back to the same place: three arcs of 4 m radius, of 60, 300 and 60 degrees.
        ((0.0, 0.0, math.pi), 4 * math.radians(420)),
        ((-20.0, 0.0, 0.0), 2 * math.pi * 5 + 20),  # straight behind: two half turns of radius 20 / 4, and back
    ],
)
def test_joins_that_no_biarc_makes(end: curves.Pose, metres: float) -> None:
    assert curves.length(curves.join((0.0, 0.0, 0.0), end)) == pytest.approx(metres, abs=1e-6)


@pytest.mark.parametrize("goal", [(0.0, 0.0), (-5.0, 0.0)])
def test_no_arc_leads_to_the_start_or_straight_behind(goal: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="no arc leads"):
        curves.arc_through((0.0, 0.0, 0.0), *goal)


def test_a_biarc_that_would_turn_on_the_spot_is_refused() -> None:
    """Its first arc would have length 0 and half a turn: the T-junction of route 24944 in Town02."""
    with pytest.raises(ValueError, match=r"no arc leads|no biarc"):
        curves.biarc((0.0, 0.0, 0.0), (-10.0, 10.0, math.pi / 2))
    assert curves.join((0.0, 0.0, 0.0), (-10.0, 10.0, math.pi / 2))[-1].end[:2] == pytest.approx((-10, 10))


def test_parallel_reverse_and_split_of_a_chain() -> None:
    chain = (curves.CurveSegment(0, 0, 0, 5, 0), curves.CurveSegment(5, 0, 0, 10 * math.pi / 2, 0.1))
    beside = curves.parallel(chain, 2.0)
    assert beside[1].curvature == pytest.approx(1 / 8)  # radius 10, two metres nearer to its centre
    assert beside[-1].end == pytest.approx((13, 10, math.pi / 2))
    assert curves.reverse(chain)[0].start == pytest.approx((15, 10, -math.pi / 2))
    first, rest = curves.split(chain, 7.0)
    assert curves.length(first) == pytest.approx(7.0)
    assert curves.length(first) + curves.length(rest) == pytest.approx(curves.length(chain))


def test_smoothing_leaves_a_parabola_and_removes_jitter() -> None:
    t = np.arange(20.0)
    parabola = np.column_stack([2 * t, 0.05 * t**2])
    assert np.allclose(smoothed(parabola), parabola)  # its third differences are zero
    jitter = parabola + np.column_stack([0 * t, 0.05 * (-1) ** t])
    assert np.abs(smoothed(jitter) - parabola).max() < 0.03


def test_a_jump_of_one_lane_is_found_with_its_side() -> None:
    p = np.column_stack([np.arange(0, 60, 5.0), np.r_[np.zeros(6), np.full(6, 3.5)]])
    assert lane_jumps(p, 3.5) == {5: 1}
    assert lane_jumps(p * [1, -1], 3.5) == {5: -1}
    assert lane_jumps(p * [1, 0], 3.5) == {}
