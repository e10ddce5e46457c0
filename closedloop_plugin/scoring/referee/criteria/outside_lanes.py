"""Driving outside the route's lanes: metres of the route, and their share of the driven distance.

The ego is outside if its centre is on an oncoming lane (unless the scenario needs that), on a shoulder or off the road.
Tolerances, as in CARLA's own check:
- within its own lane of the route the ego is never outside, nor within 0.5 m beyond that lane's edge, unless it is on
  an oncoming lane (in CARLA: the strip between lane and kerb);
- metres are counted along the route, not along the driven path. CARLA checks once per metre, so an excursion shorter
  than one metre of the route is ignored;
- a route may begin outside the lanes (leaving a parking bay): until the ego enters a lane, up to 20 m are free.
"""

from __future__ import annotations

from closedloop_plugin.core.state import DrivingSurface, GroundTruth
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent
from closedloop_plugin.scoring.referee.progress import RouteProgress

EDGE_M = 0.5
LEAST_M = 1.0
START_M = 20.0


class OutsideLanesCriterion:
    """Collects excursions during the episode. Call `findings` at the end: the message needs the whole distance."""

    def __init__(self, lane_width: float) -> None:
        self._half = lane_width / 2
        self._entered = False  # was in a lane, or has used up START_M
        self._open: list[float] | None = None  # the current excursion: metres, time_s, x, y
        self._past: list[list[float]] = []

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> tuple[InfractionEvent, ...]:
        outside = self._outside(truth, progress.d)
        self._entered = self._entered or not outside or progress.done_m > START_M
        if self._open is not None:
            # Also in the tick of the return: progress withheld far from the route is credited then, all at once.
            self._open[0] += progress.gained
            if not outside:
                self._past.append(self._open)
                self._open = None
        elif outside and self._entered:
            self._open = [0.0, truth.time_s, truth.ego.x, truth.ego.y]
        return ()

    def findings(self, done_m: float) -> list[InfractionEvent]:
        """One event per counted excursion, all with the same message. `done_m`: metres of the route driven."""
        counted = [e for e in [*self._past, *([self._open] if self._open else [])] if e[0] >= LEAST_M]
        metres = sum(e[0] for e in counted)
        if not counted:
            return []
        percent = min(100.0 * metres / done_m, 100.0)
        text = (
            f"Agent went outside its route lanes for about {round(metres, 3)} meters "
            f"({round(percent, 2)}% of the completed route)"
        )
        return [InfractionEvent("outside_route_lanes", time_s, x, y, text) for _, time_s, x, y in counted]

    def _outside(self, truth: GroundTruth, d: float) -> bool:
        if truth.surface == DrivingSurface.LANE or (
            truth.surface == DrivingSurface.ONCOMING and truth.oncoming_allowed
        ):
            return False
        return abs(d) > self._half + (0.0 if truth.surface == DrivingSurface.ONCOMING else EDGE_M)
