"""Margins: numbers computed by hand, and a slow reference that samples boxes and time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closedloop.ticks import EGO, at, touch
from support.tiers import examples

from closedloop_plugin.core.boxes import OrientedBox, gap, time_to_collision
from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.scoring.margins import HORIZON_S, SafetyMargins

CAR = replace(EGO, id="7", role="scenario", speed=0.0)  # 4.0 x 1.8 m, as the ego


def margins(*ticks: object) -> dict[str, object]:
    safety_margins = SafetyMargins()
    for tick in ticks:
        safety_margins.add(tick)  # type: ignore[arg-type]
    return safety_margins.to_json()


def box(x: float, y: float, yaw: float, length: float, width: float) -> OrientedBox:
    return x, y, math.cos(yaw), math.sin(yaw), length / 2, width / 2


def test_without_actors_the_margins_are_null() -> None:
    found = margins(at(0, 0.0), at(2, 1.0))
    assert found == {"min_gap_m": None, "nearest": None, "min_ttc_s": None, "hardest_brake": 0.0}


def test_time_to_a_stationary_car_is_bumper_to_bumper() -> None:
    """Centres 34 m apart, two half lengths of 2 m: 30 m at 10 m/s."""
    found = margins(at(0, 0.0, actors=(replace(CAR, x=34.0, kind=ActorKind.VAN),)))
    assert found["min_gap_m"] == 30.0 and found["min_ttc_s"] == 3.0 and found["nearest"] == "van"


def test_cars_side_by_side_have_a_gap_and_no_time_to_collision() -> None:
    found = margins(at(0, 0.0, actors=(replace(CAR, y=3.3, speed=10.0),)))
    assert found["min_gap_m"] == 1.5 and found["min_ttc_s"] is None


def test_a_crossing_pedestrian_collides_only_if_both_arrive_together() -> None:
    """The ego, at 10 m/s and 4 m long, is beside the person (0.4 m thick, 20 m ahead) from 1.78 to 2.22 s."""
    walker = Actor(
        id="p", kind=ActorKind.PEDESTRIAN, x=20.0, y=-3.0, yaw=math.pi / 2, speed=1.5, length=0.4, width=0.4, height=1.8
    )
    meets = margins(at(0, 0.0, actors=(walker,)))  # in the way after (3 - 0.9 - 0.2) m at 1.5 m/s: from 1.27 to 2.73 s
    assert meets["min_ttc_s"] == pytest.approx(1.78)
    late = margins(at(0, 0.0, actors=(replace(walker, y=-5.0),)))  # reaches the lane after 2.6 s
    assert late["min_ttc_s"] is None


def test_the_corner_of_a_turned_box_counts() -> None:
    """A square of 2 m turned by 45 degrees reaches sqrt 2 m to each side."""
    turned = replace(CAR, x=10.0, yaw=math.pi / 4, length=2.0, width=2.0)
    assert margins(at(0, 0.0, actors=(turned,)))["min_gap_m"] == pytest.approx(8.0 - math.sqrt(2), abs=1e-3)


def test_the_minimum_over_the_episode_counts_and_a_contact_is_0() -> None:
    far, near = replace(CAR, x=40.0), replace(CAR, x=14.0)
    assert margins(at(0, 0.0, actors=(far,)), at(2, 0.0, actors=(near,)), at(4, 0.0, actors=(far,)))["min_gap_m"] == 10
    hit = margins(at(0, 0.0, actors=(far,)), at(1, 0.0, actors=(far,), contacts=(touch(ActorKind.TRUCK),)))
    assert (hit["min_gap_m"], hit["min_ttc_s"], hit["nearest"]) == (0.0, 0.0, "truck")


def test_hardest_brake_is_longitudinal_and_ignores_ticks_from_a_contact_on() -> None:
    def braking(tick: int, ax: float, **more: object) -> object:
        seen = at(tick, 0.0, **more)
        return replace(seen, ego=replace(seen.ego, ax=ax, ay=-3.0, yaw=0.0))

    assert margins(braking(0, -4.0), braking(2, 2.0))["hardest_brake"] == 4.0
    assert margins(braking(0, -4.0), braking(1, -300.0, contacts=(touch(),)), braking(2, -90.0))["hardest_brake"] == 4.0


boxes = st.builds(
    box,
    st.floats(-12, 12),
    st.floats(-12, 12),
    st.floats(-4, 4),
    st.floats(0.3, 8),
    st.floats(0.3, 3),
)


def outline(b: OrientedBox, n: int = 40) -> np.ndarray:
    """(4 n, 2) points on the sides."""
    x, y, c, s, h, w = b
    t = np.linspace(-1, 1, n)
    o = np.ones(n)
    along, across = np.concatenate([h * t, h * t, h * o, -h * o]), np.concatenate([w * o, -w * o, w * t, w * t])
    return np.stack([x + along * c - across * s, y + along * s + across * c], axis=1)


def contains(b: OrientedBox, points: np.ndarray) -> bool:
    dx, dy = points[:, 0] - b[0], points[:, 1] - b[1]
    forward, left = np.abs(dx * b[2] + dy * b[3]), np.abs(dy * b[2] - dx * b[3])
    return bool(((forward <= b[4]) & (left <= b[5])).any())


def reference_gap(a: OrientedBox, b: OrientedBox) -> float:
    one, two = outline(a), outline(b)
    if contains(a, two) or contains(b, one):
        return 0.0
    return float(np.sqrt(((one[:, None] - two[None]) ** 2).sum(-1)).min())


@settings(max_examples=examples(150), deadline=None)
@given(boxes, boxes)
def test_the_gap_agrees_with_sampled_outlines(a: OrientedBox, b: OrientedBox) -> None:
    exact, sampled = gap(a, b), reference_gap(a, b)
    assert exact == pytest.approx(gap(b, a), abs=1e-9)
    assert exact - 1e-9 <= sampled <= exact + 0.3  # points of an outline are up to 0.2 m apart


@settings(max_examples=examples(150), deadline=None)
@given(boxes, boxes, st.floats(-20, 20), st.floats(-20, 20))
def test_the_gap_closes_at_the_time_to_collision(a: OrientedBox, b: OrientedBox, vx: float, vy: float) -> None:
    """The boxes touch at the returned time and at no sampled time before; for inf, at no sampled time."""
    found = time_to_collision(a, b, vx, vy)
    assert found == pytest.approx(time_to_collision(b, a, -vx, -vy), abs=1e-6)  # seen from the other box

    def after(t: float) -> float:
        """Gap to a box smaller by 1e-6 m: sliding along a side is no collision."""
        return gap(a, (b[0] + vx * t, b[1] + vy * t, b[2], b[3], b[4] - 1e-6, b[5] - 1e-6))

    end = min(found, HORIZON_S) - 1e-6
    assert all(after(t) > 0.0 for t in np.linspace(0, max(end, 0), 60) if t < end)
    if math.isfinite(found):
        assert after(found) < 1e-4


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.floats(-60, 60), st.floats(-60, 60), st.floats(-4, 4), st.floats(-5, 30)), max_size=6))
def test_ruling_out_distant_actors_does_not_change_the_margins(others: list[tuple[float, float, float, float]]) -> None:
    actors = tuple(replace(CAR, id=str(i), x=x, y=y, yaw=yaw, speed=v) for i, (x, y, yaw, v) in enumerate(others))
    found = margins(at(0, 0.0, actors=actors))
    ego_box = box(0, 0, 0, EGO.length, EGO.width)
    gaps = [gap(ego_box, box(a.x, a.y, a.yaw, a.length, a.width)) for a in actors]
    times = [
        time_to_collision(
            ego_box,
            box(a.x, a.y, a.yaw, a.length, a.width),
            a.speed * math.cos(a.yaw) - 10.0,
            a.speed * math.sin(a.yaw),
        )
        for a in actors
    ]
    assert found["min_gap_m"] == (None if not gaps else pytest.approx(min(gaps), abs=1e-3))
    least = min(times, default=math.inf)
    assert found["min_ttc_s"] == (pytest.approx(least, abs=1e-3) if least < HORIZON_S else None)


@pytest.mark.parametrize(("hz", "sampled"), [(20.0, (0, 2)), (10.0, (0, 1, 2, 3)), (5.0, (0, 1, 2, 3))])
def test_margins_are_sampled_every_tenth_of_a_second_or_every_tick(hz: float, sampled: tuple[int, ...]) -> None:
    for close in range(4):
        cars = [(replace(CAR, x=10.0 if tick == close else 34.0),) for tick in range(4)]
        truths = [replace(at(tick, 0.0, actors=cars[tick]), time_s=tick / hz) for tick in range(4)]
        assert margins(*truths)["min_gap_m"] == (6.0 if close in sampled else 30.0)
