"""ExpertDriver: a rule-based driver with ground truth; the upper bound, and the check that a scenario is passable.

Each decision has four steps: (1) the lateral offset from the route (manoeuvre.py); (2) the speed that curvature,
signals, stop signs and the car ahead allow; (3) a gap in streams that do not brake (gaps.py); (4) rollouts against
forecasts of all actors (forecast.py): the strongest acceleration after which either continuing or braking stays free of
contact.

Frame: the route's (s along, d to the left, metres). Speeds in m/s, accelerations in m/s2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Decision, GroundTruth, Observation, SignalState, StopLine, VehicleStream
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents import tracking
from closedloop_plugin.driver.agents.planning import forecast, gaps, manoeuvre
from closedloop_plugin.driver.agents.planning.manoeuvre import (
    EGO_LENGTH,
    EGO_WIDTH,
    LateralOffset,
    RouteActor,
    StandstillTimer,
)
from closedloop_plugin.maps.base import RoadMap

FRONT = EGO_LENGTH / 2  # m from the ego's centre to its bumper
CRUISE_SHARE = 0.65  # of the speed limit; actors of threats are timed for this speed (scenarios/flows.py)
COMFORT_DECELERATION = 2.0  # m/s2, planned stops
PASSING = 8.0  # m/s, highest speed in the oncoming lane
EVADE_BELOW = -2.5  # m/s2: an evasion is considered if staying in the lane needs harder braking
PULL = 3.85  # m/s2 at full throttle, after rolling resistance
ASIDE = 0.9  # m of an evasion, about to the edge of a lane of 3.5 m
FIRST_ACCELERATIONS = (2.0, 0.8, 0.0, -1.5, -3.5, -7.5)  # m/s2 that the rollouts try, from full to emergency braking


@dataclass
class ExpertState:
    """Memory of the driver within an episode."""

    max_speed: float = math.inf  # m/s
    s: float | None = None
    time_s: float = 0.0
    lateral: LateralOffset = field(default_factory=LateralOffset)
    standstill: StandstillTimer = field(default_factory=StandstillTimer)
    stops_made: set[str] = field(default_factory=set)  # ids of stop signs at which the car has stopped
    standing_s: float = 0.0  # duration of the current standstill
    evading_until: float = -1.0  # time_s until which the offset of an evasion is kept
    waiting_for_gap: bool = False  # in the lane to move into
    gap: gaps.GapMemory = field(default_factory=gaps.GapMemory)
    no_way_past: bool = False  # something blocks the lane and cannot be passed, or not yet
    yielding_until: float = -1.0  # time_s: no acceleration after braking for an actor, so as not to race it


@dataclass(frozen=True)
class ExpertScene:
    """One decision in the route's frame: place (s, d) in m and speed in m/s of the ego, and all actors.

    dt: seconds since the decision before, 0 at the first.
    """

    truth: GroundTruth
    road: RoadMap
    actors: list[RouteActor]
    s: float
    d: float
    speed: float
    dt: float


@dataclass(frozen=True)
class ExpertPlan:
    """What the expert intends: acceleration (m/s2), the lateral offset over s, and the speed that it aims at (m/s).

    bounds: acceleration after each step of the decision, in order, m/s2: "speed" (limit, bends), "line" (signals, stop
    signs), "follow" (actors ahead), "gap" (streams), "contact" (rollouts). The first that is lower than those before
    says why the car slows down.
    """

    scene: ExpertScene
    acceleration: float
    lateral: LateralOffset
    top: float
    bounds: Mapping[str, float] = field(default_factory=dict)


class ExpertDriver:
    """Privileged reference driver, see the head of this file. `max_speed` (m/s): it plans no faster."""

    name = "expert (privileged)"
    privileged = True
    local = True
    cameras: tuple[Camera, ...] = ()

    def __init__(self, max_speed: float = math.inf) -> None:
        self.max_speed = max_speed
        self._states: dict[str, ExpertState] = {}

    def start(self, episode: str, seed: int) -> None:
        self._states[episode] = ExpertState(max_speed=self.max_speed)

    def end(self, episode: str) -> None:
        self._states.pop(episode, None)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "privileged": True}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._decide(request) for request in requests]

    def _decide(self, request: DecisionRequest) -> Decision:
        if request.truth is None or request.road is None:
            return Decision(error="the expert needs the truth and the road")
        return self._answer(self._plan(request.truth, request.road, request.episode), request.observation)

    def _answer(self, plan: ExpertPlan, observation: Observation) -> Decision:
        """The decision that carries the plan out; other drivers put it into another form."""
        scene = plan.scene
        ahead = np.array([scene.s + 3.0])  # 3 m ahead, since steering takes effect with a delay
        offset = float(plan.lateral.at(ahead)[0])
        control = tracking.control(scene.truth.ego, scene.road.path, scene.s, offset, plan.acceleration)
        thought = {"a": round(plan.acceleration, 2), "offset": round(offset, 2), "top": plan.top}
        return Decision(control=control, thought=thought)

    def _plan(self, truth: GroundTruth, road: RoadMap, episode: str) -> ExpertPlan:
        state = self._states.setdefault(episode, ExpertState(max_speed=self.max_speed))
        scene = observe(truth, road, state)
        choose_offset(scene, state)
        top, stop, held = speed_limit(scene, state)
        wanted = tracking.to_speed(top, scene.speed)
        bounds = {"speed": wanted, "line": min(wanted, stop)}
        wanted = bounds["follow"] = min(bounds["line"], follow(scene, state))
        if state.waiting_for_gap and state.lateral.purpose == "parked":
            wanted = -3.0  # stays in the parking bay
        if truth.time_s < state.yielding_until and scene.speed > 1.0:
            wanted = min(wanted, 0.0)
        wanted, others = accept_gap(scene, state, wanted, held)
        bounds["gap"] = wanted
        acceleration = bounds["contact"] = safest_acceleration(others, state, wanted, top)
        if acceleration < -2.0 and acceleration < wanted - 1.0:  # braked hard, and only because of an actor
            state.yielding_until = truth.time_s + 1.2
        state.standing_s = state.standing_s + scene.dt if scene.speed < 0.2 else 0.0
        return ExpertPlan(scene, acceleration, state.lateral, top, bounds)


def observe(truth: GroundTruth, road: RoadMap, state: ExpertState) -> ExpertScene:
    """The scene in the route's frame; the ego is located near its previous place."""
    s, d = road.path.locate(truth.ego.x, truth.ego.y, state.s)
    first = state.s is None
    dt = max(truth.time_s - state.time_s, 0.0)
    state.s, state.time_s = s, truth.time_s
    actors = manoeuvre.route_actors(road.path, truth, s)
    state.standstill.update(actors, dt)
    if first and abs(d) > 0.3:  # starts beside its lane (ParkingExit): it moves into the lane by a ramp as well
        state.lateral = LateralOffset(s, d, d, 1.0, "parked")
    return ExpertScene(truth=truth, road=road, actors=actors, s=s, d=d, speed=truth.ego.speed, dt=dt)


