"""Collisions of boxes, with expected values computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.boxes import overlap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState, size_of
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.embedded.collisions import boxes, resolve_collisions


def body(kind: ActorKind, x: float, y: float = 0.0, yaw: float = 0.0, v: float = 0.0, name: str = "") -> SimulatedBody:
    return SimulatedBody(name or f"{kind}{x}", kind, MotionState(x, y, yaw, v), *size_of(kind.value))


def test_overlap_returns_the_axis_of_least_penetration() -> None:
    one, two = (0.0, 0.0, 1.0, 0.0, 2.0, 1.0), (3.5, 0.2, 1.0, 0.0, 2.0, 1.0)
    assert overlap(one, two) == pytest.approx((1.0, 0.0, 0.5))
    assert overlap(one, (4.01, 0.0, 1.0, 0.0, 2.0, 1.0)) is None


def test_a_turned_box_reaches_farther_than_its_side() -> None:
    half = math.sqrt(0.5)
    turned = (2.9, 0.0, half, half, 1.0, 1.0)  # its corner reaches 1.41 to the left
    assert overlap((0.0, 0.0, 1.0, 0.0, 2.0, 1.0), turned) is not None
    assert overlap((0.0, 0.0, 1.0, 0.0, 2.0, 1.0), (3.45, 0.0, half, half, 1.0, 1.0)) is None


def test_a_rear_end_crash_shares_momentum() -> None:
    moving, standing = body(ActorKind.CAR, 0.0, v=10.0), body(ActorKind.CAR, 4.5)
    (touch,) = resolve_collisions([moving, standing])
    # Equal masses, restitution 0.1: 4.5 and 5.5 m/s; impulse 1600 * 5.5.
    assert (moving.motion.v, standing.motion.v) == pytest.approx((4.5, 5.5))
    assert touch.impulse == pytest.approx(8800.0)
    assert standing.motion.x - moving.motion.x >= 4.6 - 1e-9  # they no longer overlap
    assert resolve_collisions([moving, standing]) == []


def test_a_fixed_body_does_not_move() -> None:
    moving, wall = body(ActorKind.CAR, 0.0, v=10.0), body(ActorKind.BLOCKER, 2.8)
    wall.fixed = True
    resolve_collisions([moving, wall])
    assert wall.motion.x == 2.8 and wall.still
    assert moving.motion.v == pytest.approx(-1.0)


def test_a_cone_hardly_slows_a_car_and_is_knocked_away() -> None:
    car, cone = body(ActorKind.CAR, 0.0, v=10.0), body(ActorKind.CONE, 2.4)
    resolve_collisions([car, cone])
    assert car.motion.v > 9.9 and cone.motion.vx > 9.0


def test_a_hit_pedestrian_is_marked_and_hit_only_once() -> None:
    car, person = body(ActorKind.CAR, 0.0, v=8.0), body(ActorKind.PEDESTRIAN, 2.4)
    (touch,) = resolve_collisions([car, person])
    assert person.was_hit and not car.was_hit and touch.impulse == pytest.approx(1.1 * 8 / (1 / 1600 + 1 / 75))
    car.motion.x += 0.3
    assert resolve_collisions([car, person]) == []  # it is hit only once


def test_a_side_impact_pushes_and_spins() -> None:
    struck, ram = body(ActorKind.CAR, 0.0), body(ActorKind.CAR, 1.5, -3.0, math.pi / 2, 10.0)
    resolve_collisions([struck, ram])
    assert struck.motion.knock_y > 1.0 and struck.motion.knock_w > 0.1 and struck.motion.v == pytest.approx(0, abs=0.6)


def test_an_open_door_collides() -> None:
    parked, passing = body(ActorKind.CAR, 0.0), body(ActorKind.CAR, 1.0, 2.4, v=8.0)
    assert resolve_collisions([parked, passing]) == []
    parked.doors = frozenset({"left"})
    assert len(boxes(parked)) == 2
    assert len(resolve_collisions([parked, passing])) == 1


def test_a_car_loses_its_rail_in_a_crash_but_not_at_a_cone() -> None:
    line = RoutePath([(0, 0), (100, 0)])
    car, cone, ego = body(ActorKind.CAR, 0.0, v=8.0), body(ActorKind.CONE, 2.4), body(ActorKind.CAR, 4.4)
    car.rail = Rail(line, 0.0, speed=8.0)
    resolve_collisions([car, cone])
    assert car.rail is not None
    resolve_collisions([ego, car])
    assert car.rail is None and car.was_hit


def test_bodies_on_rails_and_hidden_bodies_do_not_collide() -> None:
    line = RoutePath([(0, 0), (100, 0)])
    one, two = body(ActorKind.CAR, 0.0, v=8.0), body(ActorKind.CAR, 2.0)
    one.rail, two.rail = Rail(line, 0.0), Rail(line, 2.0)
    assert resolve_collisions([one, two]) == []
    two.rail, two.gone = None, True
    assert resolve_collisions([one, two]) == []


angle = st.floats(-3.1, 3.1)
place = st.floats(-3.0, 3.0)


@given(place, place, angle, st.floats(-15, 15), angle, st.floats(-15, 15))
def test_energy_never_grows_and_all_stays_finite(x, y, yaw, v, other_yaw, other_v) -> None:
    one, two = body(ActorKind.CAR, 0.0, 0.0, yaw, v, "a"), body(ActorKind.VAN, x, y, other_yaw, other_v, "b")

    def energy() -> float:
        return sum(0.5 * b.mass * (b.motion.vx**2 + b.motion.vy**2) for b in (one, two))

    before = energy()
    resolve_collisions([one, two])
    assert energy() <= before * (1 + 1e-9) + 1e-6
    assert all(map(math.isfinite, (one.motion.x, two.motion.y, one.motion.v, two.motion.knock_w)))
