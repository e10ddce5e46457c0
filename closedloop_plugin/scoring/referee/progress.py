"""How far along its route the ego has come: monotone, and only where the ego was near the route.

A measure by the nearest point alone would be worthless: a car 12 to 36 m beside its road would "complete" it.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.path import RoutePath

CLOSE_M = 10.0  # beside the path: two lanes over still count (overtaking), the next road does not
REACH_M = 15.0  # along the path, each way, from the last place: enough for any speed, too little to jump a loop


class RouteProgress:
    """Renewed every tick. s, d: where the ego is (path.py); done_m: how far it has come; gained: of that in this tick.

    The place is searched only near the last one, so that a route which crosses itself is driven in its order.
    """

    def __init__(self, path: RoutePath) -> None:
        self.path = path
        self.s = self.d = 0.0
        self.done_m = self.gained = 0.0
        self.to_end_m = math.inf

    @property
    def share(self) -> float:
        """Of the route, in [0, 1]."""
        return min(self.done_m / self.path.length, 1.0)

    def tick(self, x: float, y: float) -> None:
        """The ego is at (x, y), map frame, m."""
        self.s, self.d = self.path.locate(x, y, self.s, REACH_M)
        before = self.done_m
        if abs(self.d) <= CLOSE_M:
            self.done_m = max(before, self.s)
        self.gained = self.done_m - before
        end = self.path.xy[-1]
        self.to_end_m = math.hypot(x - end[0], y - end[1])
