"""A driver that knows everything: the upper bound, and the proof that a scenario can be survived. Privileged.

Each decision: (1) where across the road (manoeuvre.py), (2) the speed that bends, lights, stop signs and the car ahead
allow, (3) rollouts against everybody's forecast (forecast.py): the strongest acceleration after which a way on or a
way to stop remains free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from closedloop_plugin.agents import tracking
from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.planning import forecast, manoeuvre
from closedloop_plugin.agents.planning.manoeuvre import (
    EGO_LENGTH,
    EGO_WIDTH,
    LateralOffset,
    RouteActor,
    StandstillTimer,
)
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Decision, GroundTruth, SignalState
from closedloop_plugin.maps.base import RoadMap

FRONT = EGO_LENGTH / 2
ASIDE = 0.9  # m: as far as the lane's edge allows
FIRSTS = (2.0, 0.8, 0.0, -1.5, -3.5, -7.5)


@dataclass
class ExpertState:
    """What the driver remembers of an episode."""

    s: float | None = None
    time_s: float = 0.0
    lateral: LateralOffset = field(default_factory=LateralOffset)
    patience: StandstillTimer = field(default_factory=StandstillTimer)
    stopped: set[str] = field(default_factory=set)  # stop signs done
    waited_s: float = 0.0
    nudged_until: float = -1.0  # time_s
    waits: bool = False  # for a gap to move over
    gave_way_until: float = -1.0  # time_s: who has braked for somebody does not race him next


@dataclass(frozen=True)
class ExpertScene:
    """One tick, in the route's frame."""

    truth: GroundTruth
    road: RoadMap
    actors: list[RouteActor]
    s: float
    d: float
    speed: float


class ExpertDriver:
    """Privileged reference driver."""

    name = "expert (privileged)"
    privileged = True
    local = True
    cameras: tuple[Camera, ...] = ()

    def __init__(self) -> None:
        self._minds: dict[str, ExpertState] = {}

    def start(self, episode: str, seed: int) -> None:
        self._minds[episode] = ExpertState()

    def end(self, episode: str) -> None:
        self._minds.pop(episode, None)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "privileged": True}

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._one(ask) for ask in asks]

    def _one(self, ask: DecisionRequest) -> Decision:
        if ask.truth is None or ask.road is None:
            return Decision(error="the expert needs the truth and the road")
        mind = self._minds.setdefault(ask.episode, ExpertState())
        scene = look(ask.truth, ask.road, mind)
        choose_side(scene, mind)
        top, stop = speed_limit(scene, mind)
        wanted = min(tracking.to_speed(top, scene.speed), stop, follow(scene, mind))
        if mind.waits and mind.lateral.why == "parked":
            wanted = -3.0
        if ask.truth.time_s < mind.gave_way_until and scene.speed > 1.0:
            wanted = min(wanted, 0.0)
        acceleration = safest(scene, mind, wanted, top)
        if acceleration < -2.0 and acceleration < wanted - 1.0:
            mind.gave_way_until = ask.truth.time_s + 1.2
        mind.waited_s = mind.waited_s + 0.05 if scene.speed < 0.2 else 0.0
        ahead = np.array([scene.s + 3.0])
        offset = float(mind.lateral.at(ahead)[0])
        control = tracking.control(ask.truth.ego, ask.road.path, scene.s, offset, acceleration)
        return Decision(control=control, thought={"a": round(acceleration, 2), "offset": round(offset, 2), "top": top})


def look(truth: GroundTruth, road: RoadMap, mind: ExpertState) -> ExpertScene:
    """Place everybody on the route; the driver's own place moves on from the last one."""
    s, d = road.path.locate(truth.ego.x, truth.ego.y, mind.s)
    first = mind.s is None
    dt = max(truth.time_s - mind.time_s, 0.0)
    mind.s, mind.time_s = s, truth.time_s
    actors = manoeuvre.seen(road.path, truth, s)
    mind.patience.watch(actors, dt)
    if first and abs(d) > 0.3:  # starts beside its lane (ParkingExit): the way in is a ramp as well
        mind.lateral = LateralOffset(s, d, d, 1.0, "parked")
    return ExpertScene(truth, road, actors, s, d, truth.ego.speed)


