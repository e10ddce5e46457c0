"""Steering by the words of a direction: along the route, in a lane beside it, or off the route.

Lanes are counted from the route's own, LANE_M wide, to the left. A lane beside it is kept only after words have changed
into it, so that a wide turn or a start beside the road is no lane change. RouteLanes keeps this memory by episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from closedloop_plugin.core.state import Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.tracking import LANE_M
from closedloop_plugin.driver.interpreters.parsing.waypoints import steer_at

TURN, CHANGE, SLIGHT = 0.55, 0.2, 0.1  # steering off the route; the last two if the car's lane is not known
SIDE_M = 1.0  # "steer slightly left": from the middle of the lane
WAY_S, WAY_M = 2.0, 3.5  # a lane change takes about 2 s, and 3.5 m from standstill
EPISODES = 4096  # that are remembered; the oldest is forgotten first
_SAME_WAY = {
    "left": RouteCommand.LEFT,
    "right": RouteCommand.RIGHT,
    "change_left": RouteCommand.CHANGE_LEFT,
    "change_right": RouteCommand.CHANGE_RIGHT,
}
_TURNS = (RouteCommand.LEFT, RouteCommand.RIGHT)


@dataclass
class LaneMemory:
    """Of one episode. lane: kept now, 0 is the route's own; changing: the last words were a lane change."""

    tick: int
    lane: int = 0
    changing: bool = False


@dataclass
class RouteLanes:
    """The lanes that the cars of all episodes keep."""

    _episodes: dict[str, LaneMemory] = field(default_factory=dict)

    def steer(self, way: str | None, request: DecisionRequest) -> float:
        """Steering in [-1, 1], right > 0, for the direction `way` of a DrivingInstruction."""
        memory = self._memory(request)
        observation = request.observation
        offset = observation.route_offset
        near = 0 if offset is None else round(offset / LANE_M)
        if observation.command in _TURNS:
            memory.lane = 0  # lanes end at a junction
        elif memory.changing or near == 0:
            memory.lane = near
        memory.changing = way in ("change_left", "change_right")
        return _steer(way, observation, memory.lane)

    def _memory(self, request: DecisionRequest) -> LaneMemory:
        tick = request.observation.tick
        memory = self._episodes.pop(request.episode, None)
        if memory is None or tick < memory.tick:  # the first decision, or the episode was started again
            memory = LaneMemory(tick)
        memory.tick = tick
        self._episodes[request.episode] = memory
        if len(self._episodes) > EPISODES:
            del self._episodes[next(iter(self._episodes))]
        return memory


def _steer(way: str | None, observation: Observation, lane: int) -> float:
    if way is not None and observation.command is _SAME_WAY.get(way):
        return _toward(observation, 0.0)
    side = {"left": 1, "right": -1}.get((way or "").rpartition("_")[2], 0)
    if way in ("left", "right"):
        return -side * TURN
    if way == "straight" and observation.command in _TURNS:
        return 0.0
    if observation.route_offset is None:
        along = steer_at(*observation.target)
        return -side * CHANGE if way in _SAME_WAY else min(max(along - side * SLIGHT, -1.0), 1.0)
    if way in _SAME_WAY:
        # The next lane until the car is within a quarter of a lane of its middle; from there on the one after it.
        return _toward(observation, LANE_M * (round(observation.route_offset / LANE_M - side * 0.25) + side))
    return _toward(observation, LANE_M * lane + side * SIDE_M)


def _toward(observation: Observation, offset: float) -> float:
    """Steering to the line `offset` metres to the left of the route; `offset` 0 without a known lane."""
    forward, left = observation.target
    own = observation.route_offset
    if own is None or (offset == 0.0 and abs(own) < SIDE_M) or forward <= WAY_M:
        return steer_at(forward, left + offset)
    # Straight lines in the car's frame: the route from (0, -own) to (forward, left). A slow car aims at a nearer point.
    share = min(max(WAY_S * observation.speed, WAY_M) / forward, 1.0)
    return steer_at(forward * share, -own + (left + own) * share + offset)