def choose_offset(scene: ExpertScene, state: ExpertState) -> None:
    """Begin or end a lateral move: yield to a siren, leave a parking bay, pass what blocks the lane, return."""
    lateral, s, d = state.lateral, scene.s, scene.d
    state.waiting_for_gap = state.no_way_past = False
    if scene.truth.time_s < state.evading_until:
        return
    if manoeuvre.siren_behind(scene.actors, s):
        lanes = scene.road.facts.get("lanes", {})
        width = scene.road.lane_width
        side = -width if lanes.get("right") else width if lanes.get("left") else -0.7  # 0.7 m: the edge of its own lane
        state.waiting_for_gap = not manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, side)
        if not state.waiting_for_gap:
            lateral.move(s, d, side, scene.speed, "yield")
        return
    if lateral.purpose == "parked":
        state.waiting_for_gap = not manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, 0.0)
        if not state.waiting_for_gap:
            lateral.move(s, d, 0.0, scene.speed, "out")
        return
    if lateral.purpose == "oncoming" and scene.speed < 1.0 and manoeuvre.head_on(scene.actors, s, d):
        lateral.move(s, d, 0.0, scene.speed, "")
        return
    group = manoeuvre.blockers(scene.road, scene.truth, scene.actors, state.standstill, s)
    option = manoeuvre.passing_offset(scene.road, scene.truth, group) if group else None
    if option is None:
        state.no_way_past = bool(group)
        if not group and lateral.target and manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, 0.0):
            lateral.move(s, d, 0.0, scene.speed, "")
        return
    target, purpose = option
    if lateral.purpose == purpose == "oncoming":
        lateral.back_s = manoeuvre.passed_at(group, s, scene.speed, state.max_speed)
    if lateral.target == target or group[0].s - s > 45.0:  # farther ahead than a lane change needs
        return
    free = manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, target)
    if purpose == "oncoming" and lateral.purpose != "oncoming":
        near = group[0].s - group[0].half_s - s < 26.0  # oncoming lane: only from close up, to use it briefly
        top = min(PASSING, state.max_speed)
        free = free and near and manoeuvre.oncoming_is_free(scene.actors, s, scene.speed, group, target, top)
    state.waiting_for_gap = not free
    if free:
        lateral.move(s, d, target, scene.speed, purpose)


