"""Collisions of bodies and buildings: separating axis test of boxes (core.boxes), inelastic impulse, then separation.

Map frame, metres, kg. No numpy, for speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from closedloop_plugin.core.boxes import OrientedBox, contains, corners, oriented_box, overlap
from closedloop_plugin.core.state import ActorKind, DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from closedloop_plugin.worlds.bridge.ground import NetworkGround

BOUNCE = 0.1  # coefficient of restitution of a crash
SCRAPE = 0.4  # coefficient of friction between the two surfaces
DOOR = (0.15, 0.9)  # size of an open door along and across the car, m


class BodyContact(NamedTuple):
    """A collision of two bodies: point (m), unit normal from a to b, penetration depth (m), normal impulse (kg m/s)."""

    a: SimulatedBody
    b: SimulatedBody
    x: float
    y: float
    nx: float
    ny: float
    depth: float
    impulse: float


def box_of(body: SimulatedBody) -> OrientedBox:
    m = body.motion
    return oriented_box(m.x, m.y, m.yaw, body.length, body.width)


def boxes(body: SimulatedBody) -> list[OrientedBox]:
    """The body's box, and one for each open door, at right angles to the side and 0.5 m in front of the centre."""
    first = box_of(body)
    if not body.doors:
        return [first]
    x, y, c, s, _, w = first
    out = w + 0.5 * DOOR[1]
    sides = [out if side == "left" else -out for side in sorted(body.doors)]
    return [first] + [(x + 0.5 * c - d * s, y + 0.5 * s + d * c, c, s, 0.5 * DOOR[0], 0.5 * DOOR[1]) for d in sides]


def resolve_collisions(bodies: Sequence[SimulatedBody]) -> list[BodyContact]:
    """Find touching pairs of which at least one moves, apply impulses and separate them. Changes the bodies."""
    active = [b for b in bodies if not b.gone and not (b.was_hit and b.kind in WALKERS)]  # a walker is hit once
    contacts = []
    for i, a in enumerate(active):
        ax, ay, reach, still = a.motion.x, a.motion.y, a.radius + (1.0 if a.doors else 0.0), a.still
        for b in active[i + 1 :]:
            m = b.motion
            near = reach + b.radius
            if abs(m.x - ax) > near + 1.0 or abs(m.y - ay) > near + 1.0 or (still and b.still):
                continue
            if a.rail is not None and b.rail is not None:
                continue  # two on rails pass through each other: car following keeps their distance
            contact = _collide(a, b)
            if contact is not None:
                contacts.append(contact)
                ax, ay, still = a.motion.x, a.motion.y, a.still
    return contacts


def _collide(a: SimulatedBody, b: SimulatedBody) -> BodyContact | None:
    hits = [(hit, p, q) for p in boxes(a) for q in boxes(b) if (hit := overlap(p, q)) is not None]
    if not hits:
        return None
    (nx, ny, depth), p, q = max(hits, key=lambda h: h[0][2])
    x, y = _contact_point(p, q)
    impulse = _apply_impulse(a, b, nx, ny, x, y)
    _separate(a, b, nx, ny, depth)
    for body, other in ((a, b), (b, a)):
        if impulse > 0 and (body.kind in WALKERS or body.rail is not None) and body.mass < 20 * other.mass:
            body.was_hit, body.rail = True, None
    return BodyContact(a=a, b=b, x=x, y=y, nx=nx, ny=ny, depth=depth, impulse=impulse)


def _contact_point(p: OrientedBox, q: OrientedBox) -> tuple[float, float]:
    """Mean of the corners of either box that lie in the other; without any, the middle between the centres."""
    inside = [c for one, two in ((p, q), (q, p)) for c in corners(one) if contains(two, c)]
    if not inside:
        return 0.5 * (p[0] + q[0]), 0.5 * (p[1] + q[1])
    return sum(c[0] for c in inside) / len(inside), sum(c[1] for c in inside) / len(inside)


