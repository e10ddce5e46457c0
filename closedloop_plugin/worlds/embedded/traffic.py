"""Background traffic: light actors on rails in the lanes beside the ego's way, cyclists at the edge of the road, and
people on the pavements.

It keeps clear of the scenario: nobody in the ego's own lane, nobody through a junction that the route crosses, nobody
within CLEAR_M of the ego at the start. It looks ahead (follow.py), so it never runs into a standing ego.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import ActorKind, DrivingSurface, StopLine
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState, place, size_of, slide
from closedloop_plugin.worlds.bridge.ground import NetworkGround
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

CLEAR_M = 25.0  # of the ego at the start
SPACING_M = 16.0  # between two of them
UNSEEN_M = 70.0  # from the ego, where one may appear
MOST_CARS, MOST_WALKERS, MOST_CYCLISTS = 7, 5, 2
CYCLIST_LIMIT = 18.0  # m/s: nobody cycles beside a motorway
THINK_TICKS = 4  # a driver looks ahead this often

_KINDS = (
    ActorKind.CAR,
    ActorKind.CAR,
    ActorKind.CAR,
    ActorKind.CAR,
    ActorKind.VAN,
    ActorKind.TRUCK,
    ActorKind.BUS,
    ActorKind.MOTORCYCLE,
)
_PAINT = ((235, 235, 232), (30, 32, 36), (120, 124, 130), (170, 30, 32), (35, 70, 140), (70, 90, 75), (190, 175, 150))
_CLOTHES = ((180, 60, 50), (50, 80, 150), (60, 60, 60), (200, 190, 120), (90, 140, 90), (230, 230, 230))


class BackgroundTraffic:
    """`bodies` move at every step; one that leaves its way comes back at its start once the ego is far from there."""

    def __init__(
        self, stage: ScenarioStage, network: Any, objects: Sequence[Any], seed: int, ground: NetworkGround
    ) -> None:
        """`objects`: the Scenic scene's, the ego first."""
        self._rng = np.random.default_rng([seed, 0x7AF])
        self._speed = min(stage.road.speed_limit, 22.0)
        self._taken = [(float(o.position[0]), float(o.position[1])) for o in objects]
        self.bodies: list[SimulatedBody] = []
        self._allowed: dict[str, float] = {}
        self._tick = 0
        rails = [o.rail for o in objects if getattr(o, "rail", None) is not None]
        found = ways(network, stage, rails)
        self._drivers(found)
        self._walkers(pavements(network, stage))
        if stage.road.speed_limit < CYCLIST_LIMIT:
            self._cyclists(edges(found, stage, ground))

    def step(self, bodies: Sequence[SimulatedBody], lines: Sequence[StopLine], dt: float) -> None:
        """Everybody one step on; `bodies`: all there are, the ego first."""
        ego = bodies[0].motion
        for number, body in enumerate(self.bodies):
            rail = body.rail
            if rail is None:
                self._pushed(body, dt)
                continue
            if (self._tick + number) % THINK_TICKS == 0:
                self._allowed[body.id] = car_following.allowed(body, bodies, lines)
            was = body.motion.v
            rail.advance(dt, self._allowed.get(body.id, math.inf))
            if rail.s > rail.path.length:
                self._again(body, rail, ego)
            if not body.gone:
                place(body.motion, *rail.pose(), rail.now or 0.0, dt)
                body.braking = body.kind not in WALKERS and (body.motion.v < was - 0.4 * dt or body.motion.v < 0.05)
        self._tick += 1

    def _again(self, body: SimulatedBody, rail: Rail, ego: MotionState) -> None:
        """Off the end of its way: gone, until its start is out of the ego's sight."""
        x, y, yaw = rail.path.pose(0.0, rail.d)
        body.gone = math.dist((x, y), (ego.x, ego.y)) < UNSEEN_M
        if not body.gone:
            rail.s = 0.0
            body.motion = MotionState(x, y, yaw, rail.now or 0.0)

    def _pushed(self, body: SimulatedBody, dt: float) -> None:
        """Was hit: slides to a halt and stays."""
        if not body.still:
            slide(body.motion, 0.7, dt)
        body.braking = body.kind not in WALKERS

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
        if kind is not ActorKind.PEDESTRIAN and math.dist((x, y), self._taken[0]) < CLEAR_M:
            return
        if any(math.dist((x, y), place) < spacing + 0.5 * length for place in self._taken[1:]):
            return
        self._taken.append((x, y))
        body = SimulatedBody(
            f"b{len(self.bodies)}", kind, MotionState(x, y, yaw, rail.now or 0.0), length, width, height
        )
        body.role = "background"
        body.colour, body.rail = colour, rail
        self.bodies.append(body)


