"""How near an episode came to failing, while nothing has happened yet: what a search for failures climbs down.

Added to every record as `margins`. Distances are between boxes, in metres; times in seconds.

    min_gap_m        least distance from the ego's box to any other's (0: they touched; null: there was nobody)
    nearest          what that other one was (its kind)
    min_ttc_s        least time to collision, both keeping their speed and direction (null: never on a course that
                     would meet within 8 s)
    hardest_brake    the ego's strongest deceleration before it first touched anything, m/s2

Looked at every second tick (0.1 s): at 30 m/s of difference a gap can be wrong by the 1.5 m between two looks, and the
collision that such a look would miss is told by the contacts, which are read at every tick.
"""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.core.state import Actor, GroundTruth

HORIZON_S = 8.0
EVERY = 2  # ticks
Box = tuple[float, float, float, float, float, float]  # x, y, cos, sin, half length, half width


class SafetyMargins:
    """One episode's. `add` once a tick."""

    def __init__(self) -> None:
        self._gap = math.inf
        self._nearest: str | None = None
        self._ttc = HORIZON_S
        self._brake = 0.0
        self._touched = False

    def add(self, truth: GroundTruth) -> None:
        if self._touched or (truth.tick % EVERY and not truth.contacts):
            return
        ego = truth.ego
        if truth.contacts:
            self._touched, self._gap, self._ttc = True, 0.0, 0.0
            self._nearest = str(truth.contacts[0].kind)
            return
        cos, sin = math.cos(ego.yaw), math.sin(ego.yaw)
        self._brake = max(self._brake, -(ego.ax * cos + ego.ay * sin))
        mine = (ego.x, ego.y, cos, sin, 0.5 * ego.length, 0.5 * ego.width)
        self._look(mine, ego.speed, truth.actors)

    def _look(self, mine: Box, speed: float, actors: tuple[Actor, ...]) -> None:
        """Most actors are dismissed as circles about their boxes: this runs in every episode, for every actor."""
        x, y, cos, sin, half, wide = mine
        vx, vy, reach = speed * cos, speed * sin, half + wide
        for other in actors:
            dx, dy, pace = other.x - x, other.y - y, other.speed
            near = reach + 0.5 * (other.length + other.width)  # at least the two radii together
            away = dx * dx + dy * dy
            ux, uy = -vx, -vy
            if pace:
                yaw = other.yaw
                ux, uy = pace * math.cos(yaw) - vx, pace * math.sin(yaw) - vy
            closing, across, fast = -(dx * ux + dy * uy), dx * uy - dy * ux, ux * ux + uy * uy
            # On course: the circles meet at all, and sooner than the least time so far.
            meets = away < near * near or (
                closing > 0.0
                and across * across < near * near * fast
                and away < (near + self._ttc * math.sqrt(fast)) ** 2
            )
            closer = away < (near + self._gap) ** 2
            if not (meets or closer):
                continue
            theirs = (other.x, other.y, math.cos(other.yaw), math.sin(other.yaw), 0.5 * other.length, 0.5 * other.width)
            if closer:
                found = gap(mine, theirs, self._gap)
                if found < self._gap:
                    self._gap, self._nearest = found, str(other.kind)
            if meets:
                self._ttc = min(self._ttc, time_to_collision(mine, theirs, ux, uy, self._ttc))

    def to_json(self) -> dict[str, Any]:
        return {
            "min_gap_m": round(self._gap, 3) if self._gap < math.inf else None,
            "nearest": self._nearest,
            "min_ttc_s": round(self._ttc, 3) if self._ttc < HORIZON_S else None,
            "hardest_brake": round(self._brake, 2),
        }


def gap(a: Box, b: Box, below: float = math.inf) -> float:
    """Metres between two boxes, 0 where they overlap. `below`: an answer from there on need not be exact."""
    apart = max(distance - reach for distance, reach in _axes(a, b))
    if apart <= 0.0:
        return 0.0
    if apart >= below:
        return apart
    return min(_to_corners(a, b), _to_corners(b, a))


def time_to_collision(a: Box, b: Box, vx: float, vy: float, within: float = HORIZON_S) -> float:
    """Seconds until the boxes meet, if b moves by (vx, vy) m/s as seen from a and neither turns; math.inf: never, or
    later than `within`. 0 where they overlap now."""
    enter, leave = 0.0, within
    dx, dy = b[0] - a[0], b[1] - a[1]
    for ux, uy in ((a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2])):
        reach = _reach(a, ux, uy) + _reach(b, ux, uy)
        distance, closing = dx * ux + dy * uy, vx * ux + vy * uy
        if abs(closing) < 1e-9:
            if abs(distance) >= reach:
                return math.inf
            continue
        one, two = (-reach - distance) / closing, (reach - distance) / closing
        enter, leave = max(enter, min(one, two)), min(leave, max(one, two))
        if enter >= leave:
            return math.inf
    return enter


def _axes(a: Box, b: Box) -> list[tuple[float, float]]:
    """(distance of the centres, sum of the half extents) along each of the four directions of the sides."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    return [
        (abs(dx * ux + dy * uy), _reach(a, ux, uy) + _reach(b, ux, uy))
        for ux, uy in ((a[2], a[3]), (-a[3], a[2]), (b[2], b[3]), (-b[3], b[2]))
    ]


def _reach(box: Box, ux: float, uy: float) -> float:
    """Half the box's extent along a unit direction."""
    return box[4] * abs(box[2] * ux + box[3] * uy) + box[5] * abs(box[2] * uy - box[3] * ux)


def _to_corners(a: Box, b: Box) -> float:
    """From box a to the nearest corner of b: two boxes that are apart are nearest at a corner of one of them."""
    x, y, c, s, half, wide = a
    best = math.inf
    for u, v in ((1, 1), (1, -1), (-1, -1), (-1, 1)):
        dx = b[0] + u * b[4] * b[2] - v * b[5] * b[3] - x
        dy = b[1] + u * b[4] * b[3] + v * b[5] * b[2] - y
        forward, left = abs(dx * c + dy * s) - half, abs(dy * c - dx * s) - wide
        best = min(best, math.hypot(max(forward, 0.0), max(left, 0.0)))
    return best
