"""What a Scenic program of ours sees of the episode: the param `stage`. Plain Python, no Scenic, no simulator.

A program reads the route and its parameters here, and tells the referee what happens. Map frame of state.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import scenic_heading, yaw_of_heading
from closedloop_plugin.core.state import Control, SignalState
from closedloop_plugin.maps.base import RoadMap


@dataclass
class ScenarioStage:
    """One episode's. Programs use it by these names only; the world reads what they left."""

    road: RoadMap
    params: Mapping[str, Any]  # of the route's scenario, in the map frame; see routes.Route.params
    kind: str  # scenario type, "" for a user's program
    trigger_s: float  # m along the path where the route says that the scenario begins
    seed: int
    timestep: float = 0.05
    traffic: bool = True

    # State of the ego, renewed by the session at every tick before any behaviour runs.
    time_s: float = 0.0
    ego_s: float = 0.0  # m along the path
    ego_d: float = 0.0  # m to its left
    ego_speed: float = 0.0
    ego: Any = None  # the Scenic object

    # What the program says.
    events: list[tuple[float, str]] = field(default_factory=list)
    oncoming_allowed: bool = False
    noise: tuple[float, float] = (0.0, 0.0)  # standard deviation on the ego's steer and throttle (ControlLoss)
    signals: dict[str, SignalState] = field(default_factory=dict)  # StopLine.id -> held state; the rest cycles

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 0xAD2])

    # -- placing -------------------------------------------------------------------------------------------------
    def spot(self, s: float, d: float = 0.0) -> tuple[float, float]:
        """Map point s metres along the route and d metres to its left."""
        return self.road.path.pose(s, d)[:2]

    def heading(self, s: float, turn_deg: float = 0.0) -> float:
        """Scenic heading of the route at s, turned by so many degrees counter-clockwise."""
        return scenic_heading(self.road.path.pose(s)[2] + math.radians(turn_deg))

    def lane(self, steps: int) -> float:
        """d of the centre of the lane so many lanes to the left (negative: right) of the ego's."""
        return steps * self.road.lane_width

    def number(self, name: str, default: float) -> float:
        """A numeric parameter of the route, or the program's default where the route has none."""
        value = self.params.get(name, default)
        return float(value)

    def interval(self, name: str, default: tuple[float, float]) -> tuple[float, float]:
        """A (from, to) parameter; a single number stands for both."""
        value = self.params.get(name, default)
        return (value[0], value[1]) if isinstance(value, tuple) else (float(value), float(value))

    @property
    def reached_trigger(self) -> bool:
        """The ego's nose is within 2 m of the trigger point: a car that waits at a stop line there has reached it."""
        return self.ego_s + 4.3 >= self.trigger_s

    # -- telling -------------------------------------------------------------------------------------------------
    def event(self, name: str) -> None:
        """Something happened, once: "trigger" (the scenario begins), "act" (its actor acts), "end", "scenario timeout",
        "yield failed" (the referee counts the last two)."""
        if all(name != known for _, known in self.events):
            self.events.append((round(self.time_s, 3), name))

    def happened(self, name: str) -> bool:
        return any(name == known for _, known in self.events)

    def hold_signals(self, route: SignalState | str | None = None, cross: SignalState | str | None = None) -> None:
        """Hold the lights on the ego's route, and those of all other approaches; None leaves them as they are."""
        for line in self.road.stop_lines:
            wanted = route if line.on_route else cross
            if line.control == "signal" and wanted is not None:
                self.signals[line.id] = SignalState(wanted)

    def free_signals(self) -> None:
        """Let the lights cycle again."""
        self.signals.clear()

    # -- for the session -----------------------------------------------------------------------------------------
    def observe(self, ego: Any, tick: int) -> None:
        """Take the ego's state at this tick (a Scenic object: position, heading, speed)."""
        self.ego = ego
        self.time_s = tick * self.timestep
        x, y = float(ego.position[0]), float(ego.position[1])
        near = None if tick == 0 else self.ego_s
        self.ego_s, self.ego_d = self.road.path.locate(x, y, near)
        self.ego_speed = float(ego.speed or 0.0)

    def disturbed(self, control: Control) -> Control:
        """The control that reaches the wheels: with the program's noise on it."""
        if self.noise == (0.0, 0.0):
            return control
        steer, throttle = self.rng.normal(0.0, self.noise)
        return Control(control.steer + steer, control.throttle + throttle, control.brake).checked()

    def ego_yaw(self) -> float:
        return yaw_of_heading(float(self.ego.heading))
