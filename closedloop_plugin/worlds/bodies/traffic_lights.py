"""Traffic light states by time.

The signals of one junction share a cycle of two phases: first the approaches along one axis (the route's and the
opposite one), then those across. A phase is 10 s green, 3 s yellow, 2 s all red. A program may hold signals in a state
(ScenarioStage.hold_signals).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from closedloop_plugin.core.state import SignalState, StopLine

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
