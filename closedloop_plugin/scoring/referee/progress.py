"""Route progress: monotone, and counted only while the ego is near the route.

The nearest route point alone is not sufficient: a car driving 12 to 36 m beside its road would "complete" the route.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.path import RoutePath

CLOSE_M = 10.0  # beside the path: two lanes over still count (overtaking), the next road does not
REACH_M = 15.0  # search range along the path in each direction: enough for any speed, too short to skip a loop


class RouteProgress:
    """Progress of one episode, in metres. (s, d): position along and beside the path (see RoutePath.locate);
    done_m: largest s reached; gained: increase of done_m in this tick; to_end_m: distance to the route's end.

    The position is searched only near the last one, so that a self-crossing route is driven in order.
    """

    def __init__(self, path: RoutePath) -> None:
        self.path = path
        self.s = self.d = 0.0
        self.done_m = self.gained = 0.0
        self.to_end_m = math.inf

    @property
    def share(self) -> float:
        """Share of the route driven, in [0, 1]."""
        return min(self.done_m / self.path.length, 1.0)

    def tick(self, x: float, y: float) -> None:
        """Update with the ego at (x, y), map frame, m."""
        self.s, self.d = self.path.locate(x, y, self.s, REACH_M)
        before = self.done_m
        if abs(self.d) <= CLOSE_M:
            self.done_m = max(before, self.s)
        self.gained = self.done_m - before
        end = self.path.xy[-1]
        self.to_end_m = math.hypot(x - end[0], y - end[1])
