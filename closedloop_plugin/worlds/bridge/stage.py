"""ScenarioStage: the param `stage` of our Scenic programs. Does not need Scenic or a simulator.

A program reads the route and its parameters from it, and reports events to the referee. Map frame of core/state.py.

If a user's program plays on top of its route's standard scenarios, or a route has several, each has a stage of its own:
`parts` of the program's stage are those of the scenarios under it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import scenic_heading, yaw_of_heading
from closedloop_plugin.core.state import Control, SignalState
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scenarios.known_words import finite, known_word

STANDARD = "standard"  # role of the bodies of a standard scenario that plays under a user's program
BASE = "base "  # prefix of its events: "base trigger", "base act"
NO_FILE = Path("no road yet")  # until a program without a route is compiled
COUNTED = ("scenario timeout", "yield failed")  # events that the referee counts, whoever reports them; no prefix
# One of several scenarios is in the scene from this far before its trigger point until this far behind it, m.
APPEARS_M, LEAVES_M = 150.0, 250.0


@dataclass
class ScenarioStage:
    """Interface between one episode's program and the world. Programs use these names; do not rename them."""

    road: RoadMap
    params: Mapping[str, Any]  # of the route's scenario, map frame; see routes.Route.params
    kind: str  # scenario type, "" for a user's program
    trigger_s: float  # m along the path where the scenario begins
    seed: int
    timestep: float = 0.05
    traffic: bool = True

    # State of the ego, updated at every tick before any behaviour runs.
    time_s: float = 0.0
    ego_s: float = 0.0  # m along the path
    ego_d: float = 0.0  # m to its left
    ego_speed: float = 0.0
    ego: Any = None  # the Scenic object

    # Set by the program.
    events: list[tuple[float, str]] = field(default_factory=list)
    oncoming_allowed: bool = False
    streams: list[Any] = field(default_factory=list)  # flows of cars, scenarios/flows.py
    # Disturbance of the ego's steer and throttle (ControlLoss): standard deviation and mean.
    noise: tuple[float, float] = (0.0, 0.0)
    bias: tuple[float, float] = (0.0, 0.0)
    signals: dict[str, SignalState] = field(default_factory=dict)  # StopLine.id -> held state; the others cycle

    parts: tuple[ScenarioStage, ...] = ()  # of the scenarios that play under this program
    base: bool = False  # this is the stage of a standard scenario under a user's program
    label: str = ""  # name of this scenario, if its route has several: part of its events' names
    _reported: set[str] = field(default_factory=set, init=False)  # names of events, see report

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 0xAD2])

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises AttributeError for a name that no world reads, such as a misspelt one in a program."""
        if name not in type(self).__dataclass_fields__ and name != "rng":
            raise AttributeError(f"stage has no attribute '{name}'", name=name, obj=self)
        object.__setattr__(self, name, value)

    # -- places --------------------------------------------------------------------------------------------------
    def spot(self, s: float, d: float = 0.0) -> tuple[float, float]:
        """Map point s m along the route and d m to its left. Raises ValueError while there is no route."""
        self._check_road("stage.spot, place")
        finite("s of a place", s)
        finite("d of a place", d)
        return self.road.path.pose(s, d)[:2]

    def heading(self, s: float, turn_deg: float = 0.0) -> float:
        """Scenic heading of the route at s, turned by `turn_deg` counter-clockwise."""
        self._check_road("stage.heading, turned")
        finite("s of a heading", s)
        return scenic_heading(self.road.path.pose(s)[2] + math.radians(turn_deg))

    def _check_road(self, what: str) -> None:
        if self.road.file == NO_FILE:
            raise ValueError(
                f"{what}: the program names no route, so the ego's path is known only when the simulation runs; place "
                'actors relative to ego, or name a route: param route = "SUITE:ID"'
            )

    def lane(self, steps: int) -> float:
        """d of the centre of the lane that is `steps` lanes to the left (negative: right) of the ego's."""
        return steps * self.road.lane_width

    def number(self, name: str, default: float) -> float:
        """A numeric parameter of the route, or the default if the route has none."""
        value = self.params.get(name, default)
        return float(value)

    def interval(self, name: str, default: tuple[float, float]) -> tuple[float, float]:
        """A (from, to) parameter; a single number is taken for both."""
        value = self.params.get(name, default)
        return (value[0], value[1]) if isinstance(value, tuple) else (float(value), float(value))

    @property
    def reached_trigger(self) -> bool:
        """True if the ego's front is within 2 m of the trigger point, so that a car waiting at a stop line counts."""
        return self.ego_s + 4.3 >= self.trigger_s

    # -- outputs -------------------------------------------------------------------------------------------------
    def event(self, name: str) -> None:
        """Record an event, once: "trigger" (the scenario begins), "act" (its actor acts), "end", "scenario timeout",
        "yield failed". The referee counts the last two."""
        if not isinstance(name, str):
            raise TypeError(f"name of an event: expected a text, found {name!r}")
        if not self.happened(name):
            self.events.append((round(self.time_s, 3), self._recorded(name)))
            self._reported.add(name)

    def happened(self, name: str) -> bool:
        if self.label:  # others report events of the same name
            return name in self._reported
        return any(self._recorded(name) == known for _, known in self.events)

    def _recorded(self, name: str) -> str:
        """Name of an event in the record, which has those of the program and of the scenarios under it."""
        if name.startswith(COUNTED):
            return name
        return (BASE if self.base else "") + (f"{self.label} " if self.label else "") + name

    def hold_signals(self, route: SignalState | str | None = None, cross: SignalState | str | None = None) -> None:
        """Hold the signals on the ego's route, and those of the other approaches; None does not change them."""
        for given in (route, cross):
            if given is not None:
                known_word("signal state", given, SignalState)
        for line in self.road.stop_lines:
            state = route if line.on_route else cross
            if line.control == "signal" and state is not None:
                self.signals[line.id] = SignalState(state)

    def free_signals(self) -> None:
        """Return all signals to their cycles."""
        self.signals.clear()

    # -- for the world -------------------------------------------------------------------------------------------
    @property
    def role(self) -> str:
        """Role of this program's bodies."""
        return STANDARD if self.base else "scenario"

    @property
    def in_scene(self) -> bool:
        """True if the actors of this scenario are in the scene: always, unless the route has several."""
        return not self.label or self.trigger_s - APPEARS_M <= self.ego_s <= self.trigger_s + LEAVES_M

    @property
    def _is_past(self) -> bool:
        """True if the ego has left the junction of this scenario, one of several: its lights may cycle again, since
        those of a junction close to it depend on them."""
        return bool(self.label) and any(self.ego_s > end for _, end in self.road.junctions)

    @property
    def held_signals(self) -> dict[str, SignalState]:
        """Held states by StopLine.id. Where the program and a scenario under it hold one light, the program's."""
        held: dict[str, SignalState] = {}
        for part in self.parts:
            held |= part.signals if part.in_scene and not part._is_past else {}
        return {**held, **self.signals} if held else self.signals

    @property
    def lends_oncoming(self) -> bool:
        """True if the program or a scenario under it lets the ego use the oncoming lane."""
        return self.oncoming_allowed or any(part.oncoming_allowed for part in self.parts)

    @property
    def all_streams(self) -> list[Any]:
        """Flows of the program and of the scenarios under it."""
        return [*(stream for part in self.parts if part.in_scene for stream in part.streams), *self.streams]

    def observe(self, ego: Any, tick: int) -> None:
        """Update from the ego (a Scenic object) at this tick."""
        self.ego = ego
        self.time_s = tick * self.timestep
        x, y = float(ego.position[0]), float(ego.position[1])
        near = None if tick == 0 else self.ego_s
        self.ego_s, self.ego_d = self.road.path.locate(x, y, near)
        self.ego_speed = float(ego.speed or 0.0)
        self._share()

    def move_ego(self, x: float, y: float, tick: int) -> None:
        """Update time and place after the last tick, in which the ego's behaviour does not run."""
        self.time_s = tick * self.timestep
        self.ego_s, self.ego_d = self.road.path.locate(x, y, self.ego_s)
        self._share()

    def _share(self) -> None:
        """Pass the state of the ego on to the scenarios under this program."""
        for part in self.parts:
            for name in ("ego", "time_s", "ego_s", "ego_d", "ego_speed"):
                setattr(part, name, getattr(self, name))

    def disturbed(self, control: Control) -> Control:
        """The control with the noise and bias of the program and of the scenarios under it added."""
        for part in self.parts:
            control = part.disturbed(control)
        if self.noise == self.bias == (0.0, 0.0):
            return control
        steer, throttle = self.rng.normal(self.bias, self.noise)
        return Control(control.steer + steer, control.throttle + throttle, control.brake).checked()

    def ego_yaw(self) -> float:
        return yaw_of_heading(float(self.ego.heading))


def in_scene(part: ScenarioStage | None) -> bool:
    """True if an actor is in the scene. `part`: the stage of its scenario, None if it has none."""
    return part is None or part.in_scene
