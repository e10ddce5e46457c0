"""Oriented boxes in the plane: the footprints of vehicles, obstacles and walkers. No numpy: called at every tick.

A box is (x, y, cos yaw, sin yaw, half length, half width): centre and half extents in metres, yaw counter-clockwise
from the x axis. All tests use the separating axis theorem: two convex shapes are disjoint if and only if their
projections onto the normal of one of their sides are. Two boxes have four such axes u: forward and left of each.
"""

from __future__ import annotations

import math

OrientedBox = tuple[float, float, float, float, float, float]


def oriented_box(x: float, y: float, yaw: float, length: float, width: float) -> OrientedBox:
    """From the centre (m), the yaw (rad) and the full extents (m)."""
    return x, y, math.cos(yaw), math.sin(yaw), 0.5 * length, 0.5 * width


def corners(box: OrientedBox) -> list[tuple[float, float]]:
    """Front left, front right, rear right, rear left."""
    x, y, c, s, h, w = box
    return [(x + u * h * c - v * w * s, y + u * h * s + v * w * c) for u, v in ((1, 1), (1, -1), (-1, -1), (-1, 1))]


def contains(box: OrientedBox, point: tuple[float, float]) -> bool:
    """True if the point is inside the box or on its border."""
    dx, dy = point[0] - box[0], point[1] - box[1]
    return abs(dx * box[2] + dy * box[3]) <= box[4] + 1e-9 and abs(dy * box[2] - dx * box[3]) <= box[5] + 1e-9


def overlap(a: OrientedBox, b: OrientedBox) -> tuple[float, float, float] | None:
    """(nx, ny, depth): unit normal from a to b and length (m) of the shortest separating move; None if disjoint."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    best = math.inf
    normal = (1.0, 0.0)
    for ux, uy in ((a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2])):
        reach = _reach(a, ux, uy) + _reach(b, ux, uy)
        distance = dx * ux + dy * uy
        depth = reach - abs(distance)
        if depth <= 0.0:
            return None
        if depth < best:
            best = depth
            normal = (ux, uy) if distance >= 0 else (-ux, -uy)
    return normal[0], normal[1], best


def gap(a: OrientedBox, b: OrientedBox, below: float = math.inf) -> float:
    """Distance between two boxes in metres, 0 if they overlap. Results of `below` or more are lower bounds only."""
    # Separating axis theorem: disjoint boxes are separated along one of the four directions of their sides, and the
    # separation along any axis is a lower bound of the distance.
    dx, dy = b[0] - a[0], b[1] - a[1]
    axes = (a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2])
    apart = max(abs(dx * ux + dy * uy) - (_reach(a, ux, uy) + _reach(b, ux, uy)) for ux, uy in axes)
    if apart <= 0.0:
        return 0.0
    if apart >= below:
        return apart
    return min(_to_corners(a, b), _to_corners(b, a))


def time_to_collision(a: OrientedBox, b: OrientedBox, vx: float, vy: float, within: float = math.inf) -> float:
    """Seconds until the boxes touch, if b moves at (vx, vy) m/s relative to a and neither turns.

    0 if they overlap now; math.inf if they do not touch within `within` seconds.
    """
    # On each separating axis u the projections overlap while |d.u + t v.u| < reach: an interval of t. The boxes
    # overlap where all four intervals do (Liang-Barsky clipping), first at the largest lower end.
    enter, leave = 0.0, within
    dx, dy = b[0] - a[0], b[1] - a[1]
    for ux, uy in ((a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2])):
        reach = _reach(a, ux, uy) + _reach(b, ux, uy)
        distance, closing = dx * ux + dy * uy, vx * ux + vy * uy
        if abs(closing) < 1e-9:
            if abs(distance) >= reach:
                return math.inf
            continue
        t1, t2 = (-reach - distance) / closing, (reach - distance) / closing
        enter, leave = max(enter, min(t1, t2)), min(leave, max(t1, t2))
        if enter >= leave:
            return math.inf
    return enter


def _reach(box: OrientedBox, ux: float, uy: float) -> float:
    """Half the box's extent along the unit vector u: half_length |forward.u| + half_width |left.u|."""
    return box[4] * abs(box[2] * ux + box[3] * uy) + box[5] * abs(box[2] * uy - box[3] * ux)


def _to_corners(a: OrientedBox, b: OrientedBox) -> float:
    """Distance from box a to the nearest corner of b: the nearest points of disjoint boxes include a corner."""
    x, y, c, s, half, wide = a
    best = math.inf
    for u, v in ((1, 1), (1, -1), (-1, -1), (-1, 1)):
        dx = b[0] + u * b[4] * b[2] - v * b[5] * b[3] - x
        dy = b[1] + u * b[4] * b[3] + v * b[5] * b[2] - y
        forward, left = abs(dx * c + dy * s) - half, abs(dy * c - dx * s) - wide
        best = min(best, math.hypot(max(forward, 0.0), max(left, 0.0)))
    return best
