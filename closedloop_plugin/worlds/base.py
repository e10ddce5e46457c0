"""World: the protocol of a simulator that runs episodes. Contract tests: tests/contracts/test_worlds.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import Control, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap


@dataclass(frozen=True)
class EpisodeSetup:
    """One episode to run: a `route`, with the standard scenario of its type from the catalogue, a `program` (.scenic
    file), or both: the program then plays on top of the standard scenario, or `alone`."""

    route: Route | None
    seed: int
    cameras: tuple[Camera, ...] = ()
    timestep: float = 0.05  # s
    program: Path | None = None
    alone: bool = False  # the program replaces the route's standard scenario
    town: Path | None = None  # OpenDRIVE file to use instead of a corridor
    traffic: bool = True  # background vehicles and pedestrians
    weather: Weather | None = None  # replaces the route's
    values: Mapping[str, Any] = field(default_factory=dict)  # fix the program's `param`s, which are drawn otherwise
    max_ticks: int = 4000

    @property
    def keeps_standard(self) -> bool:
        """True if a program plays on top of its route's standard scenario, if the catalogue has one for the type."""
        return self.route is not None and self.program is not None and not self.alone


@dataclass(frozen=True)
class ParameterDomain:
    """Domain of a free parameter: real or whole numbers in [low, high], or one of `options`."""

    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    options: tuple[Any, ...] = ()


class WorldError(RuntimeError):
    """The simulator failed, not the agent or the user; the episode may be repeated."""


class InvalidScene(RuntimeError):
    """The scenario cannot be placed or was rejected. The episode is recorded and counted as invalid."""


def shown_by(world: World) -> tuple[str, ...]:
    """Perception conditions (core/perception.py) that the world's pictures can show: its attribute `shown`, if any."""
    return tuple(getattr(world, "shown", ()))


def not_played_in(world: World) -> Mapping[str, str]:
    """Reasons by the names of the scenarios of its route without which the world runs the episode: its attribute
    `not_played`, if any."""
    found: Mapping[str, str] = getattr(world, "not_played", {})
    return found


class World(Protocol):
    """One simulator. Calls: reset, step*, then reset again or close. Main thread only, one episode at a time.

    `reset` raises InvalidScene, WorldError, or Ad2Error (a user's mistake, such as a missing map or a wrong program).
    `step` applies the control for one timestep and returns the observation after it. Once the scenario or the tick
    limit has ended the simulation, `done` is set and `step` raises WorldError.
    """

    backend: str  # "embedded", "carla", "fake": written to every record, decides which suites may run
    version: str

    def reset(self, setup: EpisodeSetup) -> Observation: ...

    def step(self, control: Control) -> Observation: ...

    def truth(self) -> GroundTruth: ...

    @property
    def road(self) -> RoadMap: ...

    @property
    def done(self) -> str | None:
        """Reason for the end of the simulation (such as a program's `terminate`), or None."""
        ...

    @property
    def weather(self) -> Weather:
        """Weather of this episode: the setup's or the route's, with the changes of the program."""
        ...

    @property
    def drawn(self) -> Mapping[str, Any]:
        """Values of the free parameters (`param name = Range(...)`) of this episode's program."""
        ...

    def space(self, setup: EpisodeSetup) -> Mapping[str, ParameterDomain]:
        """Domains of the free parameters of a setup's program, without running it. Ends a running episode.

        Raises Ad2Error if the program is wrong.
        """
        ...

    def close(self) -> None: ...
