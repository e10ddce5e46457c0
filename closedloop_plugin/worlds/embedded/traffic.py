"""Background traffic on rails: cars in the lanes beside the ego's path, cyclists at the road's edge, pedestrians on
pavements.

It stays clear of the scenario: none in the ego's own lane, none through a junction that the route crosses, none within
CLEAR_M of the ego at the start. It follows cars and stop lines by the IDM (bodies/car_following.py), so it does not run
into a standing ego.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import ActorKind, DrivingSurface, StopLine
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState, place, size_of, slide
from closedloop_plugin.worlds.bridge.ground import NetworkGround, joined
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

CLEAR_M = 25.0  # from the ego at the start
SPACING_M = 16.0  # between two cars
UNSEEN_M = 70.0  # from the ego: a body may reappear beyond
MOST_CARS, MOST_WALKERS, MOST_CYCLISTS = 7, 5, 2
CYCLIST_LIMIT = 18.0  # m/s: no cyclists where the speed limit is this or more
REVIEW_S = 0.2  # s, period in which a body updates its permitted acceleration

_KINDS = (*[ActorKind.CAR] * 4, ActorKind.VAN, ActorKind.TRUCK, ActorKind.BUS, ActorKind.MOTORCYCLE)
_PAINT = ((235, 235, 232), (30, 32, 36), (120, 124, 130), (170, 30, 32), (35, 70, 140), (70, 90, 75), (190, 175, 150))
_CLOTHES = ((180, 60, 50), (50, 80, 150), (60, 60, 60), (200, 190, 120), (90, 140, 90), (230, 230, 230))


class BackgroundTraffic:
    """`bodies` move at every step; one at the end of its path reappears at the start once the ego is far away."""

    def __init__(
        self, stage: ScenarioStage, network: Any, objects: Sequence[Any], seed: int, ground: NetworkGround
    ) -> None:
        """`objects`: those of the Scenic scene, the ego first."""
        self._rng = np.random.default_rng([seed, 0x7AF])
        self._speed = min(stage.road.speed_limit, 22.0)
        self._occupied = [(float(o.position[0]), float(o.position[1])) for o in objects]
        self.bodies: list[SimulatedBody] = []
        self._allowed: dict[str, float] = {}
        self._tick = 0
        rails = [o.rail for o in objects if getattr(o, "rail", None) is not None]
        found = drivable_paths(network, stage, rails)
        self._drivers(found)
        self._walkers(pavements(network, stage))
        if stage.road.speed_limit < CYCLIST_LIMIT:
            self._cyclists(cycle_paths(found, stage, ground))

    def step(self, bodies: Sequence[SimulatedBody], lines: Sequence[StopLine], dt: float) -> None:
        """Move all background bodies by `dt` seconds. `bodies`: all of the simulation, the ego first."""
        ego = bodies[0].motion
        period = max(1, round(REVIEW_S / dt))  # ticks
        for number, body in enumerate(self.bodies):
            rail = body.rail
            if rail is None:  # after a collision: slide to a stop and stay
                if not body.still:
                    slide(body.motion, 0.7, dt)
                body.braking = body.kind not in WALKERS
                continue
            if (self._tick + number) % period == 0:
                self._allowed[body.id] = car_following.max_acceleration(body, bodies, lines)
            speed_before = body.motion.v
            rail.advance(dt, self._allowed.get(body.id, math.inf))
            if rail.s > rail.path.length:
                self._respawn(body, rail, ego)
            if not body.gone:
                place(body.motion, *rail.pose(), rail.now or 0.0, dt)
                body.braking = body.kind not in WALKERS and (
                    body.motion.v < speed_before - 0.4 * dt or body.motion.v < 0.05
                )
        self._tick += 1

    def _respawn(self, body: SimulatedBody, rail: Rail, ego: MotionState) -> None:
        """At the end of its path: hide the body until the path's start is UNSEEN_M from the ego, then put it there."""
        x, y, yaw = rail.path.pose(0.0, rail.d)
        body.gone = math.dist((x, y), (ego.x, ego.y)) < UNSEEN_M
        if not body.gone:
            rail.s = 0.0
            body.motion = MotionState(x, y, yaw, rail.now or 0.0)

    def _drivers(self, found: list[RoutePath]) -> None:
        if not found:
            return
        weights = np.array([way.length for way in found])
        for _ in range(4 * MOST_CARS):
            if len(self.bodies) >= MOST_CARS:
                return
            way = found[int(self._rng.choice(len(found), p=weights / weights.sum()))]
            kind = _KINDS[int(self._rng.integers(len(_KINDS)))]
            s = float(self._rng.uniform(0.0, way.length))
            speed = self._speed * float(self._rng.uniform(0.55, 0.85))
            if kind in (ActorKind.TRUCK, ActorKind.BUS) and way.length < 60:
                kind = ActorKind.CAR
            paint = _PAINT[int(self._rng.integers(len(_PAINT)))]
            rail = Rail(way, s, 0.0, speed, accel=1.8, brake=4.0, gap=2.5, lights=True, now=speed)
            self._add(kind, rail, paint, SPACING_M)

    def _walkers(self, found: list[RoutePath]) -> None:
        for _ in range(MOST_WALKERS if found else 0):
            way = found[int(self._rng.integers(len(found)))]
            speed = float(self._rng.uniform(1.0, 1.6))
            s, aside = float(self._rng.uniform(0.0, way.length)), float(self._rng.uniform(-0.3, 0.3))
            clothes = _CLOTHES[int(self._rng.integers(len(_CLOTHES)))]
            self._add(ActorKind.PEDESTRIAN, Rail(way, s, aside, speed, gap=0.6, now=speed), clothes, 4.0)

    def _cyclists(self, found: list[tuple[RoutePath, float]]) -> None:
        for _ in range(2 * MOST_CYCLISTS if found else 0):
            if sum(body.kind is ActorKind.BICYCLE for body in self.bodies) >= MOST_CYCLISTS:
                return
            way, aside = found[int(self._rng.integers(len(found)))]
            s, speed = float(self._rng.uniform(0.0, way.length)), float(self._rng.uniform(3.5, 6.0))
            clothes = _CLOTHES[int(self._rng.integers(len(_CLOTHES)))]
            rail = Rail(way, s, aside, speed, accel=0.8, brake=3.0, gap=1.5, lights=True, now=speed)
            self._add(ActorKind.BICYCLE, rail, clothes, 4.0)

    def _add(self, kind: ActorKind, rail: Rail, colour: tuple[int, int, int], spacing: float) -> None:
        x, y, yaw = rail.pose()
        length, width, height = size_of(kind.value)
        if kind is not ActorKind.PEDESTRIAN and math.dist((x, y), self._occupied[0]) < CLEAR_M:
            return
        if any(math.dist((x, y), place) < spacing + 0.5 * length for place in self._occupied[1:]):
            return
        self._occupied.append((x, y))
        motion = MotionState(x, y, yaw, rail.now or 0.0)
        body = SimulatedBody(
            id=f"b{len(self.bodies)}", kind=kind, motion=motion, length=length, width=width, height=height,
            role="background", colour=colour, rail=rail,
        )  # fmt: skip
        self.bodies.append(body)


