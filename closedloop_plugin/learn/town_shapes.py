"""Shapes of made routes at random places of a town: roads without a junction, and turns at traffic lights.

Only types whose scenario needs no more than the lanes and lights that a town has: no parking lanes, no flow whose ends
the route gives, no ramps. Coordinates are the town's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.learn.route_draws import RouteDraws
from closedloop_plugin.learn.route_shapes import STEP, RouteShape
from closedloop_plugin.maps.curves import Pose
from closedloop_plugin.maps.towns.lanes import LaneNetwork, TownLane, read_town
from closedloop_plugin.maps.towns.town_road import crossings, lanes_beside, yaw_at

TURN = math.radians(30)  # a smaller change of direction at a junction is no turn
EXIT_M = (28.0, 34.0)  # m of road behind a junction
LEAD_M = (21.0, 28.0)  # m of road before it
TRIGGER_M = (9.0, 15.0)  # m from the start of a road to the trigger point

Fits = Callable[[dict[str, int]], bool]  # of the numbers of lanes: left, right, oncoming


def _any(lanes: dict[str, int]) -> bool:
    return True


def _one_way(lanes: dict[str, int]) -> bool:
    return lanes["left"] > 0


def _two_ways(lanes: dict[str, int]) -> bool:
    return lanes["left"] == 0 and lanes["oncoming"] == 1


ROADS: Mapping[str, Fits] = {
    "Accident": _one_way,
    "AccidentTwoWays": _two_ways,
    "ConstructionObstacle": _one_way,
    "ConstructionObstacleTwoWays": _two_ways,
    "ControlLoss": _any,
    "DynamicObjectCrossing": _any,
    "HardBreakRoute": _any,
    "HazardAtSideLane": _one_way,
    "HazardAtSideLaneTwoWays": _two_ways,
    "ParkedObstacle": _one_way,
    "ParkedObstacleTwoWays": _two_ways,
}
TURNS = frozenset({
    "PedestrianCrossing", "T_Junction", "VanillaSignalizedTurnEncounterGreenLight",
    "VanillaSignalizedTurnEncounterRedLight",
})  # fmt: skip
IN_TOWNS = frozenset(ROADS) | TURNS


@dataclass(frozen=True)
class TownStretch:
    """Lanes without a junction that follow one another; room: m from the start of the first to the end of the last."""

    lanes: tuple[TownLane, ...]
    room: float


class MadeTown:
    """The places of a town at which routes can start."""

    def __init__(self, file: Path) -> None:
        self.name = Path(file).stem
        self.network: LaneNetwork = read_town(Path(file))

    @cached_property
    def stretches(self) -> list[TownStretch]:
        """One from each driving lane outside junctions, to the next junction."""
        found = []
        for lane in self.network.drivable():
            if lane.junction >= 0:
                continue
            lanes = [lane]
            while (after := self._only(lanes[-1])) is not None and after not in lanes:
                lanes.append(after)
            found.append(TownStretch(tuple(lanes), sum(part.length for part in lanes)))
        return found

    @cached_property
    def approaches(self) -> list[tuple[TownLane, int]]:
        """Lanes that end at a junction with traffic lights, longer than the way to it; and the junction's arms."""
        found = []
        for box in crossings(self.network, np.zeros((1, 2)), math.inf).values():
            arms = len({group.lanes[0].key[0] for group in box.groups} | set(box.leaving))
            lanes = [lane for group in box.groups if group.control == "signal" for lane in group.lanes]
            found += [(lane, arms) for lane in lanes if lane.length > LEAD_M[1] + 1.0]
        return found

    def shape(self, draws: RouteDraws, name: str, size: float) -> RouteShape | None:
        """A random place for a route of this type of IN_TOWNS and about `size` metres; None if there is none."""
        return self._turn(draws, name) if name in TURNS else self._road(draws, ROADS[name], size)

    def _road(self, draws: RouteDraws, fits: Fits, size: float) -> RouteShape | None:
        long = [s for s in self.stretches if s.room > size + 1.0 and self._fit(s, fits)]
        if not long:
            return None
        room = np.array([min(s.room - size, s.lanes[0].length) for s in long])
        chosen = long[int(draws.rng.choice(len(long), p=room / room.sum()))]
        start = float(draws.rng.uniform(0.0, min(chosen.room - size, chosen.lanes[0].length)))
        points = along(np.vstack([lane.centre for lane in chosen.lanes]), start, start + size)
        return RouteShape(points, pose_at(points, draws.between(*TRIGGER_M)))

    def _turn(self, draws: RouteDraws, name: str) -> RouteShape | None:
        """Before and after a junction of lights; a turn, except where pedestrians cross before it."""
        straight = name == "PedestrianCrossing"
        ways = [
            (lane, way, after)
            for lane, arms in self.approaches
            if arms == 3 or name != "T_Junction"
            for way in self._through(lane)
            if (after := self._only(way)) is not None and after.length > EXIT_M[1]
            if straight or abs(wrap(yaw_at(way.centre, -1) - yaw_at(way.centre, 0))) > TURN
        ]
        if not ways:
            return None
        lane, _, after = draws.either(ways)
        lead = draws.between(*LEAD_M)
        come = along(lane.centre, lane.length - lead, lane.length)
        go = along(after.centre, 0.0, draws.between(*EXIT_M))
        trigger = draws.between(1, 10) if straight else lead - draws.between(0, 6)
        return RouteShape(np.vstack([come, go]), pose_at(come, trigger), pose_at(come, lead), pose_at(go, 0.0))

    def _fit(self, stretch: TownStretch, fits: Fits) -> bool:
        return all(fits(lanes_beside(self.network, lane.key)) for lane in stretch.lanes)

    def _only(self, lane: TownLane) -> TownLane | None:
        """The lane that follows, if there is only one and it is outside junctions."""
        after = [self.network.lanes[key] for key in lane.after]
        return after[0] if len(after) == 1 and after[0].junction < 0 else None

    def _through(self, lane: TownLane) -> list[TownLane]:
        return [way for key in lane.after if (way := self.network.lanes[key]).junction >= 0]


def along(centre: np.ndarray, start: float, end: float) -> np.ndarray:
    """Points about STEP metres apart from `start` to `end` metres along a line, (N, 2)."""
    gaps = np.hypot(*np.diff(centre, axis=0).T)
    keep = np.r_[True, gaps > 1e-6]
    line = centre[keep]
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(line, axis=0).T))]
    at = np.linspace(max(start, 0.0), min(end, s[-1]), max(2, math.ceil((end - start) / STEP) + 1))
    return np.column_stack([np.interp(at, s, line[:, i]) for i in (0, 1)])


def pose_at(points: np.ndarray, metres: float) -> Pose:
    """The pose that many metres along a line of points."""
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    i = min(max(int(np.searchsorted(s, metres, side="right")) - 1, 0), len(points) - 2)
    (x, y), step = points[i], points[i + 1] - points[i]
    share = (min(metres, float(s[-1])) - s[i]) / (s[i + 1] - s[i])
    return float(x + share * step[0]), float(y + share * step[1]), math.atan2(step[1], step[0])