# Where background traffic may go: chains of lanes beside the ego's route, and pavements. Built once an episode.
NEAR_M = 120.0  # of the route: lanes farther off are left empty
OWN_LANE = 0.6  # share of a lane width beside the path that still is the ego's own
JUNCTION_CLEAR_M = 20.0  # of a junction of the route: nobody drives through
SHORTEST_M = 30.0
EDGE_M = 0.75  # beyond a lane's right edge: where one cycles, and cars in the lane get past
EGO_CLEAR_M = 5.0  # of the ego's path: cyclists stay farther off
SAME_LANE_M = 2.4  # a rail may keep to one side, or come over the middle line


def ways(network: Any, stage: ScenarioStage, rails: Sequence[Rail] = ()) -> list[RoutePath]:
    """Lines to drive, in traffic direction: none leads through a junction of the route, along the ego's lane, or
    along a rail of the scenario's own actors."""
    busy = _route_junctions(network, stage)
    free = [lane for lane in network.lanes if _usable(lane, stage, busy)]
    starts = [lane for lane in free if lane._predecessor not in free]
    lent = [np.array([rail.path.pose(s, rail.d)[:2] for s in _ahead(rail)]) for rail in rails]
    found = []
    for first in starts:
        chain, lane = [], first
        while lane is not None and lane in free and lane not in chain:
            chain.append(lane)
            lane = lane._successor
        if _ends_in(chain[-1], busy):
            continue  # it would have to vanish at the stop line
        way = RoutePath(np.vstack([_line(lane) for lane in chain]), step=1.0)
        if way.length >= SHORTEST_M and not any(_shares(way, line) for line in lent):
            found.append(way)
    return found


def pavements(network: Any, stage: ScenarioStage) -> list[RoutePath]:
    """Lines to walk near the route, both ways."""
    found = []
    for walk in network.sidewalks:
        line = _line(walk)
        if _distance(line, stage.road.path) > 25.0:
            continue
        way = RoutePath(line, step=1.0)
        if way.length >= 15.0:
            found += [way, RoutePath(line[::-1], step=1.0)]
    return found


def edges(found: Sequence[RoutePath], stage: ScenarioStage, ground: NetworkGround) -> list[tuple[RoutePath, float]]:
    """Where one may cycle: (way, metres to its left, negative) on the shoulder along the whole way, far from the ego's
    path."""
    aside = -(0.5 * stage.road.lane_width + EDGE_M)
    return [(way, aside) for way in found if all(_beside(way, s, aside, stage, ground) for s in _every(way))]


def _every(way: RoutePath) -> np.ndarray:
    return np.arange(0.0, way.length, 10.0)


def _beside(way: RoutePath, s: float, aside: float, stage: ScenarioStage, ground: NetworkGround) -> bool:
    x, y, yaw = way.pose(s, aside)
    gaps = np.hypot(*(stage.road.path.xy[::4] - (x, y)).T)
    return float(gaps.min()) > EGO_CLEAR_M and ground.surface(x, y, yaw) is DrivingSurface.SHOULDER


def _usable(lane: Any, stage: ScenarioStage, busy: list[Any]) -> bool:
    line = _line(lane)
    if any(_crosses(lane, junction) for junction in busy):
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


def _route_junctions(network: Any, stage: ScenarioStage) -> list[Any]:
    """The intersections that the route runs through, or nearly."""
    import shapely

    line = shapely.LineString(stage.road.path.xy)
    return [i for i in network.intersections if i.polygon.distance(line) < JUNCTION_CLEAR_M]


def _crosses(lane: Any, junction: Any) -> bool:
    return any(lane is m.connectingLane for m in junction.maneuvers)


def _ends_in(lane: Any, busy: list[Any]) -> bool:
    return any(lane is m.startLane for junction in busy for m in junction.maneuvers)


def _ahead(rail: Rail) -> np.ndarray:
    """Places along a rail from where it is to its end, 5 m apart."""
    return np.arange(rail.s, rail.path.length, 5.0) if rail.direction > 0 else np.arange(rail.s, 0.0, -5.0)


def _shares(way: RoutePath, line: np.ndarray) -> bool:
    """A rail (its points) runs in this way's lane for 15 m or more."""
    if not len(line):
        return False
    gaps = np.sqrt(((line[:, None, :] - way.xy[None, ::2, :]) ** 2).sum(-1)).min(axis=1)
    return int((gaps < SAME_LANE_M).sum()) >= 3


def _distance(line: np.ndarray, path: RoutePath) -> float:
    """Smallest distance between a polyline's points and the path, m, to within a few metres."""
    gaps = line[:: max(1, len(line) // 20), None, :] - path.xy[None, ::8, :]
    return float(np.sqrt((gaps**2).sum(-1)).min())


def _line(element: Any) -> np.ndarray:
    """The middle line, 2 m apart: Scenic's own may have two points on a kilometre of straight road."""
    return RoutePath([tuple(p)[:2] for p in element.centerline.points], step=2.0).xy
