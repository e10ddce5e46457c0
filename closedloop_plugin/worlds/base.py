"""The World: what an episode is run in. Its contract: tests/contracts/test_worlds.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, Protocol

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import Control, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadMap


@dataclass(frozen=True)
class EpisodeSetup:
    """One episode to run: a `route` (its scenario comes from the catalogue) or a `program`, a user's .scenic file."""

    route: Route | None
    seed: int
    cameras: tuple[Camera, ...] = ()
    timestep: float = 0.05
    program: File | None = None
    town: File | None = None  # OpenDRIVE file to use instead of a corridor
    traffic: bool = True  # background vehicles and pedestrians
    weather: Weather | None = None  # instead of the route's
    values: Mapping[str, Any] = field(default_factory=dict)  # for the program's `param`s, instead of what it draws
    max_ticks: int = 4000


@dataclass(frozen=True)
class ParameterDomain:
    """What a free parameter may be: real or whole numbers in [low, high], or one of `options`."""

    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    options: tuple[Any, ...] = ()


class WorldError(RuntimeError):
    """The simulator failed (not the agent, not the user): the episode may be tried again."""


class InvalidScene(RuntimeError):
    """The scenario cannot be placed or was rejected: an invalid episode, counted, never dropped."""


class World(Protocol):
    """One simulator. reset -> step* -> (reset ... | close). Main thread only, one episode at a time.

    `reset` raises InvalidScene, WorldError, or errors.Ad2Error (a user's mistake: a missing map, a wrong program).
    `step` applies the control for one timestep and returns what the car sees then. After the scenario or the tick
    limit has ended the simulation, `step` raises WorldError; `done` says so before.
    """

    backend: str  # "embedded", "carla", "fake": stands in every record, and decides which suites may run
    version: str

    def reset(self, setup: EpisodeSetup) -> Observation: ...

    def step(self, control: Control) -> Observation: ...

    def truth(self) -> GroundTruth: ...

    @property
    def road(self) -> RoadMap: ...

    @property
    def done(self) -> str | None:
        """Why the simulation itself has ended (a user's `terminate`), or None."""
        ...

    @property
    def weather(self) -> Weather:
        """Of this episode: the setup's, the route's, and what the program says of it."""
        ...

    @property
    def drawn(self) -> Mapping[str, Any]:
        """The free parameters of this episode's program (`param name = Range(...)`) with the values that they have."""
        ...

    def space(self, setup: EpisodeSetup) -> Mapping[str, ParameterDomain]:
        """The free parameters of a setup's program, without running it. Ends the episode that runs.

        Ad2Error: the program is wrong."""
        ...

    def close(self) -> None: ...