def choose_side(scene: ExpertScene, mind: ExpertState) -> None:
    """Begin or end a move across the road."""
    lateral, s, d = mind.lateral, scene.s, scene.d
    mind.waits = False
    if scene.truth.time_s < mind.nudged_until:
        return
    if manoeuvre.siren_behind(scene.actors, s):
        lanes = scene.road.facts.get("lanes", {})
        width = scene.road.lane_width
        side = -width if lanes.get("right") else width if lanes.get("left") else -0.7
        mind.waits = not manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, side)
        if not mind.waits:
            lateral.go(s, d, side, scene.speed, "yield")
        return
    if lateral.why == "parked":
        mind.waits = not manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, 0.0)
        if not mind.waits:
            lateral.go(s, d, 0.0, scene.speed, "out")
        return
    if lateral.why == "oncoming" and scene.speed < 1.0 and manoeuvre.head_on(scene.actors, s, d):
        lateral.go(s, d, 0.0, scene.speed, "")
        return
    group = manoeuvre.blockers(scene.road, scene.truth, scene.actors, mind.patience, s)
    way = manoeuvre.way_round(scene.road, scene.truth, group) if group else None
    if way is None:
        if not group and lateral.target and manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, 0.0):
            lateral.go(s, d, 0.0, scene.speed, "")
        return
    target, why = way
    if lateral.why == why == "oncoming":
        lateral.back_s = manoeuvre.passed_at(group, s, scene.speed)
    if lateral.target == target or group[0].s - s > 45.0:
        return
    free = manoeuvre.gap_is_free(scene.actors, s, d, scene.speed, target)
    if why == "oncoming" and lateral.why != "oncoming":
        near = group[0].s - group[0].half_s - s < 26.0
        free = free and near and manoeuvre.oncoming_is_free(scene.actors, s, scene.speed, group, target)
    mind.waits = not free
    if free:
        lateral.go(s, d, target, scene.speed, why)


def speed_limit(scene: ExpertScene, mind: ExpertState) -> tuple[float, float]:
    """What bends, the limit, lights and stop signs allow: (speed now, m/s; acceleration that stops at a line, m/s2)."""
    limit = 0.65 * scene.road.speed_limit
    if mind.lateral.why == "out" and abs(scene.d) > 1.2:
        limit = 2.5
    elif mind.waits and mind.lateral.why not in ("parked", "pass", "oncoming"):
        limit *= 0.6  # who drives beside us gets past
    top, stop = tracking.curve_speed(scene.road.path, scene.s, scene.speed, limit), math.inf
    for line in scene.road.stop_lines:
        if not line.on_route or line.route_s is None:
            continue
        gap = line.route_s - (scene.s + FRONT)
        if not -1.0 < gap < 60.0:
            continue
        if line.control == "signal":
            state = scene.truth.signals.get(line.id, SignalState.GREEN)
            stoppable = gap > scene.speed**2 / (2 * 4.5)
            hold = (state == SignalState.RED and (gap > -0.3 or scene.speed < 1.5)) or (
                state == SignalState.YELLOW and stoppable
            )
        else:
            if line.control == "stop" and scene.speed < 0.08 and gap < 3.0:
                mind.stopped.add(line.id)
            hold = line.control == "stop" and line.id not in mind.stopped
        if hold:
            room = gap - 0.7
            needed = scene.speed**2 / (2 * room) if room > 0.05 else 8.0
            stop = min(stop, -needed if needed > 1.6 else math.inf)
            top = min(top, math.sqrt(2 * 2.0 * room) if room > 0.05 else 0.0)
    return top, stop


