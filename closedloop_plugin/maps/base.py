"""A map as the loop needs it: an OpenDRIVE file, the route's path on it, and where each piece of it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import StopLine


@dataclass(frozen=True)
class RoadLayout:
    """What a scenario type needs beside the ego's lane; a town file has its own and ignores this.

    Lanes are counted from the ego's lane: `left` and `right` more lanes of its direction, `oncoming` lanes beyond.
    """

    topology: str = "corridor"  # corridor | junction | merge | diverge
    left: int = 0
    right: int = 0
    oncoming: int = 1
    shoulder: bool = True
    parking: str = ""  # "", left, right, both: a parking lane in the place of the shoulder
    bicycle: bool = False  # a bicycle lane at the right edge
    arms: int = 4  # of a junction: 3 or 4
    control: str = "none"  # of a junction: signal | stop | yield | none
    lane_width: float = 3.5


@dataclass(frozen=True)
class RouteSection:
    """A stretch of the route and how its shape is known: measured | interpolated | invented."""

    start_m: float
    end_m: float
    geometry: str


@dataclass(frozen=True)
class RoadMap:
    """One route's map. `file` is OpenDRIVE; everything else is in the map frame of state.py."""

    file: File
    source: str  # "town" | "corridor"
    town: str
    sha256: str  # of the file's bytes
    path: RoutePath  # the ego's route: centre of the lane that it should drive
    pieces: tuple[RouteSection, ...]
    junctions: tuple[tuple[float, float], ...] = ()  # (from, to) in m along the path
    changes: tuple[tuple[float, float, int], ...] = ()  # lane changes that the route asks for
    stop_lines: tuple[StopLine, ...] = ()  # all approaches, the route's own with on_route
    lane_width: float = 3.5
    speed_limit: float = 50 / 3.6  # m/s
    experimental: bool = False  # topology not sound: kept out of headline means
    invented: tuple[str, ...] = ()  # what the map holds and no source says; () for a town's own file
    facts: dict[str, Any] = field(default_factory=dict)  # for scenario programs: table in docs/closed-loop.md
