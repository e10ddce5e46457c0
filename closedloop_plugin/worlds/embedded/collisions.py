"""Bodies that touch: oriented boxes by separating axes, an inelastic impulse, no overlap afterwards. No numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody

BOUNCE = 0.1  # coefficient of restitution of a crash
SCRAPE = 0.4  # friction between the two
DOOR = (0.15, 0.9)  # an open door: along the car, across, m

Box = tuple[float, float, float, float, float, float]  # x, y, cos, sin, half length, half width


@dataclass(frozen=True)
class BodyContact:
    """Two bodies met: where, along which unit normal (from a to b), how deep (m), how hard (kg m/s)."""

    a: SimulatedBody
    b: SimulatedBody
    x: float
    y: float
    nx: float
    ny: float
    depth: float
    impulse: float


def box_of(body: SimulatedBody) -> Box:
    m = body.motion
    return m.x, m.y, math.cos(m.yaw), math.sin(m.yaw), 0.5 * body.length, 0.5 * body.width


def boxes(body: SimulatedBody) -> list[Box]:
    """The body's box, and its open doors: hinged in front of the middle, standing out square."""
    first = box_of(body)
    if not body.doors:
        return [first]
    x, y, c, s, _, w = first
    out = w + 0.5 * DOOR[1]
    sides = [out if side == "left" else -out for side in sorted(body.doors)]
    return [first] + [(x + 0.5 * c - d * s, y + 0.5 * s + d * c, c, s, 0.5 * DOOR[0], 0.5 * DOOR[1]) for d in sides]


def overlap(a: Box, b: Box) -> tuple[float, float, float] | None:
    """(nx, ny, depth) of the shallowest way out, normal from a to b; None where the boxes are apart."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    best = math.inf
    normal = (1.0, 0.0)
    for ux, uy in ((a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2])):
        reach = _reach(a, ux, uy) + _reach(b, ux, uy)
        apart = dx * ux + dy * uy
        depth = reach - abs(apart)
        if depth <= 0.0:
            return None
        if depth < best:
            best = depth
            normal = (ux, uy) if apart >= 0 else (-ux, -uy)
    return normal[0], normal[1], best


def _reach(box: Box, ux: float, uy: float) -> float:
    """Half the box's extent along a unit direction."""
    return box[4] * abs(box[2] * ux + box[3] * uy) + box[5] * abs(box[2] * uy - box[3] * ux)


def settle(bodies: Sequence[SimulatedBody]) -> list[BodyContact]:
    """Find every touching pair with a moving partner, exchange momentum, and part them. Changes the bodies."""
    live = [b for b in bodies if not b.gone and not (b.stunned and b.kind in WALKERS)]  # who lies is hit once
    touches = []
    for i, a in enumerate(live):
        ax, ay, reach, still = a.motion.x, a.motion.y, a.radius + (1.0 if a.doors else 0.0), a.still
        for b in live[i + 1 :]:
            m = b.motion
            near = reach + b.radius
            if abs(m.x - ax) > near + 1.0 or abs(m.y - ay) > near + 1.0 or (still and b.still):
                continue
            if a.rail is not None and b.rail is not None:
                continue  # two on rails pass: their gaps are their drivers' matter
            touch = _meet(a, b)
            if touch is not None:
                touches.append(touch)
                ax, ay, still = a.motion.x, a.motion.y, a.still
    return touches


def _meet(a: SimulatedBody, b: SimulatedBody) -> BodyContact | None:
    hits = [(hit, p, q) for p in boxes(a) for q in boxes(b) if (hit := overlap(p, q)) is not None]
    if not hits:
        return None
    (nx, ny, depth), p, q = max(hits, key=lambda h: h[0][2])
    x, y = _where(p, q)
    impulse = _push(a, b, nx, ny, x, y)
    _part(a, b, nx, ny, depth)
    for body, other in ((a, b), (b, a)):
        if impulse > 0 and (body.kind in WALKERS or body.rail is not None) and body.mass < 20 * other.mass:
            body.stunned, body.rail = True, None
    return BodyContact(a, b, x, y, nx, ny, depth, impulse)


def _where(p: Box, q: Box) -> tuple[float, float]:
    """Middle of the corners of one box that lie in the other; else between the centres."""
    inside = [c for one, two in ((p, q), (q, p)) for c in _corners(one) if _contains(two, c)]
    if not inside:
        return 0.5 * (p[0] + q[0]), 0.5 * (p[1] + q[1])
    return sum(c[0] for c in inside) / len(inside), sum(c[1] for c in inside) / len(inside)


def _corners(box: Box) -> list[tuple[float, float]]:
    x, y, c, s, h, w = box
    return [(x + u * h * c - v * w * s, y + u * h * s + v * w * c) for u, v in ((1, 1), (1, -1), (-1, -1), (-1, 1))]


def _contains(box: Box, point: tuple[float, float]) -> bool:
    dx, dy = point[0] - box[0], point[1] - box[1]
    return abs(dx * box[2] + dy * box[3]) <= box[4] + 1e-9 and abs(dy * box[2] - dx * box[3]) <= box[5] + 1e-9


def _push(a: SimulatedBody, b: SimulatedBody, nx: float, ny: float, x: float, y: float) -> float:
    """The impulse along the normal, and friction across it; 0 where they part already."""
    p, q = a.motion, b.motion
    vx, vy = q.vx - p.vx, q.vy - p.vy
    closing = -(vx * nx + vy * ny)
    if closing <= 0:
        return 0.0
    inverse = _inverse(a) + _inverse(b)
    if inverse == 0.0:
        return 0.0
    impulse = (1 + BOUNCE) * closing / inverse
    tx, ty = -ny, nx
    along = vx * tx + vy * ty
    drag = math.copysign(min(abs(along) / inverse, SCRAPE * impulse), along)
    jx, jy = impulse * nx + drag * tx * -1.0, impulse * ny + drag * ty * -1.0
    _kick(a, -jx, -jy, x, y)
    _kick(b, jx, jy, x, y)
    return impulse


def _inverse(body: SimulatedBody) -> float:
    return 0.0 if body.fixed else 1.0 / body.mass


def _kick(body: SimulatedBody, jx: float, jy: float, x: float, y: float) -> None:
    """Momentum into one body: along its wheels into its speed, the rest beside them, and a spin."""
    if body.fixed:
        return
    m = body.motion
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    dx, dy = jx / body.mass, jy / body.mass
    forward = dx * c + dy * s
    m.v += forward
    m.knock_x += dx - forward * c
    m.knock_y += dy - forward * s
    inertia = body.mass * (body.length**2 + body.width**2) / 12
    spin = ((x - m.x) * jy - (y - m.y) * jx) / inertia
    m.knock_w = min(max(m.knock_w + 0.4 * spin, -3.0), 3.0)  # tyres hold back most of it
    m.vx, m.vy = m.v * c + m.knock_x, m.v * s + m.knock_y


def _part(a: SimulatedBody, b: SimulatedBody, nx: float, ny: float, depth: float) -> None:
    """Move them apart, the lighter one more."""
    wa, wb = _inverse(a), _inverse(b)
    if wa + wb == 0.0:
        return
    share = depth / (wa + wb)
    a.motion.x -= nx * share * wa
    a.motion.y -= ny * share * wa
    b.motion.x += nx * share * wb
    b.motion.y += ny * share * wb
