"""Where across the road: passing what blocks the lane, and making room for an ambulance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import EMERGENCY, PEDESTRIANS, STATIC, Actor, ActorKind, GroundTruth, SignalState
from closedloop_plugin.maps.base import RoadMap

EGO_LENGTH, EGO_WIDTH = 4.7, 2.0
SIDE = 0.45  # m to what is passed
DOOR = 0.9  # m that an open door adds to a car's side


def with_doors(a: Actor) -> Actor:
    """The body that is to be kept clear of: open doors are part of it."""
    left, right = DOOR * ("left" in a.doors), DOOR * ("right" in a.doors)
    if not left and not right:
        return a
    out = (left - right) / 2
    return replace(a, x=a.x - out * math.sin(a.yaw), y=a.y + out * math.cos(a.yaw), width=a.width + left + right)


@dataclass(frozen=True)
class RouteActor:
    """An actor in the route's frame: s, d of its centre, half its extent along both, speed along and across (m/s)."""

    actor: Actor
    s: float
    d: float
    half_s: float
    half_d: float
    v_s: float
    v_d: float


def seen(path: RoutePath, truth: GroundTruth, near: float, reach: float = 90.0) -> list[RouteActor]:
    """All actors within reach, in the route's frame."""
    out = []
    for a in map(with_doors, truth.actors):
        if math.hypot(a.x - truth.ego.x, a.y - truth.ego.y) > reach:
            continue
        s, d = path.locate(a.x, a.y, near, reach)
        turn = a.yaw - path.pose(s)[2]
        c, k = abs(math.cos(turn)), abs(math.sin(turn))
        half = a.length / 2, a.width / 2
        out.append(
            RouteActor(
                a, s, d, c * half[0] + k * half[1], k * half[0] + c * half[1],
                a.speed * math.cos(turn), a.speed * math.sin(turn),
            )
        )  # fmt: skip
    return out


BACK_M = 14.0


def _smooth(u: np.ndarray) -> np.ndarray:
    """0 before 0, 1 after 1, no step and no kink between."""
    u = np.clip(u, 0.0, 1.0)
    return u * u * (3 - 2 * u)


@dataclass
class LateralOffset:
    """The offset from the route that the car is to hold: a ramp from one value to another. Mutable, one an episode."""

    start_s: float = 0.0
    start_d: float = 0.0
    target: float = 0.0
    length: float = 1.0
    why: str = ""  # "", pass, oncoming, yield, parked, out, aside
    back_s: float = math.inf  # where the way back into the lane begins, if that is known

    def at(self, s: np.ndarray) -> np.ndarray:
        out = self.start_d + (self.target - self.start_d) * _smooth((s - self.start_s) / self.length)
        return out * (1.0 - _smooth((s - self.back_s) / BACK_M)) if math.isfinite(self.back_s) else out

    def go(self, s: float, d: float, target: float, speed: float, why: str) -> None:
        """Begin to move over, from where the car is."""
        if abs(target - self.target) < 0.05 and why == self.why:
            return
        self.start_s, self.start_d, self.target, self.why, self.back_s = s, d, target, why, math.inf
        shortest = 6.0 if speed < 1.5 else 9.0  # out of a parking bay, or from behind what one stopped at
        self.length = min(max(2.2 * speed, shortest), 32.0) * max(abs(target - d) / 3.5, 0.6)


@dataclass
class StandstillTimer:
    """For how long each actor has stood still, s."""

    still: dict[str, float] = field(default_factory=dict)

    def watch(self, actors: Sequence[RouteActor], dt: float) -> None:
        for x in actors:
            moving = abs(x.actor.speed) > 0.4
            self.still[x.actor.id] = 0.0 if moving else self.still.get(x.actor.id, 0.0) + dt

    def stands(self, x: RouteActor) -> bool:
        return x.actor.kind in STATIC or self.still.get(x.actor.id, 0.0) > 1.2


def blockers(
    road: RoadMap, truth: GroundTruth, actors: Sequence[RouteActor], patience: StandstillTimer, s: float
) -> list[RouteActor]:
    """What stands (or cycles slowly) in the ego's lane ahead and is no queue: nearest first, one group."""
    red = [
        x.route_s
        for x in road.stop_lines
        if x.route_s is not None and x.route_s > s and truth.signals.get(x.id, SignalState.GREEN) != SignalState.GREEN
    ]
    found: list[RouteActor] = []
    for x in sorted(actors, key=lambda x: x.s):
        slow = x.actor.kind == ActorKind.BICYCLE and 0 <= x.v_s < 6.0 and abs(x.v_d) < 0.7
        if not (slow or patience.stands(x)) or x.actor.kind in PEDESTRIANS:
            continue
        if x.s + x.half_s < s - 3.0 or x.s - s > 60.0 or abs(x.d) > x.half_d + EGO_WIDTH / 2 + 0.3:
            continue
        if any(start - 10.0 < x.s < end + 3.0 for start, end in road.junctions):
            continue
        if x.actor.kind not in STATIC and any(0 < line - x.s < 25.0 for line in red):
            continue
        if found and x.s - x.half_s > found[-1].s + found[-1].half_s + 22.0:
            break
        found.append(x)
    return found