def speed_limit(scene: ExpertScene, state: ExpertState) -> tuple[float, float, bool]:
    """Limits from curvature, speed limit, signals and stop signs: (speed, m/s; acceleration to stop at a line, m/s2;
    whether there is a line to stop at).

    The acceleration is inf while no firm braking for a line is needed.
    """
    limit = min(CRUISE_SHARE * scene.road.speed_limit, state.max_speed)
    if state.lateral.purpose == "out" and abs(scene.d) > 1.2:  # m: still in the parking bay
        limit = 2.5
    elif state.waiting_for_gap and state.lateral.purpose not in ("parked", "pass", "oncoming"):
        limit *= 0.6  # falls back, so that the car beside passes and the gap opens
    top, stop = tracking.curve_speed(scene.road.path, scene.s, scene.speed, limit), math.inf
    held = False
    for line in scene.road.stop_lines:
        if not line.on_route or line.route_s is None:
            continue
        gap = line.route_s - (scene.s + FRONT)  # m from the bumper to the line
        if not -1.0 < gap < 60.0:  # crossed already, or too far away to matter
            continue
        if must_stop(line, gap, scene, state):
            # Stop 0.7 m before the line: a = v^2 / (2 room), v = sqrt(2 a room). Below 1.6 m/s2 the limit on the
            # speed alone brakes gently enough.
            held, room = True, gap - 0.7
            needed = scene.speed**2 / (2 * room) if room > 0.05 else 8.0
            stop = min(stop, -needed if needed > 1.6 else math.inf)
            top = min(top, math.sqrt(2 * COMFORT_DECELERATION * room) if room > 0.05 else 0.0)
    return top, stop, held


def must_stop(line: StopLine, gap: float, scene: ExpertScene, state: ExpertState) -> bool:
    """Whether the ego has to stop at a line `gap` metres ahead of its bumper; notes a stop that was made."""
    if line.control == "signal":
        light = scene.truth.signals.get(line.id, SignalState.GREEN)
        stoppable = gap > scene.speed**2 / (2 * 4.5)  # yellow: only if 4.5 m/s2, firm but safe braking, is enough
        # Red: also a little beyond the line, unless the car is already driving through.
        held_by_red = light == SignalState.RED and (gap > -0.3 or scene.speed < 1.5)
        return held_by_red or (light == SignalState.YELLOW and stoppable)
    if line.control == "stop" and scene.speed < 0.08 and gap < 3.0:  # below the profiles' stop_speed and stop_reach_m
        state.stops_made.add(line.id)
    return line.control == "stop" and line.id not in state.stops_made