# Paths of background traffic: chains of lanes beside the ego's route, and pavements. Built once per episode.
NEAR_M = 120.0  # from the route: lanes farther away stay empty
OWN_LANE = 0.6  # share of a lane width beside the path that counts as the ego's lane
JUNCTION_CLEAR_M = 20.0  # around a junction of the route: no traffic passes through
SHORTEST_M = 30.0  # of a path
EDGE_M = 0.75  # to the right of a lane's edge: where cyclists ride, so that cars can pass
EGO_CLEAR_M = 5.0  # between cyclists and the ego's path
SAME_LANE_M = 2.4  # distance of a rail that still uses the lane: it may keep to one side


def drivable_paths(network: Any, stage: ScenarioStage, rails: Sequence[Rail] = ()) -> list[RoutePath]:
    """Paths to drive, in traffic direction. None leads through a junction of the route, along the ego's lane, or along
    a rail of the scenario's actors."""
    route = shapely.LineString(stage.road.path.xy)
    busy = [i for i in network.intersections if i.polygon.distance(route) < JUNCTION_CLEAR_M]
    crossing = [maneuver for junction in busy for maneuver in junction.maneuvers]
    free = [lane for lane in network.lanes if _usable(lane, stage, crossing)]
    starts = [x for x in free if x._predecessor not in free or not joined(x._predecessor, x)]
    rail_lines = []
    for rail in rails:  # from its position to its end, 5 m apart
        stations = np.arange(rail.s, rail.path.length if rail.direction > 0 else 0.0, 5.0 * rail.direction)
        rail_lines.append(np.array([rail.path.pose(s, rail.d)[:2] for s in stations]))
    found = []
    for first in starts:
        chain, lane = [], first
        while lane is not None and lane in free and lane not in chain:
            chain.append(lane)
            lane = lane._successor if joined(lane, lane._successor) else None
        if any(chain[-1] is maneuver.startLane for maneuver in crossing):
            continue  # it would end at the stop line
        way = RoutePath(np.vstack([_line(lane) for lane in chain]), step=1.0)
        if way.length >= SHORTEST_M and not any(_shares_lane(way, line) for line in rail_lines):
            found.append(way)
    return found


