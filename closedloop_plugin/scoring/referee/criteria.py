"""Infraction criteria: collisions, driving outside the route's lanes, red lights and stop signs, speed; route progress.

A criterion is an object with tick(truth, progress) that returns InfractionEvents. Its docstring has its tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from closedloop_plugin.core.frames import to_carla
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import (
    PEDESTRIANS,
    VEHICLES,
    Actor,
    ActorKind,
    DrivingSurface,
    EgoContact,
    GroundTruth,
    SignalState,
    StopLine,
)
from closedloop_plugin.scoring.driving import message, percent

EPS = 1e-9  # times are sums of 0.05 s
CLOSE_M = 10.0  # beside the path: two lanes over still count (overtaking), the next road does not
REACH_M = 15.0  # search range along the path in each direction: enough for any speed, too short to skip a loop


class RouteProgress:
    """Progress of one episode, in metres: monotone, and counted only while the ego is near the route.

    The nearest route point alone is not sufficient: a car driving 12 to 36 m beside its road would "complete" the
    route. (s, d): position along and beside the path (see RoutePath.locate);
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


@dataclass(frozen=True)
class InfractionEvent:
    """An infraction. `kind`: a name of record.INFRACTIONS; (x, y): map frame, m; `text`: the official message;
    `actor`: id of the other body, "" if there is none."""

    kind: str
    time_s: float
    x: float
    y: float
    text: str
    actor: str = ""

    def place(self) -> dict[str, Any]:
        """The entry of EpisodeRecord.places."""
        found = {**asdict(self), "time_s": round(self.time_s, 3), "x": round(self.x, 2), "y": round(self.y, 2)}
        return found if self.actor else {key: value for key, value in found.items() if key != "actor"}


class RefereeCriterion(Protocol):
    """Processes every tick once, in order; returns the infractions of that tick."""

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> Sequence[InfractionEvent]: ...


def at(ego: Actor) -> str:
    """The ego's position in the format of the official messages: CARLA's axes, m; z is 0 in our flat worlds."""
    x, y, _ = to_carla(ego.x, ego.y)
    return f"(x={round(x, 3) + 0.0}, y={round(y, 3) + 0.0}, z=0.0)"  # + 0.0: no "-0.0"


STATIONARY = 0.1  # m/s: below it a contact is not the ego's fault

Moment = tuple[float, float, float]  # time_s, and the ego's x, y


class CollisionCriterion:
    """Collisions: classification, and which contacts count as a new collision.

    - Contact with the same body within 5 s, or less than 5 m from the place of the first contact, is the same
      collision.
    - A contact while the ego is stationary (below 0.1 m/s in the tick before) is not the ego's fault and not counted.
      Later contacts with that body are ignored within both limits: the push moves the ego, and would count one tick
      later.
    - Vehicles and bicycles are collisions_vehicle, people collisions_pedestrian, all else collisions_layout, as CARLA
      classifies by actor type (vehicle.*, walker.*, static.*). CARLA has no animals and represents them by walkers, so
      an animal counts as collisions_pedestrian.
    """

    def __init__(self, profile: Profile) -> None:
        self._same_s, self._same_m = profile.same_actor_s, profile.same_actor_m
        self._counted: dict[str, Moment] = {}  # actor -> its last collision
        self._excused: dict[str, Moment] = {}  # actor -> when it hit the stationary ego
        self._speed: float | None = None

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        # The impact has already slowed the ego in this tick, so the speed of the tick before is used.
        speed = abs(truth.ego.speed) if self._speed is None else self._speed
        self._speed = abs(truth.ego.speed)
        return [_finding(truth, contact) for contact in truth.contacts if self._is_new(truth, contact.actor, speed)]

    def _is_new(self, truth: GroundTruth, actor: str, speed: float) -> bool:
        now = truth.time_s, truth.ego.x, truth.ego.y
        counted, excused = self._counted.get(actor), self._excused.get(actor)
        if counted and (self._soon(counted, now) or self._near(counted, now)):
            return False
        if excused and self._soon(excused, now) and self._near(excused, now):
            return False
        if speed < STATIONARY:
            self._excused[actor] = now
            return False
        self._counted[actor] = now
        return True

    def _soon(self, then: Moment, now: Moment) -> bool:
        return now[0] - then[0] <= self._same_s + EPS

    def _near(self, then: Moment, now: Moment) -> bool:
        return math.dist(then[1:], now[1:]) <= self._same_m


def _finding(truth: GroundTruth, contact: EgoContact) -> InfractionEvent:
    kind, name = _classified(contact.kind)
    text = f"Agent collided against object with type={name} and id={contact.actor} at {at(truth.ego)}"
    return InfractionEvent(kind, truth.time_s, contact.x, contact.y, text, contact.actor)


def _classified(kind: ActorKind) -> tuple[str, str]:
    """(name in record.INFRACTIONS, type name as in CARLA)."""
    name = kind.value.replace(" ", "_")
    if kind in PEDESTRIANS or kind is ActorKind.ANIMAL:
        return "collisions_pedestrian", f"walker.{name}"
    return ("collisions_vehicle", f"vehicle.{name}") if kind in VEHICLES else ("collisions_layout", f"static.{name}")


EDGE_M = 0.5
LEAST_M = 1.0
START_M = 20.0


class OutsideLanesCriterion:
    """Driving outside the route's lanes: metres of the route, and their share of the driven distance.

    The ego is outside if its centre is on an oncoming lane (unless the scenario needs that), on a shoulder or off the
    road. Tolerances, as in CARLA's own check:
    - within its own lane of the route the ego is never outside, nor within 0.5 m beyond that lane's edge, unless it is
      on an oncoming lane (in CARLA: the strip between lane and kerb);
    - metres are counted along the route, not along the driven path. CARLA checks once per metre, so an excursion
      shorter than one metre of the route is ignored;
    - a route may begin outside the lanes (leaving a parking bay): until the ego enters a lane, up to 20 m are free.

    `findings` is called at the end: the message needs the whole distance.
    """

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


NEAR_M = 40.0  # radius around the ego in which lines are checked; the list is updated every RENEW_M
RENEW_M = 15.0
BESIDE_M = 0.5  # lateral tolerance for a car waiting at a line

Point = tuple[float, float]


class StopLineCriterion:
    """Red lights and stop signs: infractions at all stop lines, on the route and elsewhere.

    A line is crossed when the ego's centre passes it in the direction of its traffic, within its width. (Traffic law
    uses the front, CARLA the rear; the centre tolerates a car that stops half a metre late, but not one that drives
    on.) Yellow is no infraction. A stop counts if, before crossing, the ego was slower than 0.1 m/s with its front
    within 4 m of the line.
    """

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


SEGMENTS = 20  # of 5 %
MOTOR = VEHICLES - {ActorKind.BICYCLE}  # cyclists do not represent the traffic's speed
STILL = 1e-3  # m/s: numerical noise of a parked car


class TrafficSpeedCriterion:
    """The ego's speed relative to the traffic: one message after each 5 % of the route, the input of Efficiency.

    Mean speeds over the ticks of a segment with background vehicles; 100 % if there are none.
    """

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
