"""Red lights and stop signs: infractions at all stop lines, on the route and elsewhere.

A line is crossed when the ego's centre passes it in the direction of its traffic, within its width. (Traffic law uses
the front, CARLA the rear; the centre tolerates a car that stops half a metre late, but not one that drives on.) Yellow
is no infraction. A stop counts if, before crossing, the ego was slower than 0.1 m/s with its front within 4 m of the
line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import GroundTruth, SignalState, StopLine
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent, at
from closedloop_plugin.scoring.referee.progress import RouteProgress

NEAR_M = 40.0  # radius around the ego in which lines are checked; the list is updated every RENEW_M
RENEW_M = 15.0
BESIDE_M = 0.5  # lateral tolerance for a car waiting at a line

Point = tuple[float, float]


class StopLineCriterion:
    def __init__(self, lines: Sequence[StopLine], profile: Profile) -> None:
        self._profile = profile
        # Each line with the unit vector (cos, sin) along its traffic, map frame.
        self._lines = [(x, math.cos(x.yaw), math.sin(x.yaw)) for x in lines if x.control in ("signal", "stop")]
        self._near: list[tuple[StopLine, float, float]] = []
        self._centre: Point | None = None
        self._before: Point | None = None
        self._stopped: set[str] = set()  # stop lines at which the ego has stopped and has not backed away
        self._counted: list[tuple[str, Point]] = []

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        here = truth.ego.x, truth.ego.y
        before, self._before = self._before or here, here
        found = []
        for line, cos, sin in self._around(here):
            ahead, left = _in_line(line, cos, sin, here)
            if line.control == "stop":
                self._wait(truth, line, ahead, left)
            if ahead < 0 or not _crossed(_in_line(line, cos, sin, before), (ahead, left), line.width / 2):
                continue
            finding = self._judge(truth, line)
            if finding:
                found.append(finding)
        return found

    def _around(self, here: Point) -> list[tuple[StopLine, float, float]]:
        if self._centre is None or math.dist(here, self._centre) > RENEW_M:
            self._centre = here
            self._near = [x for x in self._lines if math.dist(here, (x[0].x, x[0].y)) <= NEAR_M + x[0].width]
        return self._near

    def _wait(self, truth: GroundTruth, line: StopLine, ahead: float, left: float) -> None:
        """Record that the ego has stopped at this line, or has backed away from it."""
        front = -ahead - 0.5 * truth.ego.length  # m from the front to the line; negative once over it
        if ahead < 0 and front > self._profile.stop_reach_m:
            self._stopped.discard(line.id)
        elif ahead < 0 and abs(left) <= line.width / 2 + BESIDE_M and abs(truth.ego.speed) < self._profile.stop_speed:
            self._stopped.add(line.id)

    def _judge(self, truth: GroundTruth, line: StopLine) -> InfractionEvent | None:
        ego = truth.ego
        if line.control == "signal":
            if truth.signals.get(line.id) != SignalState.RED:
                return None
            kind, text = "red_light", f"Agent ran a red light {line.id} at {at(ego)}"
        else:
            if line.id in self._stopped:
                self._stopped.discard(line.id)
                return None
            kind, text = "stop_infraction", f"Agent ran a stop with id={line.id} at {at(ego)}"
        # An approach may have one line per lane, and a car may move back and forth on a line: counted once.
        here, near = (ego.x, ego.y), self._profile.same_actor_m
        if any(known == kind and math.dist(place, here) <= near for known, place in self._counted):
            return None
        self._counted.append((kind, here))
        return InfractionEvent(kind, truth.time_s, ego.x, ego.y, text)


def _in_line(line: StopLine, cos: float, sin: float, point: Point) -> tuple[float, float]:
    """Position relative to the line in metres: (beyond it, to its left)."""
    dx, dy = point[0] - line.x, point[1] - line.y
    return dx * cos + dy * sin, dy * cos - dx * sin


def _crossed(before: tuple[float, float], now: tuple[float, float], half_width: float) -> bool:
    """Whether the ego moved from before the line to on or beyond it, between its ends. Coordinates of `_in_line`."""
    if not before[0] < 0 <= now[0]:
        return False
    # Linear interpolation: the lateral position at the crossing, where the first coordinate is 0.
    t = before[0] / (before[0] - now[0])
    return abs(before[1] + t * (now[1] - before[1])) <= half_width
