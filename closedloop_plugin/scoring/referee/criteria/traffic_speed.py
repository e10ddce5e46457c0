"""The ego's speed relative to the traffic: one message after each 5 % of the route, the input of Efficiency."""

from __future__ import annotations

from closedloop_plugin.core.state import VEHICLES, ActorKind, GroundTruth
from closedloop_plugin.scoring.efficiency import message, percent
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent
from closedloop_plugin.scoring.referee.progress import RouteProgress

SEGMENTS = 20  # of 5 %
MOTOR = VEHICLES - {ActorKind.BICYCLE}  # cyclists do not represent the traffic's speed
STILL = 1e-3  # m/s: numerical noise of a parked car


class TrafficSpeedCriterion:
    """Mean speeds over the ticks of a segment with background vehicles; 100 % if there are none."""

    def __init__(self) -> None:
        self._next = 1  # number of the current segment; the last one ends with the episode
        self._ego = self._traffic = 0.0
        self._ticks = 0

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        speeds = [abs(a.speed) for a in truth.actors if a.role == "background" and a.kind in MOTOR]
        if speeds:
            self._ego += abs(truth.ego.speed)
            self._traffic += sum(v for v in speeds if v > STILL) / len(speeds)
            self._ticks += 1
        passed = min(int(progress.share * SEGMENTS + 1e-9), SEGMENTS - 1)
        if passed < self._next:
            return []
        finding = self._finding(truth)
        self._next = passed + 1
        self._ego = self._traffic = 0.0
        self._ticks = 0
        return [finding]

    def last(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        """Message of the last segment, if more than 95 % are driven. Does not change the state."""
        return [self._finding(truth)] if progress.share * SEGMENTS > SEGMENTS - 1 else []

    def _finding(self, truth: GroundTruth) -> InfractionEvent:
        value = percent(self._ego / self._ticks, self._traffic / self._ticks) if self._ticks else 100.0
        return InfractionEvent("min_speed_infractions", truth.time_s, truth.ego.x, truth.ego.y, message(value))