def follow(scene: ExpertScene, state: ExpertState) -> float:
    """Car-following acceleration behind the actors in the ego's own corridor, m/s2 (IDM, Treiber et al. 2000)."""
    best = math.inf
    # d of the ego when it reaches each actor
    corridors = state.lateral.at(np.array([x.s - x.half_s for x in scene.actors])).tolist()
    for x, corridor in zip(scene.actors, corridors, strict=True):
        if x.s <= scene.s + 1.0 or x.v_s < -1.0 or abs(x.d - corridor) > x.half_d + EGO_WIDTH / 2 + 0.15:
            continue  # behind, oncoming, or with 0.15 m to spare beside the corridor
        if abs(x.v_d) > 1.0:
            continue  # crosses: left to the rollouts
        standing = state.standstill.is_standing(x)
        if standing and state.lateral.purpose in ("pass", "oncoming"):
            continue  # the ego is passing it: left to the rollouts
        # IDM without the free-road term: a = a_max (1 - (s*/gap)^2), s* = s0 + v T + v dv / (2 sqrt(a_max b)), with
        # a_max = 2.0 m/s2, b = 3.0 m/s2, T = 1.3 s, s0 = 3 m; 9.5 m behind an obstacle leave room to steer past it.
        stays_back = state.waiting_for_gap or state.no_way_past
        before_passing = standing and stays_back and state.lateral.target == 0.0
        gap = x.s - x.half_s - scene.s - FRONT
        s0 = 9.5 if before_passing else 3.0
        v, lead = scene.speed, max(x.v_s, 0.0)
        desired = s0 + max(0.0, 1.3 * v + v * (v - lead) / (2 * math.sqrt(2.0 * 3.0)))
        best = min(best, 2.0 * (1 - (desired / max(gap, 0.1)) ** 2))
    return max(best, -8.0)  # full braking


def accept_gap(scene: ExpertScene, state: ExpertState, wanted: float, held: bool) -> tuple[float, ExpertScene]:
    """(acceleration, m/s2; the scene without streams in which a gap was found) before streams that cross or join.

    Without a gap it is at most `wanted`, and the ego waits some metres before the stream. held: by a signal or sign.
    """
    path = scene.road.path
    for stream in scene.truth.streams:
        line = state.gap.line(stream)
        mine = [x for x in scene.actors if gaps.belongs(x.actor, stream, line)]
        search = gap_search(stream, line, mine, scene, state)
        others = [
            k
            for k, s in enumerate((*stream.cars, *stream.coming))
            if not gaps.is_leader(line.pose(s), path, scene.s, scene.d)
        ]
        places = gaps.conflict(search, search.cars[:, others])
        if places is None:
            continue
        if not held:
            found = gaps.through_gap(search, places[1] + 1.0, state.gap, scene.truth.time_s)
            if found is not None:
                scene = replace(scene, actors=[x for x in scene.actors if x not in mine])
                wanted = min(found * tracking.ENGINE / PULL if found > 0 else found, follow(scene, state))
                continue
        room = places[0] - gaps.RUN_UP_M - scene.s
        if room <= 0.3:
            wanted = min(wanted, -4.0 if scene.speed > 0.1 else -1.0)
        else:
            wanted = min(wanted, tracking.to_speed(math.sqrt(2 * COMFORT_DECELERATION * room), scene.speed))
    return wanted, scene


def gap_search(
    stream: VehicleStream, line: RoutePath, mine: Sequence[RouteActor], scene: ExpertScene, state: ExpertState
) -> gaps.GapSearch:
    """The search for a gap in one stream. mine: its cars in the scene."""
    path, limit = scene.road.path, scene.road.speed_limit
    top = min(0.9 * limit, max(CRUISE_SHARE * limit, stream.speed), state.max_speed)
    return gaps.GapSearch(
        path=path,
        offset=state.lateral.at,
        s=scene.s,
        speed=scene.speed,
        top=min(top, gaps.bend_speed(path, scene.s, scene.s + 30.0)),
        until=min(stream.until_s + 2.0, path.length),  # 2 m: the stream ends a tick later
        cars=gaps.stream_poses(stream, line),
        body=(mine[0].actor.length, mine[0].actor.width) if mine else gaps.CAR,
        pace=stream.speed,
    )


