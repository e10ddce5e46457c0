"""Safety margins of an episode: how close it came to a collision. The threat search minimises them.

Stored in every record as `margins`. Bodies are oriented boxes in the map frame (m, rad); times are in seconds.

    min_gap_m        smallest distance from the ego's box to another box (0: contact; null: no other actor)
    nearest          kind of that actor
    min_ttc_s        smallest time to collision at constant velocities (null: no collision course within 8 s)
    hardest_brake    largest deceleration of the ego before its first contact, m/s2

Sampled every 0.1 s, or at every tick if ticks are longer: at a relative speed of 30 m/s a body moves 3 m between two
samples, so a minimum between them can be missed by 1.5 m. Collisions are not missed: contacts are read at every tick.
"""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.core.boxes import OrientedBox, gap, oriented_box, time_to_collision
from closedloop_plugin.core.state import Actor, GroundTruth

HORIZON_S = 8.0
EVERY_S = 0.1
_ROUNDING = 0.01  # of EVERY_S: times are sums of ticks


class SafetyMargins:
    """Margins of one episode. Call `add` once per tick."""

    def __init__(self) -> None:
        self._gap = math.inf
        self._nearest: str | None = None
        self._ttc = HORIZON_S
        self._brake = 0.0
        self._touched = False
        self._period = -1  # the last sampled one of EVERY_S, from time 0

    def add(self, truth: GroundTruth) -> None:
        period = math.floor(truth.time_s / EVERY_S + _ROUNDING)
        if self._touched or (period <= self._period and not truth.contacts):
            return
        self._period = period
        ego = truth.ego
        if truth.contacts:
            self._touched, self._gap, self._ttc = True, 0.0, 0.0
            self._nearest = str(truth.contacts[0].kind)
            return
        ego_box = oriented_box(ego.x, ego.y, ego.yaw, ego.length, ego.width)
        _, _, cos, sin, _, _ = ego_box
        self._brake = max(self._brake, -(ego.ax * cos + ego.ay * sin))
        self._update(ego_box, ego.speed, truth.actors)

    def _update(self, ego_box: OrientedBox, speed: float, actors: tuple[Actor, ...]) -> None:
        """Update gap and time to collision. Enclosing circles rule out most actors before the exact box tests."""
        x, y, cos, sin, half, wide = ego_box
        vx, vy, reach = speed * cos, speed * sin, half + wide
        for other in actors:
            # d = (dx, dy): from the ego to the other actor, m. u = (ux, uy): its velocity relative to the ego, m/s.
            dx, dy, other_speed = other.x - x, other.y - y, other.speed
            radii = reach + 0.5 * (other.length + other.width)  # half length + half width >= half diagonal, for both
            distance2 = dx * dx + dy * dy
            ux, uy = -vx, -vy
            if other_speed:
                yaw = other.yaw
                ux, uy = other_speed * math.cos(yaw) - vx, other_speed * math.sin(yaw) - vy
            closing, across, speed2 = -(dx * ux + dy * uy), dx * uy - dy * ux, ux * ux + uy * uy
            # The circles overlap, or they will: -d.u > 0 (approaching), the line of motion passes the ego at
            # |d x u| / |u| < radii, and they can touch before the smallest time so far: |d| - radii < ttc |u|.
            on_course = distance2 < radii * radii or (
                closing > 0.0
                and across * across < radii * radii * speed2
                and distance2 < (radii + self._ttc * math.sqrt(speed2)) ** 2
            )
            closer = distance2 < (radii + self._gap) ** 2
            if not (on_course or closer):
                continue
            box = oriented_box(other.x, other.y, other.yaw, other.length, other.width)
            if closer:
                found = gap(ego_box, box, self._gap)
                if found < self._gap:
                    self._gap, self._nearest = found, str(other.kind)
            if on_course:
                self._ttc = min(self._ttc, time_to_collision(ego_box, box, ux, uy, self._ttc))

    def to_json(self) -> dict[str, Any]:
        return {
            "min_gap_m": round(self._gap, 3) if self._gap < math.inf else None,
            "nearest": self._nearest,
            "min_ttc_s": round(self._ttc, 3) if self._ttc < HORIZON_S else None,
            "hardest_brake": round(self._brake, 2),
        }
