"""Lateral planning: passing an obstacle in the lane, and making room for emergency vehicles.

Route frame: s metres along the route, d metres to its left; v_s, v_d the speeds along them, m/s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import EMERGENCY, PEDESTRIANS, STATIC, Actor, ActorKind, GroundTruth, SignalState
from closedloop_plugin.maps.base import RoadMap

EGO_LENGTH, EGO_WIDTH = 4.7, 2.0
SIDE = 0.45  # m of clearance to an obstacle that is passed
SIDE_CYCLIST = 0.8  # m, to a cyclist, who may swerve: more than the forecasts' margin
DOOR = 0.9  # m that an open door adds to a car's width


def with_doors(a: Actor) -> Actor:
    """The actor with its width extended by open doors."""
    if not a.doors:
        return a
    left, right = DOOR * ("left" in a.doors), DOOR * ("right" in a.doors)
    out = (left - right) / 2  # shift of the centre to the left
    return replace(a, x=a.x - out * math.sin(a.yaw), y=a.y + out * math.cos(a.yaw), width=a.width + left + right)


@dataclass(frozen=True)
class RouteActor:
    """An actor in the route frame: s, d of its centre, half its extent along both (m), v_s and v_d (m/s)."""

    actor: Actor
    s: float
    d: float
    half_s: float
    half_d: float
    v_s: float
    v_d: float


def route_actors(path: RoutePath, truth: GroundTruth, near: float, reach: float = 90.0) -> list[RouteActor]:
    """All actors within `reach` metres of the ego, in the route frame. `near`: the ego's s."""
    out = []
    ego = truth.ego
    actors = [a for a in map(with_doors, truth.actors) if math.hypot(a.x - ego.x, a.y - ego.y) <= reach]
    for a, (s, d) in zip(actors, path.locate_all([(a.x, a.y) for a in actors], near, reach), strict=True):
        turn = a.yaw - path.pose(s)[2]
        c, k = abs(math.cos(turn)), abs(math.sin(turn))
        half = a.length / 2, a.width / 2  # extents of the axis-aligned box around the rotated one
        out.append(
            RouteActor(
                actor=a, s=s, d=d, half_s=c * half[0] + k * half[1], half_d=k * half[0] + c * half[1],
                v_s=a.speed * math.cos(turn), v_d=a.speed * math.sin(turn),
            )
        )  # fmt: skip
    return out


BACK_M = 14.0  # length of the ramp back into the lane


def _smooth(u: np.ndarray) -> np.ndarray:
    """Smoothstep 3u^2 - 2u^3, clipped to [0, 1]: zero slope at both ends."""
    u = np.minimum(np.maximum(u, 0.0), 1.0)
    return u * u * (3 - 2 * u)


@dataclass
class LateralOffset:
    """The planned offset d(s) from the route: a smooth ramp from one value to another. Mutable, one per episode."""

    start_s: float = 0.0
    start_d: float = 0.0
    target: float = 0.0
    length: float = 1.0
    purpose: str = ""  # "", pass, oncoming, yield, parked, out, aside
    back_s: float = math.inf  # s at which the return into the lane begins, if known

    def at(self, s: np.ndarray) -> np.ndarray:
        """d at places s, metres to the left of the route."""
        out = self.start_d + (self.target - self.start_d) * _smooth((s - self.start_s) / self.length)
        return out * (1.0 - _smooth((s - self.back_s) / BACK_M)) if math.isfinite(self.back_s) else out

    def move(self, s: float, d: float, target: float, speed: float, purpose: str) -> None:
        """Begin a ramp from the car's place (s, d) to the offset `target`."""
        if abs(target - self.target) < 0.05 and purpose == self.purpose:
            return
        self.start_s, self.start_d, self.target, self.purpose, self.back_s = s, d, target, purpose, math.inf
        # 2.2 s of driving for a lane of 3.5 m, in proportion for other offsets; 6 m from (nearly) standing: out of a
        # parking bay, or from behind an obstacle.
        shortest = 6.0 if speed < 1.5 else 9.0
        self.length = min(max(2.2 * speed, shortest), 32.0) * max(abs(target - d) / 3.5, 0.6)


@dataclass
class StandstillTimer:
    """For how long each actor has been standing, s."""

    still: dict[str, float] = field(default_factory=dict)

    def update(self, actors: Sequence[RouteActor], dt: float) -> None:
        for x in actors:
            moving = abs(x.actor.speed) > 0.4
            self.still[x.actor.id] = 0.0 if moving else self.still.get(x.actor.id, 0.0) + dt

    def is_standing(self, x: RouteActor) -> bool:
        """For more than 1.2 s, or an object."""
        return x.actor.kind in STATIC or self.still.get(x.actor.id, 0.0) > 1.2