def safest_acceleration(scene: ExpertScene, state: ExpertState, wanted: float, top: float) -> float:
    """The strongest acceleration up to the wanted one whose rollout stays free, m/s2; may start a small evasion.

    A rollout holds the acceleration for 0.6 s, then either accelerates (1.8 m/s2) or brakes (-5 m/s2). It is free if
    one of the two touches no actor within the horizon.
    """
    others = [x for x in scene.actors if is_relevant(x, scene)]
    firsts = [wanted] + [a for a in FIRST_ACCELERATIONS if a < wanted - 0.05]
    if not others:
        return wanted
    discs = forecast.forecast([x.actor for x in others], predicted_poses(others, scene))
    margin = 0.15 if state.standing_s < 20.0 else 0.0  # m; after 20 s at a standstill the car accepts tight gaps

    def contact_times(offset: LateralOffset, tried: Sequence[float]) -> np.ndarray:
        """For each first acceleration the time to contact of its better continuation, s; inf: free."""
        places = scene.s + forecast.rollouts(scene.speed, tried, (1.8, -5.0), max(top, 3.0))
        times = forecast.contact_times(scene.road.path, places, offset.at, (EGO_LENGTH, EGO_WIDTH), discs, margin)
        return times.reshape(-1, 2).max(1)

    def strongest(times: np.ndarray) -> float:
        free = np.flatnonzero(np.isinf(times))
        return firsts[free[0]] if len(free) else -math.inf

    if wanted >= EVADE_BELOW and np.isinf(contact_times(state.lateral, firsts[:1])[0]):
        return wanted  # usually; the others need not be rolled out
    straight = contact_times(state.lateral, firsts)
    best = strongest(straight)
    # Evade only if staying in place needs hard braking.
    for side in (-ASIDE, ASIDE) if best < EVADE_BELOW and may_evade(scene, state) else ():
        evasion = LateralOffset()
        evasion.move(scene.s, scene.d, side, scene.speed, "aside")
        other = strongest(contact_times(evasion, firsts))
        if other > best:
            best, state.lateral, state.evading_until = other, evasion, scene.truth.time_s + 1.5
    # No rollout is free: the one with the latest contact, but at least 6 m/s2 of braking.
    return best if best > -math.inf else min(firsts[int(straight.argmax())], -6.0)


def predicted_poses(actors: Sequence[RouteActor], scene: ExpertScene) -> np.ndarray:
    """(3, A, T) of x, y, yaw: along the ego's road for actors that follow it, else at constant motion."""
    poses = forecast.constant_motion([x.actor for x in actors])
    follow = [k for k, x in enumerate(actors) if follows_road(x, scene)]
    if follow:
        rows = np.array([(x.s, x.d, x.v_s, x.v_d) for x in (actors[k] for k in follow)])
        poses[:, follow] = forecast.along_path(scene.road.path, *rows.T[:, :, None])
    return poses


def follows_road(x: RouteActor, scene: ExpertScene) -> bool:
    """Whether an actor follows the ego's road: not near junctions, where it may turn, nor crossing or slow."""
    if abs(x.v_s) < 1.0 or abs(x.v_d) > 0.25 * abs(x.v_s):  # slower than walking, or 14 degrees off the road
        return False
    reach = 5.0 + abs(x.v_s) * forecast.HORIZON_S
    return not any(start - reach < x.s < end + reach for start, end in scene.road.junctions)


def may_evade(scene: ExpertScene, state: ExpertState) -> bool:
    """Whether an actor approaches head-on in or at the edge of the ego's lane while the ego drives in its lane."""
    approaching = any(x.v_s < -2.0 and 0 < x.s - scene.s < 60.0 and abs(x.d) < 3.0 for x in scene.actors)
    crossing = any(start - 15.0 < scene.s < end for start, end in scene.road.junctions)
    return approaching and not crossing and scene.speed > 2.0 and state.lateral.purpose in ("", "aside")


def is_relevant(x: RouteActor, scene: ExpertScene) -> bool:
    """Whether the rollouts check this actor: all except followers in the ego's lane, which keep their distance."""
    if x.s + x.half_s > scene.s - FRONT:
        return True
    return abs(x.d - scene.d) > 1.6 or abs(x.v_d) > 1.0  # in another lane, or changing lanes
