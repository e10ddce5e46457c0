"""Online referee: processes the ground truth of every tick, ends the episode and computes its scores.

Rules and parameters are Bench2Drive's (core/profiles.py); the classes of criteria.py document their tolerances. The
outcome depends on the ground truth only, not on the world, the clock or the agent."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EMERGENCY, STATUS, Actor, EndReason, GroundTruth
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scoring.driving import composed, penalty_of
from closedloop_plugin.scoring.referee.criteria import (
    EPS,
    CollisionCriterion,
    InfractionEvent,
    OutsideLanesCriterion,
    RefereeCriterion,
    RouteProgress,
    StopLineCriterion,
    TrafficSpeedCriterion,
    at,
)

AHEAD_M = 12.0  # m between the fronts of a standing ego and the rear of a body that it may wait for
BESIDE_M = 0.3  # clearance on each side of the ego, m; a body within it blocks the ego

_YIELD = re.compile(r"yield failed(?: (\d+(?:\.\d+)?) ?%)?")


@dataclass(frozen=True)
class RefereeOutcome:
    """Result so far; the fields are those of EpisodeRecord."""

    infractions: dict[str, list[str]]  # all lists of record.INFRACTIONS, official messages
    score_route: float  # percent
    score_penalty: float
    score_composed: float
    places: list[dict[str, Any]]  # kind, time_s, x, y (map frame), text, actor if any; without minimum speed
    junctions_passed: int | None  # None: the map has no junction on the route
    progress_m: float
    end: EndReason | None  # None: not ended by the referee
    status: str | None  # official text of `end`


class Referee:
    """Referee of one episode. Call `tick` once per tick, in order; `outcome` at any time, it has no side effects.

    Without a route (a user's program) a route deviation does not end the episode.
    """

    def __init__(self, profile: Profile, road: RoadMap, route: Route | None) -> None:
        self._profile, self._road, self._route = profile, road, route
        self._progress = RouteProgress(road.path)
        self._lanes = OutsideLanesCriterion(road.lane_width)
        self._speed = TrafficSpeedCriterion()
        self._rules: tuple[RefereeCriterion, ...] = (
            CollisionCriterion(profile),
            StopLineCriterion(road.stop_lines, profile),
            self._lanes,
            self._speed,
        )
        self._found: list[InfractionEvent] = []
        self._before = 0  # infractions before the last tick
        self._events = 0  # scenario events processed so far
        self._truth: GroundTruth | None = None
        self._moved_s = 0.0  # when the ego last moved
        limit = max(road.speed_limit, 0.1) * profile.timeout_limit_share
        self._timeout_s = profile.timeout_base_s + road.path.length / limit
        self._end: EndReason | None = None

    @property
    def progress_m(self) -> float:
        return self._progress.done_m

    @property
    def latest(self) -> tuple[str, ...]:
        """The kinds of the infractions that the last tick brought (record.INFRACTIONS)."""
        return tuple(finding.kind for finding in self._found[self._before :])

    def tick(self, truth: GroundTruth) -> EndReason | None:
        """Process one tick and return why the episode ends, or None. After the end nothing more is counted."""
        self._before = len(self._found)
        if self._end is not None:
            return self._end
        if self._truth is None or abs(truth.ego.speed) >= self._profile.blocked_speed:
            self._moved_s = truth.time_s
        self._truth = truth
        self._progress.tick(truth.ego.x, truth.ego.y)
        for rule in self._rules:
            self._found.extend(rule.tick(truth, self._progress))
        if len(truth.events) > self._events:
            self._scenario_events(truth)
        self._end = self._ending(truth)
        return self._end

    def outcome(self) -> RefereeOutcome:
        """Infractions, scores and places of the ticks so far."""
        found, progress = list(self._found), self._progress
        if self._truth is not None:
            found += self._speed.last(self._truth, progress)
        outside = self._lanes.findings(progress.done_m)
        infractions: dict[str, list[str]] = {name: [] for name in INFRACTIONS}
        for finding in [*found, *outside[:1]]:
            infractions[finding.kind].append(finding.text)
        drawn = [f for f in (*found, *outside) if f.kind != "min_speed_infractions"]
        score = 100.0 if self._end is EndReason.COMPLETED else round(100.0 * progress.share, 6)
        factor = penalty_of(infractions, self._profile.penalties)
        return RefereeOutcome(
            infractions=infractions,
            score_route=score,
            score_penalty=round(factor, 6),
            score_composed=composed(score, factor),
            places=[f.place() for f in sorted(drawn, key=lambda f: f.time_s)],
            junctions_passed=self._junctions(),
            progress_m=progress.done_m,
            end=self._end,
            status=None if self._end is None else STATUS[self._end],
        )

    def _scenario_events(self, truth: GroundTruth) -> None:
        """Report infractions that the scenario detects: "scenario timeout", "yield failed", "yield failed 42%"."""
        for time_s, name in truth.events[self._events :]:
            failed = _YIELD.fullmatch(name)
            if failed:
                share = f" ({failed.group(1)}%)" if failed.group(1) else ""
                text = f"Agent failed to yield to an emergency vehicle{share}"
                self._report("yield_emergency_vehicle_infractions", truth, text, time_s, emergency_vehicle(truth))
            elif name == "scenario timeout":
                self._report("scenario_timeouts", truth, "Agent timed out a scenario", time_s)
        self._events = len(truth.events)

    def _ending(self, truth: GroundTruth) -> EndReason | None:
        """Why the episode ends at this tick, or None; infractions that end it are reported."""
        p, progress = self._profile, self._progress
        if 100.0 * progress.share >= p.complete_percent - EPS and progress.to_end_m <= p.complete_m:
            return EndReason.COMPLETED
        if abs(progress.d) > p.off_route_m and self._route is not None:
            self._report("route_dev", truth, f"Agent deviated from the route at {at(truth.ego)}")
            return EndReason.ROUTE_DEVIATION
        if truth.time_s - self._moved_s > p.blocked_s + EPS:
            self._report("vehicle_blocked", truth, f"Agent got blocked at {at(truth.ego)}", actor=body_ahead(truth))
            return EndReason.BLOCKED
        if truth.time_s > self._timeout_s + EPS:
            self._report("route_timeout", truth, "Route timeout.")
            return EndReason.ROUTE_TIMEOUT
        return EndReason.TICK_LIMIT if truth.tick >= p.max_ticks else None

    def _report(self, kind: str, truth: GroundTruth, text: str, time_s: float | None = None, actor: str = "") -> None:
        time_s = truth.time_s if time_s is None else time_s
        self._found.append(InfractionEvent(kind, time_s, truth.ego.x, truth.ego.y, text, actor))

    def _junctions(self) -> int | None:
        """Number of junctions on the route that the ego has passed."""
        if not self._road.junctions:
            return None
        done = self._road.path.length if self._end is EndReason.COMPLETED else self._progress.done_m
        return sum(end <= done for _, end in self._road.junctions)


def body_ahead(truth: GroundTruth) -> str:
    """Id of the nearest body straight ahead of the ego, in its way; "" if there is none."""
    found = [(gap, actor.id) for actor in truth.actors if (gap := _gap_ahead(truth.ego, actor)) is not None]
    return min(found)[1] if found else ""


def _gap_ahead(ego: Actor, actor: Actor) -> float | None:
    """Distance (m) from the ego's front to the body, along the ego; None if the body is not in its way."""
    ahead, left = to_ego(actor.x, actor.y, ego.x, ego.y, ego.yaw)
    turn = actor.yaw - ego.yaw
    c, s = abs(math.cos(turn)), abs(math.sin(turn))
    # Half extents of the body's box along and across the ego.
    along, across = 0.5 * (actor.length * c + actor.width * s), 0.5 * (actor.length * s + actor.width * c)
    if ahead <= 0 or abs(left) > 0.5 * ego.width + BESIDE_M + across:
        return None
    gap = ahead - along - 0.5 * ego.length
    return gap if gap <= AHEAD_M else None


def emergency_vehicle(truth: GroundTruth) -> str:
    """Id of the emergency vehicle nearest to the ego, of those with a siren if any has one; "" if there is none."""
    vehicles = [a for a in truth.actors if a.kind in EMERGENCY]
    loud = [a for a in vehicles if "siren" in a.lamps] or vehicles
    ego = truth.ego
    return min(loud, key=lambda a: math.hypot(a.x - ego.x, a.y - ego.y)).id if loud else ""
