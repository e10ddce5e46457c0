"""Driving outside the route's lanes: how many metres of the route, and what share of what was driven of it.

Outside is where the ego's centre is on an oncoming lane (unless the scenario needs that), a shoulder, or off the road.
Tolerances, in the manner of CARLA's own check:
- within its own lane of the route the ego is never outside, and half a metre beyond that lane's edge is no shoulder yet
  (there: the strip between lane and kerb);
- metres are counted along the route, not of the car: CARLA looks once a metre, so an excursion that took less than a
  metre of the route is none;
- a route that begins outside the lanes (leaving a parking bay) may first drive into one: 20 m are free.
"""

from __future__ import annotations

from closedloop_plugin.core.state import DrivingSurface, GroundTruth
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent
from closedloop_plugin.scoring.referee.progress import RouteProgress

EDGE_M = 0.5
LEAST_M = 1.0
START_M = 20.0


class OutsideLanesCriterion:
    """Collects; its findings come with `findings`, at the end: their message needs the whole way."""

    def __init__(self, lane_width: float) -> None:
        self._half = lane_width / 2
        self._entered = False  # has been in a lane, or had its 20 m
        self._open: list[float] | None = None  # the excursion under way: metres, time_s, x, y
        self._past: list[list[float]] = []

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> tuple[InfractionEvent, ...]:
        outside = self._outside(truth, progress.d)
        self._entered = self._entered or not outside or progress.done_m > START_M
        if self._open is not None:
            # Also on the way back in: progress that was not given while far off comes all at once there.
            self._open[0] += progress.gained
            if not outside:
                self._past.append(self._open)
                self._open = None
        elif outside and self._entered:
            self._open = [0.0, truth.time_s, truth.ego.x, truth.ego.y]
        return ()

    def findings(self, done_m: float) -> list[InfractionEvent]:
        """One for each excursion that counts, all with the one message. `done_m`: metres of the route driven."""
        whole = [e for e in [*self._past, *([self._open] if self._open else [])] if e[0] >= LEAST_M]
        metres = sum(e[0] for e in whole)
        if not whole:
            return []
        percent = min(100.0 * metres / done_m, 100.0)
        text = (
            f"Agent went outside its route lanes for about {round(metres, 3)} meters "
            f"({round(percent, 2)}% of the completed route)"
        )
        return [InfractionEvent("outside_route_lanes", time_s, x, y, text) for _, time_s, x, y in whole]

    def _outside(self, truth: GroundTruth, d: float) -> bool:
        if truth.surface == DrivingSurface.LANE or (
            truth.surface == DrivingSurface.ONCOMING and truth.oncoming_allowed
        ):
            return False
        return abs(d) > self._half + (0.0 if truth.surface == DrivingSurface.ONCOMING else EDGE_M)
