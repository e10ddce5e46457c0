"""Traffic light states by time.

The signals of one junction share a cycle of two phases: first the approaches along one axis (the route's and the
opposite one), then those across. A phase is 10 s green, 3 s yellow, 2 s all red. A program may hold signals in a state
(ScenarioStage.hold_signals).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import shapely

from closedloop_plugin.core.state import SignalState, StopLine
from closedloop_plugin.scenarios.known_words import known_word

GREEN_S, YELLOW_S, CLEAR_S = 10.0, 3.0, 2.0
PHASE_S = GREEN_S + YELLOW_S + CLEAR_S
CYCLE_S = 2 * PHASE_S
JUNCTION_M = 45.0  # stop lines closer than this to each other belong to one junction


class TrafficLightCycle:
    """States of all signals, by StopLine.id, updated by `step`. `seed` draws the offset of each junction's cycle."""

    def __init__(self, lines: Sequence[StopLine], seed: int) -> None:
        self.lines = [line for line in lines if line.control == "signal"]
        rng = np.random.default_rng([seed, 0x115])
        self._group: dict[str, int] = {}
        self._mates: dict[str, list[str]] = {}
        self._offset: dict[str, float] = {}
        for junction in _junctions(self.lines):
            offset = float(rng.uniform(0.0, CYCLE_S))
            # Group 0: approaches within 45 degrees of the axis, in either direction; group 1: those across.
            axis = next((line for line in junction if line.on_route), junction[0]).yaw
            for line in junction:
                self._group[line.id] = 0 if abs(math.cos(line.yaw - axis)) > math.sqrt(0.5) else 1
                self._offset[line.id] = offset
                self._mates[line.id] = [other.id for other in junction]
        self.state: dict[str, SignalState] = {}
        self._yellow_until: dict[str, float] = {}
        self.step(0.0, {})

    def step(self, time_s: float, held: Mapping[str, SignalState]) -> None:
        """Set the states at `time_s`. A green signal that is held to red shows yellow for YELLOW_S first."""
        for line in self.lines:
            wanted = self._wanted(line.id, time_s, held)
            if wanted is SignalState.RED and self.state.get(line.id) is SignalState.GREEN and time_s > 0:
                self._yellow_until[line.id] = time_s + YELLOW_S
            if wanted is SignalState.RED and time_s < self._yellow_until.get(line.id, 0.0) - 1e-9:
                wanted = SignalState.YELLOW
            self.state[line.id] = wanted

    def _wanted(self, line: str, time_s: float, held: Mapping[str, SignalState]) -> SignalState:
        if line in held:
            return held[line]
        group = self._group[line]
        for mate in self._mates[line]:  # no green across a held green
            if mate in held and self._group[mate] != group and held[mate] is not SignalState.RED:
                return SignalState.RED
        return phase(time_s + self._offset[line] - group * PHASE_S)


def phase(time_s: float) -> SignalState:
    """State of group 0 at `time_s` of its cycle."""
    at = time_s % CYCLE_S
    if at < GREEN_S:
        return SignalState.GREEN
    return SignalState.YELLOW if at < GREEN_S + YELLOW_S else SignalState.RED


def _junctions(lines: Sequence[StopLine]) -> list[list[StopLine]]:
    """Single-linkage groups of lines, in the order given."""
    groups: list[list[StopLine]] = []
    for line in lines:
        near = [g for g in groups if any(math.dist((line.x, line.y), (o.x, o.y)) < JUNCTION_M for o in g)]
        merged = [one for g in near for one in g] + [line]
        groups = [g for g in groups if g not in near] + [merged]
    return groups


# Traffic lights of a whole Scenic network, for programs that read and set them as in Scenic's CARLA model.
#
# The lights on the ego's way are those of the world: what a program sets there, drivers see and obey. Lights farther
# away have a cycle of their own, which only the program reads.

SAME_LINE_M = 6.0  # a lane that ends so close to a stop line of the world, in its direction, ends at it
FARTHEST_LANES = 40  # to follow ahead of a vehicle


