"""Traffic of scenarios: endless flows on one line (ActorFlow), columns of cars beside or opposite the ego (Convoy)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import SignalState, VehicleStream
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

MOST = 14  # cars of a flow
KNOWN = 4  # next cars of a flow that privileged agents know of
TIMEOUT_S = 240.0  # after which CARLA ends a flow, as an infraction (ScenarioTimeout)
HEAD_ON_GAP = 16.0  # m kept to an ego head-on, so that it can return to its lane
NOSE_M = 2.3  # from the ego's centre to its bumper
# Assumed driving of the ego: acceleration (m/s2), share of the speed limit, lateral acceleration in bends (m/s2).
GAIN, CRUISE, EGO_SIDEWAYS = 1.8, 0.65, 2.2
COMMIT_S = 1.6  # time to the meeting below which a car keeps its speed
SIDEWAYS = 4.5  # m/s2, lateral acceleration of flow cars in bends
EASE = 2.5  # m/s2, braking before bends and acceleration after them
# Gaps that are enough to pass an obstacle in the oncoming lane, to change into the next lane, and to leave a bay.
USABLE_M, CHANGE_M, LEAVE_M = 170.0, 90.0, 80.0
BEHIND_M, AHEAD_M = 60.0, 120.0  # distance from the ego at which a car that has passed it enters again at the end
SMOOTHING, SMOOTHING_S = 0.15, 0.05  # low-pass filter of the ego's acceleration: share of a new value per time step, s
SWAY = 0.35  # relative change of a flow's speed, at most, to meet the ego


class Pace:
    """Speed profile v(s) of a line, extended beyond its ends: a constant speed, reduced in and before bends."""

    def __init__(self, line: RoutePath, speed: float, sideways: float = SIDEWAYS) -> None:
        bends = np.abs(np.convolve(line.curvature, np.ones(7) / 7, mode="same"))
        # v = min(speed, sqrt(a_lat / |curvature|)), then |dv^2/ds| <= 2 EASE in both directions.
        v = np.minimum(speed, np.sqrt(sideways / np.maximum(bends, 1e-4)))
        step = float(line.s[1] - line.s[0])
        for order in (range(len(v) - 2, -1, -1), range(1, len(v))):  # brake before the bend, accelerate after it
            for i in order:
                near = i + 1 if order.step < 0 else i - 1
                v[i] = min(v[i], math.sqrt(v[near] ** 2 + 2 * EASE * step))
        self._s = np.r_[line.s[0] - 500.0, line.s, line.s[-1] + 500.0]
        self._v = np.r_[v[0], v, v[-1]]
        # Times t(s) by the trapezoidal rule: dt = 2 ds / (v1 + v2).
        self._t = np.r_[0.0, np.cumsum(np.diff(self._s) * 2 / (self._v[1:] + self._v[:-1]))]

    def speed(self, s: float) -> float:
        return float(np.interp(s, self._s, self._v))

    def seconds(self, start: float, end: float) -> float:
        """Travel time between two places, s."""
        return float(np.interp(end, self._s, self._t) - np.interp(start, self._s, self._t))

    def before(self, end: float, seconds: float) -> float:
        """The place from which `end` is reached after this time."""
        return float(np.interp(np.interp(end, self._s, self._t) - seconds, self._t, self._s))


class Convoy:
    """A column of cars. `step` sets their speeds at every tick."""

    def __init__(
        self,
        rails: Sequence[Rail],
        speed: float,
        meet: tuple[float, float] | None = None,
        pace: Pace | None = None,
        hold_s: float | None = None,
    ) -> None:
        """meet: (s on the ego's route, s on the cars' line) of the point of conflict. pace: of that line.
        hold_s: place at which oncoming cars wait while the ego is in their lane."""
        self.rails, self.speed, self.meet, self.pace, self.hold_s = list(rails), speed, meet, pace, hold_s
        self.begun, self.kept = False, 1.0
        self.way: Pace | None = None  # expected speeds of the ego on its route
        self.before: float | None = None  # its speed at the last tick
        self.gain = 0.0  # its acceleration, smoothed

    def step(self, stage: ScenarioStage) -> None:
        """Set the speeds of this tick: meet an ego that does not yield, brake for one in the lane ahead."""
        hurry = self._hurry(stage)
        held = False
        for rail in self.rails:
            rail.speed = hurry * (self.pace.speed(rail.s) if self.pace else self.speed)
            if not self.begun:
                rail.now = rail.speed
            claim = claims(rail, stage)
            waits = claim < 0 and self.hold_s is not None and rail.s > self.hold_s
            rail.stop_s = self.hold_s if waits else None
            # Head-on they leave room for the ego to return to its lane.
            rail.gap = HEAD_ON_GAP if claim < 0 and not waits else 3.0 if claim > 0 or held else None
            held = (waits or rail.gap is not None) and (rail.now or 0.0) < rail.speed - 0.3
        self.begun = True

    def _hurry(self, stage: ScenarioStage) -> float:
        """Factor on all speeds with which the nearest car in time reaches the point of conflict together with the ego.

        Constant below COMMIT_S before the meeting, and 1 once the ego brakes: a yielding ego is not pursued.
        """
        if self.meet is None or self.pace is None:
            return 1.0
        if self.before is not None:
            share = min(SMOOTHING * (stage.timestep / SMOOTHING_S), 1.0)
            self.gain += share * ((stage.ego_speed - self.before) / stage.timestep - self.gain)
        self.before = stage.ego_speed
        place, there = self.meet
        self.way = self.way or Pace(stage.road.path, CRUISE * stage.road.speed_limit, EGO_SIDEWAYS)
        # Brakes, and is slower than expected at this place.
        yields = self.gain < -1.2 and stage.ego_speed < self.way.speed(stage.ego_s) - 0.8
        if yields or stage.ego_s > place + 2.0:
            self.meet = None
            return 1.0
        eta = max(arrival(self.way, stage.ego_s, place, stage.ego_speed, self.gain), 0.3)
        wanted = [self.pace.seconds(r.s, there) / eta for r in self.rails if r.s < there]
        if eta > COMMIT_S and wanted:
            self.kept = min(max(min(wanted, key=lambda k: abs(k - 1.0)), 1 - SWAY), 1 + SWAY)
        return self.kept


def arrival(way: Pace, start: float, end: float, speed: float, gain: float) -> float:
    """Seconds until an ego that reacts to no actor reaches `end`.

    It keeps accelerating if it does now (`gain`, m/s2), and slows down for bends as in `way`. Integrated in steps of
    1 m with v^2 = v0^2 + 2 a ds.
    """
    v, seconds, s = max(speed, 1.0), 0.0, start
    while s < end:
        step = min(1.0, end - s)
        top = way.speed(s) if gain > 0.4 else min(max(speed, 2.0), way.speed(s))
        v = min(math.sqrt(v * v + 2 * GAIN * step), max(top, math.sqrt(max(v * v - 2 * 3.0 * step, 1.0))))
        seconds += step / v
        s += step
    return seconds


def claims(rail: Rail, stage: ScenarioStage) -> int:
    """Whether a car with priority has to brake for the ego in its lane ahead.

    -1: head-on; +1: in the same direction, standing, or far enough ahead; 0: no, including an ego that cuts across.
    """
    if stage.ego is None:
        return 0
    yaw = stage.ego_yaw()
    x, y = float(stage.ego.position[0]), float(stage.ego.position[1])
    nose = x + NOSE_M * math.cos(yaw), y + NOSE_M * math.sin(yaw)
    # The ego's centre, and its front, which enters the lane first.
    for s, d in rail.path.locate_all(((x, y), nose), near=rail.s, reach=80.0):
        ahead = (s - rail.s) * rail.direction
        if not 0.0 < ahead < 75.0 or abs(d - rail.d) > 1.9:
            continue
        along = math.cos(yaw - rail.path.pose(s)[2]) * rail.direction
        if along < -0.8:
            return -1
        if ahead < 45.0 and (along > 0.8 or stage.ego_speed < 0.8 or ahead > 2.5 * (rail.now or 0.0)):
            return 1
    return 0


class ActorFlow:
    """An endless flow of cars on a line: CARLA's behaviour of that name, with a bounded number of bodies.

    A car enters at `source` as soon as the one before is a distance away that is drawn anew for each car, drives at a
    constant speed, and leaves at `sink`; its body then waits for its next turn. The cars brake for nothing until one of
    them has been in a collision; from then on all keep their distance. The flow ends when the ego has reached `end_s`.
    """

    def __init__(
        self,
        stage: ScenarioStage,
        line: RoutePath,
        ends: tuple[float, float],
        speed: float,
        gaps: tuple[float, float],
        end_s: float,
        populated: bool | tuple[float, float] = False,
    ) -> None:
        """ends: (source, sink), m along the line. speed: m/s. gaps: (from, to) m between centres, as in route files.
        end_s: m along the ego's route. populated: cars are on the line when the flow begins, True: on all of it,
        (from, to): except in this part of it."""
        (self.source, self.sink), self.speed, self.end_s = ends, speed, end_s
        self.line, self.gaps = line, (min(gaps), max(gaps))
        # A seed of its own: the number of draws depends on the ego.
        self._rng = np.random.default_rng(int(stage.rng.integers(2**62)))
        typical = 0.7 * self.gaps[0] + 0.3 * self.gaps[1]
        number = min(math.ceil((self.sink - self.source) / typical) + 1, MOST)
        self.rails = [Rail(line, self.source, speed=speed, brake=7.0, accel=3.0) for _ in range(max(number, 2))]
        self.on_line: list[Rail] = []  # the last one entered last
        self.crashed, self.ended = False, False
        self._begun_s: float | None = None
        self._next_gaps = [self._draw() for _ in range(KNOWN)]
        self._before: dict[int, float] = {}  # s of each car at the last tick
        self._populated = populated
        self._points = tuple((float(x), float(y)) for x, y in line.xy[::4])
        stage.streams.append(self)

    def stream(self) -> VehicleStream | None:
        """What privileged agents may know of it; None: nothing drives as described there."""
        if self._begun_s is None or self.ended or self.crashed:
            return None
        last = self.on_line[-1].s if self.on_line else self.source + self._next_gaps[0]
        return VehicleStream(
            name=f"{self._points[0]} {self._points[-1]}",
            points=self._points,
            speed=self.speed,
            cars=tuple(r.s for r in self.on_line),
            coming=tuple(float(last - way) for way in np.cumsum(self._next_gaps)),
            source=self.source,
            sink=self.sink,
            until_s=self.end_s,
        )

    def shows(self, rail: Rail) -> bool:
        """Whether this car is on the line now."""
        return any(r is rail for r in self.on_line)

    def step(self, stage: ScenarioStage) -> None:
        """One tick: cars enter and leave."""
        if self.ended:
            return
        if self._begun_s is None:
            self._begun_s = stage.time_s
            self._populate()
        self._notice_crash()
        self.on_line = [r for r in self.on_line if r.s < self.sink]
        if not self.on_line:
            self._enter(self.source)
        elif (place := self.on_line[-1].s - self._next_gaps[0]) >= self.source:
            self._enter(place)
        if stage.time_s - self._begun_s > TIMEOUT_S:
            stage.event("scenario timeout")
        self.ended = stage.ego_s >= self.end_s or stage.happened("scenario timeout")
        if self.ended:
            self.on_line = []

    def _populate(self) -> None:
        """Cars on the line from its end to its source."""
        if self._populated is False:
            return
        low, high = (0.0, 0.0) if self._populated is True else self._populated
        s, places = self.source, []
        while (s := s + self._draw()) < self.sink:
            if not low < s < high:
                places.append(s)
        for s in reversed(places):
            self._enter(s)

    def _enter(self, s: float) -> None:
        free = next((r for r in self.rails if not self.shows(r)), None)
        if free is None:
            return
        free.s, free.now, free.gap = s, self.speed, 3.0 if self.crashed else None
        self.on_line.append(free)
        self._before.pop(id(free), None)
        self._next_gaps = [*self._next_gaps[1:], self._draw()]

    def _notice_crash(self) -> None:
        """A car that was hit has left its rail, so its s does not change; the others drive carefully from then on."""
        stopped = any(self._before.get(id(r)) == r.s for r in self.on_line)
        if stopped and not self.crashed:
            self.crashed = True
            for rail in self.rails:
                rail.gap = 3.0
        self._before = {id(r): r.s for r in self.on_line}

    def _draw(self) -> float:
        return float(self._rng.uniform(*self.gaps))


class GapDraws:
    """Metres between the centres of consecutive cars, uniform from low to high; every n-th is at least `wide`."""

    def __init__(self, low: float, high: float, wide: float, every: int, stage: ScenarioStage) -> None:
        self._low, self._high, self._wide, self._every = low, high, wide, every
        # A generator of its own: the number of draws depends on the ego.
        self._rng = np.random.default_rng(int(stage.rng.integers(2**62)))
        self._count = 0

    def draw(self) -> float:
        self._count += 1
        least = self._wide if self._count % self._every == 0 else 0.0
        return max(float(self._rng.uniform(self._low, self._high)), least)


class EndlessConvoy(Convoy):
    """Cars without end: the first one enters again behind the last when it has passed the ego and is out of sight."""

    def __init__(self, rails: Sequence[Rail], speed: float, gaps: GapDraws, hold_s: float | None = None) -> None:
        super().__init__(rails, speed, hold_s=hold_s)
        self.gaps = gaps

    def step(self, stage: ScenarioStage) -> None:
        first, last = self.rails[0], self.rails[-1]
        if (first.s - stage.ego_s) * first.direction > (AHEAD_M if first.direction > 0 else BEHIND_M):
            first.s, first.now = last.s - first.direction * self.gaps.draw(), self.speed
            self.rails = [*self.rails[1:], first]
        super().step(stage)


def oncoming(
    stage: ScenarioStage, interval: tuple[float, float], speed: float, place: float, hold_s: float | None = None
) -> EndlessConvoy:
    """Traffic in the opposite lane, whose first car is near `place` (m along the route) when the ego arrives there.

    interval: (from, to) m between the centres of two cars, as in route files. hold_s: place at which they wait while
    the ego passes the obstacle.
    """
    seconds = max((place - stage.trigger_s) / 7.0, 2.0)
    head = place + speed * seconds + float(stage.rng.uniform(0.0, 12.0))
    gaps = GapDraws(min(interval), max(interval), USABLE_M, 2, stage)
    places = head + np.cumsum([0.0, *(gaps.draw() for _ in range(3))])
    rails = [Rail(stage.road.path, float(s), stage.lane(1), direction=-1, brake=7.0, accel=3.0) for s in places]
    return EndlessConvoy(rails, speed, gaps, hold_s)


def passing(stage: ScenarioStage, speed: float, side: int) -> EndlessConvoy:
    """Cars that overtake the ego in the lane on that side (+1 left); every third gap is at least CHANGE_M."""
    gaps = GapDraws(14.0, 26.0, CHANGE_M, 3, stage)
    places = stage.trigger_s - 14.0 - np.cumsum([20.0, *(gaps.draw() for _ in range(5))])
    lane = stage.lane(side)
    rails = [Rail(stage.road.path, float(s), lane, speed=0.0, brake=7.0, accel=3.0) for s in places]
    return EndlessConvoy(rails, speed, gaps)


def beside(stage: ScenarioStage, speed: float, spacing: float) -> EndlessConvoy:
    """Traffic in the ego's lane that passes while the ego is parked beside it; every fifth gap is at least LEAVE_M."""
    gaps = GapDraws(spacing, spacing, LEAVE_M, 5, stage)
    places = -15.0 - np.cumsum([0.0, *(gaps.draw() for _ in range(6))])
    return EndlessConvoy([Rail(stage.road.path, float(s), brake=7.0, accel=3.0) for s in places], speed, gaps)


def green_for(stage: ScenarioStage, line: RoutePath) -> None:
    """Keep the signal of a flow's approach green."""
    for stop in stage.road.stop_lines:
        s, d = line.locate(stop.x, stop.y)
        if stop.control == "signal" and abs(d) < 3.0 and math.cos(line.pose(s)[2] - stop.yaw) > 0.7:
            stage.signals[stop.id] = SignalState.GREEN