def follow(scene: ExpertScene, mind: ExpertState) -> float:
    """IDM acceleration behind the nearest thing in the ego's own corridor, m/s2."""
    best = math.inf
    for x in scene.actors:
        ahead = float(mind.lateral.at(np.array([x.s - x.half_s]))[0])
        if x.s <= scene.s + 1.0 or x.v_s < -1.0 or abs(x.d - ahead) > x.half_d + EGO_WIDTH / 2 + 0.15:
            continue
        if abs(x.v_d) > 1.0:
            continue  # crossing: the rollouts' part
        stands = mind.patience.stands(x)
        if stands and mind.lateral.why in ("pass", "oncoming"):
            continue  # on the way round it: the rollouts' part
        waits = stands and mind.waits and mind.lateral.target == 0.0
        gap = x.s - x.half_s - scene.s - FRONT
        still = 9.5 if waits else 3.0
        v, lead = scene.speed, max(x.v_s, 0.0)
        wanted = still + max(0.0, 1.3 * v + v * (v - lead) / (2 * math.sqrt(2.0 * 3.0)))
        best = min(best, 2.0 * (1 - (wanted / max(gap, 0.1)) ** 2))
    return max(best, -8.0)


def safest(scene: ExpertScene, mind: ExpertState, wanted: float, top: float) -> float:
    """The strongest acceleration up to the wanted one that leaves a free way, m/s2; it may move the car aside a little.

    A rollout holds the acceleration for 0.6 s and then either goes on or brakes: one of both has to stay free.
    """
    others = [x for x in scene.actors if matters(x, scene)]
    firsts = [wanted] + [a for a in FIRSTS if a < wanted - 0.05]
    if not others:
        return wanted
    discs = forecast.forecast([x.actor for x in others], [keeps_to_road(x, scene) for x in others])
    margin = 0.15 if mind.waited_s < 20.0 else 0.0
    runs = [forecast.rollout(scene.speed, a, then, max(top, 3.0)) for a in firsts for then in (1.8, -5.0)]
    starts = scene.s + np.stack(runs)

    def free(way: LateralOffset) -> np.ndarray:
        """Time at which the better continuation of each first acceleration touches somebody, s."""
        hit = forecast.touches(scene.road.path, starts, way.at, (EGO_LENGTH, EGO_WIDTH), discs, margin)
        return hit.reshape(-1, 2).max(1)

    def strongest(times: np.ndarray) -> float:
        good = np.flatnonzero(np.isinf(times))
        return firsts[good[0]] if len(good) else -math.inf

    straight = free(mind.lateral)
    best = strongest(straight)
    for side in (-ASIDE, ASIDE) if best < -2.5 and may_step_aside(scene, mind) else ():
        aside = LateralOffset()
        aside.go(scene.s, scene.d, side, scene.speed, "aside")
        other = strongest(free(aside))
        if other > best:
            best, mind.lateral, mind.nudged_until = other, aside, scene.truth.time_s + 1.5
    return best if best > -math.inf else min(firsts[int(straight.argmax())], -6.0)


def keeps_to_road(x: RouteActor, scene: ExpertScene) -> np.ndarray | None:
    """Where a car on the ego's road will be if it follows its bends; None near junctions and for who crosses."""
    reach = 5.0 + abs(x.v_s) * forecast.HORIZON_S
    near = any(start - reach < x.s < end + reach for start, end in scene.road.junctions)
    if near or abs(x.v_s) < 1.0 or abs(x.v_d) > 0.25 * abs(x.v_s):
        return None
    return forecast.along(scene.road.path, x.s, x.d, x.v_s, x.v_d)


def may_step_aside(scene: ExpertScene, mind: ExpertState) -> bool:
    """Somebody comes head-on in or over the edge of the ego's lane, and the car is in its lane and moving."""
    coming = any(x.v_s < -2.0 and 0 < x.s - scene.s < 60.0 and abs(x.d) < 3.0 for x in scene.actors)
    crossing = any(start - 15.0 < scene.s < end for start, end in scene.road.junctions)
    return coming and not crossing and scene.speed > 2.0 and mind.lateral.why in ("", "aside")


def matters(x: RouteActor, scene: ExpertScene) -> bool:
    """Who belongs into the rollouts: not those who follow behind in the ego's own lane: they watch us."""
    if x.s + x.half_s > scene.s - FRONT:
        return True
    return abs(x.d - scene.d) > 1.6 or abs(x.v_d) > 1.0