def _apply_impulse(a: SimulatedBody, b: SimulatedBody, nx: float, ny: float, x: float, y: float) -> float:
    """Apply the collision impulse to both bodies; returns its normal part, kg m/s. 0 if they already separate.

    Without rotation: J = (1 + e) v_n / (1 / m_a + 1 / m_b), closing speed v_n along the normal, restitution e. Friction
    along the tangent is the smaller of what stops the sliding and SCRAPE J (Coulomb).
    """
    p, q = a.motion, b.motion
    vx, vy = q.vx - p.vx, q.vy - p.vy
    closing = -(vx * nx + vy * ny)  # v_n
    if closing <= 0:
        return 0.0
    inverse = _inverse_mass(a) + _inverse_mass(b)
    if inverse == 0.0:
        return 0.0
    impulse = (1 + BOUNCE) * closing / inverse
    tx, ty = -ny, nx
    along = vx * tx + vy * ty
    drag = math.copysign(min(abs(along) / inverse, SCRAPE * impulse), along)
    jx, jy = impulse * nx + drag * tx * -1.0, impulse * ny + drag * ty * -1.0
    _add_momentum(a, -jx, -jy, x, y)
    _add_momentum(b, jx, jy, x, y)
    return impulse


def _inverse_mass(body: SimulatedBody) -> float:
    return 0.0 if body.fixed else 1.0 / body.mass


def _add_momentum(body: SimulatedBody, jx: float, jy: float, x: float, y: float) -> None:
    """Add momentum (kg m/s) at (x, y) to a body.

    The part along the heading changes `v`, the rest `knock_x` and `knock_y`; the torque changes `knock_w`.
    """
    if body.fixed:
        return
    m = body.motion
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    dx, dy = jx / body.mass, jy / body.mass
    forward = dx * c + dy * s
    m.v += forward
    m.knock_x += dx - forward * c
    m.knock_y += dy - forward * s
    # Moment of inertia of a uniform rectangle, kg m2; spin = (r x J) / I, rad/s.
    inertia = body.mass * (body.length**2 + body.width**2) / 12
    spin = ((x - m.x) * jy - (y - m.y) * jx) / inertia
    m.knock_w = min(max(m.knock_w + 0.4 * spin, -3.0), 3.0)  # tyres resist most of the rotation
    m.vx, m.vy = m.v * c + m.knock_x, m.v * s + m.knock_y


def _separate(a: SimulatedBody, b: SimulatedBody, nx: float, ny: float, depth: float) -> None:
    """Move both along the normal until they no longer overlap, in proportion to their inverse masses."""
    wa, wb = _inverse_mass(a), _inverse_mass(b)
    if wa + wb == 0.0:
        return
    share = depth / (wa + wb)
    a.motion.x -= nx * share * wa
    a.motion.y -= ny * share * wa
    b.motion.x += nx * share * wb
    b.motion.y += ny * share * wb


BESIDE_M = 4.5  # within this distance of the route there is no building
REACH_M = 25.0  # farther buildings are not tested for collisions


class BuildingObstacles:
    """The buildings of one route: fixed obstacles for an ego that has left the road.

    Those of the camera's scenery, built on first use. `near` is called at every tick and is cheap on the road.
    """

    def __init__(self, network: Any, road: RoadMap, ground: NetworkGround, seed: int) -> None:
        self._scenery_args = network, road, seed
        self._ground = ground
        self._rows: np.ndarray | None = None
        self._bodies: dict[int, SimulatedBody] = {}

    def near(self, x: float, y: float, aside: float) -> list[SimulatedBody]:
        """Fixed bodies around (x, y), which is `aside` metres from the route; empty while it is on a road."""
        if abs(aside) < BESIDE_M or self._ground.surface(x, y, 0.0) is not DrivingSurface.OFF:
            return []
        if self._rows is None:
            from closedloop_plugin.worlds.embedded.camera.network_scenery import scenery_of

            self._rows = scenery_of(*self._scenery_args).buildings
        close = np.flatnonzero(np.hypot(self._rows[:, 0] - x, self._rows[:, 1] - y) < REACH_M)
        return [self._body(int(i), self._rows[i]) for i in close]

    def _body(self, index: int, row: np.ndarray) -> SimulatedBody:
        if index not in self._bodies:
            x, y, yaw, length, width, height = map(float, row[:6])
            motion = MotionState(x, y, math.remainder(yaw, math.tau))
            self._bodies[index] = SimulatedBody(
                id=f"house{index}", kind=ActorKind.BLOCKER, motion=motion, length=length, width=width, height=height,
                fixed=True,
            )  # fmt: skip
        return self._bodies[index]