def blockers(
    road: RoadMap, truth: GroundTruth, actors: Sequence[RouteActor], standstill: StandstillTimer, s: float
) -> list[RouteActor]:
    """Actors that block the ego's lane ahead (standing, or slow cyclists): the nearest group, without queues."""
    red = [
        x.route_s
        for x in road.stop_lines
        if x.route_s is not None and x.route_s > s and truth.signals.get(x.id, SignalState.GREEN) != SignalState.GREEN
    ]
    found: list[RouteActor] = []
    for x in sorted(actors, key=lambda x: x.s):
        slow = x.actor.kind == ActorKind.BICYCLE and 0 <= x.v_s < 6.0 and abs(x.v_d) < 0.7
        if not (slow or standstill.is_standing(x)) or x.actor.kind in PEDESTRIANS:
            continue
        # 0.3 m clear of the lane's middle; behind a blocker, objects anywhere in the lane belong to it (road works).
        clear = road.lane_width / 2 if found and x.actor.kind in STATIC else EGO_WIDTH / 2 + 0.3
        if x.s + x.half_s < s - 3.0 or x.s - s > 60.0 or abs(x.d) > x.half_d + clear:
            continue  # passed, too far ahead, or clear of the lane
        if any(start - 10.0 < x.s < end + 3.0 for start, end in road.junctions):
            continue  # waits at or in a junction
        if x.actor.kind not in STATIC and any(0 < line - x.s < 25.0 for line in red):
            continue  # in the queue at a red light
        if found and x.s - x.half_s > found[-1].s + found[-1].half_s + 22.0:
            break  # 22 m are enough to return into the lane in between
        found.append(x)
    return found


def passing_offset(road: RoadMap, truth: GroundTruth, group: Sequence[RouteActor]) -> tuple[float, str] | None:
    """(offset, purpose) of the smallest offset at which the group can be passed; None: there is none."""
    lanes = road.facts.get("lanes", {})
    width = road.lane_width
    aside = [x.half_d + (SIDE_CYCLIST if x.actor.kind == ActorKind.BICYCLE else SIDE) for x in group]
    left = max(x.d + out for x, out in zip(group, aside, strict=True)) + EGO_WIDTH / 2
    right = min(x.d - out for x, out in zip(group, aside, strict=True)) - EGO_WIDTH / 2
    slack = width / 2 - EGO_WIDTH / 2 + 0.1  # offset at which the ego is 0.1 m over the edge of its lane
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
    """Whether no actor is beside the ego, or approaches from behind, in the lane at d = `target`."""
    for x in actors:
        if abs(x.d - target) > x.half_d + 1.3 or abs(x.d - d) < 1.3:
            continue
        behind = s - EGO_LENGTH / 2 - (x.s + x.half_s)
        if x.v_s < -1.0 or x.s > s + EGO_LENGTH:
            continue  # oncoming: oncoming_is_free; ahead: the rollouts
        if behind < 4.0 + max(0.0, x.v_s - speed) * 3.0:  # 4 m, and 3 s of closing speed
            return False
    return True


def oncoming_is_free(
    actors: Sequence[RouteActor], s: float, speed: float, group: Sequence[RouteActor], target: float, top: float
) -> bool:
    """Whether the oncoming lane at d = `target` stays free until the ego has passed the group and is back.

    top: the highest speed at which the ego passes, m/s.
    """
    # In the frame that moves with the group (v_group) the ego drives from s to `end`, at most at `top` over ground;
    # an oncoming actor must still be beyond the ego's place of return when it is back.
    v_group = max(max(x.v_s for x in group), 0.0)
    if top - v_group < 0.5:  # it would hardly get past
        return False
    clear = EGO_LENGTH + 14.0
    end = max(x.s + x.half_s for x in group) + clear
    seconds = travel_time(end - s, max(speed - v_group, 0.0), top=top - v_group)
    back = end + v_group * seconds
    there = (x for x in actors if x.v_s < 0.5 and abs(x.d - target) < x.half_d + 1.5 and x.s > s - 5 and x not in group)
    return all(x.s + min(x.v_s, 0.0) * seconds >= back for x in there)


def passed_at(group: Sequence[RouteActor], s: float, speed: float, top: float) -> float:
    """s at which the ego will have passed the group, which may be moving."""
    # Over a gap g at constant speeds v (ego) and v_group it takes g / (v - v_group) seconds, so g v / (v - v_group) m.
    end = max(x.s + x.half_s for x in group) + EGO_LENGTH / 2 + 2.0
    v_group = max(max(x.v_s for x in group), 0.0)
    v = max(speed, v_group + min(3.0, max(top - v_group, 0.5)))
    return s + max(end - s, 0.0) * v / (v - v_group)


def head_on(actors: Sequence[RouteActor], s: float, d: float) -> bool:
    """Whether a standing actor blocks the ego from the front while the ego's own lane beside it is free."""
    before = any(0 < x.s - s < 24.0 and abs(x.d - d) < x.half_d + 1.5 and abs(x.v_s) < 1.0 for x in actors)
    beside = any(-8.0 < x.s - s < 12.0 and abs(x.d) < x.half_d + 1.2 for x in actors)
    return before and not beside


def travel_time(distance: float, speed: float, top: float, accelerate: float = 2.0) -> float:
    """Seconds for a distance in m, accelerating from `speed` to `top`."""
    ramp = max(top - speed, 0.0) / accelerate  # s of acceleration, in which s = v t + a t^2 / 2 is covered
    covered = speed * ramp + accelerate * ramp * ramp / 2
    if covered >= distance:
        return (-speed + math.sqrt(speed * speed + 2 * accelerate * distance)) / accelerate
    return ramp + (distance - covered) / max(top, speed)


def siren_behind(actors: Sequence[RouteActor], s: float) -> bool:
    """Whether an emergency vehicle with its siren on approaches from behind or is passing."""
    return any(
        x.actor.kind in EMERGENCY and "siren" in x.actor.lamps and x.actor.speed > 1.0 and -70.0 < x.s - s < 6.0
        for x in actors
    )
