"""RoadMap: an OpenDRIVE file, the route's path on it, and the origin of each section's geometry."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Pose
from closedloop_plugin.core.state import StopLine

CORRIDOR = "corridor"  # the topology without a junction


@dataclass(frozen=True)
class RoadLayout:
    """Lanes and junction that a scenario type needs; not used with a town file.

    `left` and `right`: numbers of further lanes of the ego's direction beside its lane; `oncoming`: opposite lanes.
    """

    topology: str = CORRIDOR  # corridor | junction | merge | diverge
    left: int = 0
    right: int = 0
    oncoming: int = 1
    shoulder: bool = True
    parking: str = ""  # "", left, right, both: a parking lane instead of the shoulder
    bicycle: bool = False  # a bicycle lane at the right edge
    arms: int = 4  # of a junction: 3 or 4
    control: str = "none"  # of a junction: signal | stop | yield | none
    lane_width: float = 3.5


@dataclass(frozen=True)
class RouteSection:
    """A section of the route and the origin of its geometry: measured | interpolated | invented."""

    start_m: float
    end_m: float
    geometry: str


@dataclass(frozen=True)
class RoadMap:
    """The map of one route. `file` is OpenDRIVE; all else is in the map frame of core/state.py."""

    file: Path
    source: str  # "town" | "corridor"
    town: str
    sha256: str  # of the file's bytes
    path: RoutePath  # the ego's route: centre of its lane
    pieces: tuple[RouteSection, ...]
    junctions: tuple[tuple[float, float], ...] = ()  # (from, to) in m along the path
    changes: tuple[tuple[float, float, int], ...] = ()  # lane changes of the route: (from, to, +1 left | -1 right)
    stop_lines: tuple[StopLine, ...] = ()  # of all approaches; that of the route with on_route
    lane_width: float = 3.5
    speed_limit: float = 50 / 3.6  # m/s
    experimental: bool = False  # unsound topology: excluded from headline means
    invented: tuple[str, ...] = ()  # parts without a source; () for a town file
    facts: dict[str, Any] = field(default_factory=dict)  # for scenario programs: table in docs/closed-loop.md
    facts_at: dict[Pose, dict[str, Any]] = field(default_factory=dict)  # of a town: by trigger point, if it has several