def pavements(network: Any, stage: ScenarioStage) -> list[RoutePath]:
    """Paths to walk near the route, in both directions."""
    found = []
    for walk in network.sidewalks:
        line = _line(walk)
        if _distance(line, stage.road.path) > 25.0:
            continue
        way = RoutePath(line, step=1.0)
        if way.length >= 15.0:
            found += [way, RoutePath(line[::-1], step=1.0)]
    return found


def cycle_paths(
    found: Sequence[RoutePath], stage: ScenarioStage, ground: NetworkGround
) -> list[tuple[RoutePath, float]]:
    """(path, lateral offset in m, right < 0) for cyclists: on a shoulder throughout, away from the ego's path."""
    aside = -(0.5 * stage.road.lane_width + EDGE_M)
    return [(way, aside) for way in found if _on_shoulder(way, aside, stage, ground)]


def _on_shoulder(way: RoutePath, aside: float, stage: ScenarioStage, ground: NetworkGround) -> bool:
    for s in np.arange(0.0, way.length, 10.0):
        x, y, yaw = way.pose(s, aside)
        gaps = np.hypot(*(stage.road.path.xy[::4] - (x, y)).T)
        if float(gaps.min()) <= EGO_CLEAR_M or ground.surface(x, y, yaw) is not DrivingSurface.SHOULDER:
            return False
    return True


def _usable(lane: Any, stage: ScenarioStage, crossing: list[Any]) -> bool:
    line = _line(lane)
    if any(lane is maneuver.connectingLane for maneuver in crossing):
        return False
    path = stage.road.path
    if _distance(line, path) > NEAR_M:
        return False
    own = OWN_LANE * stage.road.lane_width
    for x, y in line[::3]:
        s, d = path.locate(float(x), float(y))
        if abs(d) < own and 0.0 < s < path.length:
            return False
    return True


def _shares_lane(way: RoutePath, line: np.ndarray) -> bool:
    """True if a rail, given by points 5 m apart, uses this path's lane for 15 m or more."""
    if not len(line):
        return False
    gaps = np.sqrt(((line[:, None, :] - way.xy[None, ::2, :]) ** 2).sum(-1)).min(axis=1)
    return int((gaps < SAME_LANE_M).sum()) >= 3


def _distance(line: np.ndarray, path: RoutePath) -> float:
    """Smallest distance between a polyline's points and the path, m, to within a few metres."""
    gaps = line[:: max(1, len(line) // 20), None, :] - path.xy[None, ::8, :]
    return float(np.sqrt((gaps**2).sum(-1)).min())


def _line(element: Any) -> np.ndarray:
    """Centre line with points 2 m apart; Scenic's may have two points on a kilometre of straight road."""
    return RoutePath([tuple(p)[:2] for p in element.centerline.points], step=2.0).xy