def way_round(road: RoadMap, truth: GroundTruth, group: Sequence[RouteActor]) -> tuple[float, str] | None:
    """(offset, why) with which the group can be passed, the smallest first; None: there is none."""
    lanes = road.facts.get("lanes", {})
    width = road.lane_width
    left = max(x.d + x.half_d for x in group) + EGO_WIDTH / 2 + SIDE
    right = min(x.d - x.half_d for x in group) - EGO_WIDTH / 2 - SIDE
    slack = width / 2 - EGO_WIDTH / 2 + 0.1
    options: list[tuple[float, str]] = []
    if left <= slack:
        options.append((left, "pass"))
    if right >= -slack:
        options.append((right, "pass"))
    for n in range(1, int(lanes.get("left", 0)) + 1):
        if left <= n * width + slack:
            options.append((n * width, "pass"))
            break
    for n in range(1, int(lanes.get("right", 0)) + 1):
        if right >= -n * width - slack:
            options.append((-n * width, "pass"))
            break
    if not options and truth.oncoming_allowed and int(lanes.get("oncoming", 0)) and left <= width + 1.2:
        options.append((max(left, 0.8 * width), "oncoming"))
    return min(options, key=lambda o: abs(o[0])) if options else None


def gap_is_free(actors: Sequence[RouteActor], s: float, d: float, speed: float, target: float) -> bool:
    """Nobody beside or fast from behind in the lane to move into."""
    for x in actors:
        if abs(x.d - target) > x.half_d + 1.3 or abs(x.d - d) < 1.3:
            continue
        behind = s - EGO_LENGTH / 2 - (x.s + x.half_s)
        if x.v_s < -1.0 or x.s > s + EGO_LENGTH:
            continue  # oncoming: oncoming_is_free; ahead: the rollouts
        if behind < 4.0 + max(0.0, x.v_s - speed) * 3.0:
            return False
    return True


def oncoming_is_free(
    actors: Sequence[RouteActor], s: float, speed: float, group: Sequence[RouteActor], target: float
) -> bool:
    """Nobody stands or comes in the lane to be used before the ego is back from passing the group."""
    pace = max(max(x.v_s for x in group), 0.0)
    clear = EGO_LENGTH + 14.0
    end = max(x.s + x.half_s for x in group) + clear
    seconds = time_for(end - s, max(speed - pace, 0.0), top=8.0 - pace)
    back = end + pace * seconds
    there = (x for x in actors if x.v_s < 0.5 and abs(x.d - target) < x.half_d + 1.5 and x.s > s - 5 and x not in group)
    return all(x.s + min(x.v_s, 0.0) * seconds >= back for x in there)


def passed_at(group: Sequence[RouteActor], s: float, speed: float) -> float:
    """Where the ego will have passed the group, which may be moving: m along the route."""
    end = max(x.s + x.half_s for x in group) + EGO_LENGTH / 2 + 2.0
    pace = max(max(x.v_s for x in group), 0.0)
    own = max(speed, pace + 3.0)
    return s + max(end - s, 0.0) * own / (own - pace)


def head_on(actors: Sequence[RouteActor], s: float, d: float) -> bool:
    """Somebody who faces the ego stands right before it, and its own lane beside it is free to go back into."""
    before = any(0 < x.s - s < 24.0 and abs(x.d - d) < x.half_d + 1.5 and abs(x.v_s) < 1.0 for x in actors)
    beside = any(-8.0 < x.s - s < 12.0 and abs(x.d) < x.half_d + 1.2 for x in actors)
    return before and not beside


def time_for(distance: float, speed: float, top: float, accelerate: float = 2.0) -> float:
    """Seconds for a distance from this speed, accelerating to top."""
    ramp = max(top - speed, 0.0) / accelerate
    covered = speed * ramp + accelerate * ramp * ramp / 2
    if covered >= distance:
        return (-speed + math.sqrt(speed * speed + 2 * accelerate * distance)) / accelerate
    return ramp + (distance - covered) / max(top, speed)


def siren_behind(actors: Sequence[RouteActor], s: float) -> bool:
    """An emergency vehicle with its siren on comes from behind, or is just passing."""
    return any(
        x.actor.kind in EMERGENCY and "siren" in x.actor.lamps and x.actor.speed > 1.0 and -70.0 < x.s - s < 6.0
        for x in actors
    )