class NetworkSignals:
    """Stop lines with a light, by lane and by OpenDRIVE id. `held`: states that the world's lights are held in."""

    def __init__(self, network: Any, lights: TrafficLightCycle, held: dict[str, SignalState], seed: int) -> None:
        self._lights, self._held = lights, held
        self._line_of_lane: dict[str, str] = {}
        self._lines_of_signal: dict[str, list[str]] = {}
        far: dict[str, StopLine] = {}
        for maneuver in [m for crossing in network.intersections for m in crossing.maneuvers]:
            ids = [str(s.openDriveID) for s in maneuver.connectingLane.road.signals if s.isTrafficLight]
            if not ids:
                continue
            lane = maneuver.startLane
            line = self._line_of_lane.get(lane.uid) or self._line_at(lane, far)
            self._line_of_lane[lane.uid] = line
            for name in ids:
                found = self._lines_of_signal.setdefault(name, [])
                if line not in found:
                    found.append(line)
        self._far = TrafficLightCycle(tuple(far.values()), seed)
        self._far_held: dict[str, SignalState] = {}
        self._stepped = -1.0

    def _line_at(self, lane: Any, far: dict[str, StopLine]) -> str:
        """Id of the stop line at a lane's end: the world's, or a new one."""
        (x0, y0), (x, y) = (tuple(point)[:2] for point in lane.centerline.points[-2:])
        yaw = math.atan2(y - y0, x - x0)
        for line in self._lights.lines:
            gap = math.dist((x, y), (line.x, line.y))
            if gap < max(SAME_LINE_M, 0.5 * line.width) and math.cos(line.yaw - yaw) > 0.7:
                return line.id
        new = StopLine(f"far/{lane.uid}", float(x), float(y), yaw, 3.5, "signal")
        far[new.id] = new
        return new.id

    def state(self, line: str, time_s: float) -> SignalState:
        """State of a light now."""
        if line in self._lights.state:
            return self._lights.state[line]
        self._step_far(time_s)
        return self._far.state[line]

    def _step_far(self, time_s: float) -> None:
        if time_s != self._stepped:
            self._stepped = time_s
            self._far.step(time_s, self._far_held)

    def hold(self, line: str, colour: str) -> None:
        """Set a light at once, and hold it. Raises UnknownWord for off and unknown, which no light here shows."""
        state = SignalState(known_word("signal state", colour, SignalState))
        cycle, held = (self._lights, self._held) if line in self._lights.state else (self._far, self._far_held)
        held[line] = cycle.state[line] = state

    def freeze(self, time_s: float) -> None:
        """Hold all lights as they are."""
        self._step_far(time_s)
        self._held.update({line: state for line, state in self._lights.state.items() if line not in self._held})
        self._far_held.update({line: s for line, s in self._far.state.items() if line not in self._far_held})

    def unfreeze(self) -> None:
        """Return all lights to their cycles."""
        self._held.clear()
        self._far_held.clear()

    def lines_of(self, signal: Any) -> list[str]:
        """Stop lines of a signal of the network. Raises RuntimeError for one that is no traffic light."""
        if not signal.isTrafficLight:
            raise RuntimeError("the signal is no traffic light")
        return self._lines_of_signal.get(str(signal.openDriveID), [])

    def ahead_of(self, vehicle: Any, distance: float) -> str | None:
        """The stop line of the next light on the vehicle's lane within `distance` metres; None inside a junction."""
        lane = None if vehicle._intersection is not None else vehicle._lane
        if lane is None:
            return None
        line = lane.centerline.lineString
        left = line.length - line.project(shapely.Point(vehicle.position.x, vehicle.position.y))
        for _ in range(FARTHEST_LANES):
            if left > distance:
                return None
            if lane.uid in self._line_of_lane:
                return self._line_of_lane[lane.uid]
            linked = [m.connectingLane or m.endLane for m in lane.maneuvers or ()] or [lane._successor]
            following = [one for one in linked if one is not None]
            if not following:  # the end of the road
                return None
            lane = min(following, key=_bend)  # the lane that continues most directly
            left += lane.centerline.lineString.length
        return None


def _bend(lane: Any) -> float:
    points = np.asarray([tuple(point)[:2] for point in lane.centerline.points])
    first, last = points[1] - points[0], points[-1] - points[-2]
    return abs(math.remainder(math.atan2(last[1], last[0]) - math.atan2(first[1], first[0]), math.tau))
